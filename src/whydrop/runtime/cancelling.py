"""Ctrl-C, SIGTERM, SIGHUP and requests to stop: what ends the work at hand, and keeps what it has.

The command line enters :func:`signals_raised` once, around every command. Inside, each of the three signals raises a
``KeyboardInterrupt`` in the main thread, and the command line ends with the exit status of that signal.

Code that must not be left half done enters :func:`deferred`. There a signal is only noted; it is raised in the blocks
that the code opens for it, where it waits. Python programs that call whydrop as a library keep their own handlers.

Work in another thread is ended by a :class:`Cancellation`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Any, ClassVar

from whydrop.errors import Error

# People, service managers and closed terminals send these to end a program.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# Enough for Python to leave the finalizer or callback that lost the exception.
_RAISED_AGAIN_AFTER_S = 0.01


class CancelledError(Error):
    """Raised where work was cancelled before it had any result."""


class Cancellation:
    """A request to stop: any thread may cancel, and the work checks where it can end.

    >>> token = Cancellation()
    >>> token.wait(0.001)
    False
    >>> token.cancel()
    >>> token.wait(60)
    True
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Request the end, from any thread; further calls change nothing."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """True once the end was requested."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until the end is requested, or for this long; return whether it was requested."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Continue unless the end was requested.

        Raises:
            CancelledError: the end was requested.
        """
        if self.cancelled:
            raise CancelledError("cancelled before anything was measured")


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: ends the work as Ctrl-C does, with an exit status of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.status = 128 + number


class _Allowed(Enum):
    """The signals that are raised while they are deferred: none, the first one, or a Ctrl-C that follows another."""

    NONE = 0
    FIRST = 1
    REPEATED = 2


class Deferred:
    """The signals that end the program, while they are deferred (:func:`deferred`).

    Attributes:
        received: whether one was received.
    """

    def __init__(self) -> None:
        self.received = False
        self._allowed = _Allowed.NONE
        self._reason: BaseException | None = None

    @contextmanager
    def allowed(self, *, repeated: bool = False) -> Iterator[None]:
        """Raise the first signal in this block; at once if it was received before.

        Once one was raised, the following ones are deferred again: repeated signals do not interrupt the clean-up.

        Args:
            repeated: raise only a Ctrl-C that follows another signal: a person insists. Service managers and shells
                repeat SIGTERM and SIGHUP on their own.
        """
        self._allowed = _Allowed.REPEATED if repeated else _Allowed.FIRST
        try:
            if self.received and not repeated:
                raise self._reason or KeyboardInterrupt
            yield
        finally:
            self._allowed = _Allowed.NONE

    @contextmanager
    def ending_block(self) -> Iterator[None]:
        """Leave this block where a signal is raised in it, and go on behind it; :attr:`received` says whether."""
        try:
            yield
        except KeyboardInterrupt:
            # Without the command line, Python raises it anywhere.
            self.received = True

    def _handle(self, number: int) -> None:
        insisted = self.received and number == signal.SIGINT
        raised = self._allowed is _Allowed.FIRST or (self._allowed is _Allowed.REPEATED and insisted)
        self.received = True
        if raised:
            self._allowed = _Allowed.NONE
        try:
            # Outer blocks note the signal too.
            _handle_outside(self, number)
        except KeyboardInterrupt as reason:
            self._reason = reason
            if raised:
                raise
        if raised:
            # The outer block defers it.
            raise interruption()


class _Process:
    """The signals of this process. Python handles signals in the main thread only, so only that one defers them."""

    first_received: ClassVar[int | None] = None
    # The innermost last.
    deferring: ClassVar[list[Deferred]] = []
    handler: ClassVar[Callable[[int, FrameType | None], None] | None] = None


def _handle_outside(inner: Deferred | None, number: int) -> None:
    outer = _Process.deferring[: None if inner is None else _Process.deferring.index(inner)]
    if outer:
        outer[-1]._handle(number)
    else:
        raise _exception(number)


def _exception(number: int | None) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number in (None, signal.SIGINT) else Terminated(number)


def interruption() -> KeyboardInterrupt:
    """The exception of the signal that was received first; of Ctrl-C if there was none."""
    return _exception(_Process.first_received)


def exit_status() -> int:
    """The exit status of an interrupted program, as a shell reports the first signal received (or Ctrl-C)."""
    return 128 + (_Process.first_received or signal.SIGINT)


def raise_if_received() -> None:
    """Raise a signal that was received: a library may have turned it into an error of its own.

    Code that continues after errors calls this before its next step.
    """
    if _Process.first_received is not None:
        raise interruption()


@contextmanager
def deferred() -> Iterator[Deferred]:
    """Note the signals that end the program, and raise them only within :meth:`Deferred.allowed`.

    An exception between two instructions would lose a process just started, or leave a file half written. A signal
    that was only noted is not raised afterwards: the caller reads :attr:`Deferred.received`.

    In threads other than the main one, which receive no signals, nothing changes.
    """
    found = Deferred()
    if not _in_main_thread():
        yield found
        return
    _raised_once()
    _Process.deferring.append(found)
    try:
        yield found
    finally:
        _Process.deferring.remove(found)


@contextmanager
def noted(note: str | Callable[[], str | None]) -> Iterator[None]:
    """Add a note to the signal that ends this block: it says what is kept."""
    try:
        yield
    except KeyboardInterrupt as reason:
        words = note if isinstance(note, str) else note()
        if words:
            reason.add_note(words)
        raise


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise a ``KeyboardInterrupt`` for SIGINT, SIGTERM and SIGHUP, and lose none of them.

    Python ignores exceptions in finalizers and in callbacks of weak references, and prints them: the signal is then
    sent once more.

    A program started in the background of a script inherits an ignored SIGINT. It is handled all the same, since
    scripts end such programs by ``kill -INT``. An ignored SIGHUP stays ignored (nohup). Handlers of the calling program
    stay. In threads other than the main one nothing changes.
    """
    if not _in_main_thread():
        yield
        return
    main, terminals = threading.get_ident(), [stream for stream in (1, 2) if os.isatty(stream)]
    in_hook = False

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(terminals)
        _Process.first_received = _Process.first_received or number
        # Python ignores what its hook raises as well; the signal that the hook sends arrives in any case.
        if not in_hook:
            _handle_outside(None, number)

    def send_again(number: int) -> None:
        while True:
            time.sleep(_RAISED_AGAIN_AFTER_S)
            if not in_hook:
                # Only a signal of the system ends a wait.
                return signal.pthread_kill(main, number)

    def ignored(what: Any) -> None:
        nonlocal in_hook
        if not issubclass(what.exc_type, KeyboardInterrupt):
            printing(what)
            return
        in_hook = True
        number = getattr(what.exc_value, "status", 128 + signal.SIGINT) - 128
        threading.Thread(target=send_again, args=(number,), daemon=True).start()
        # Last: from here to the end of the hook Python handles no signal.
        in_hook = False

    before, printing = {number: signal.getsignal(number) for number in ENDING}, sys.unraisablehook
    ours = [number for number in ENDING if _may_handle(number)]
    outer = _Process.handler
    try:
        _Process.handler, _Process.first_received = handle, None
        sys.unraisablehook = ignored
        for number in ours:
            signal.signal(number, handle)
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])
        sys.unraisablehook = printing
        _Process.handler = outer


def _may_handle(number: signal.Signals) -> bool:
    handler = signal.getsignal(number)
    if handler is signal.SIG_IGN:
        return number == signal.SIGINT
    return handler in (signal.SIG_DFL, signal.default_int_handler)


def import_polars() -> None:
    """Import Polars, so that Ctrl-C in the midst of a query is raised once.

    Polars puts a handler in front of Python's when it is imported, and both raise a ``KeyboardInterrupt``: the second
    would interrupt the code that handles the first.
    """
    import polars  # noqa: F401 (its handler is in place from now on)

    _raised_once()


def _raised_once() -> None:
    if _in_main_thread() and signal.getsignal(signal.SIGINT) is _Process.handler is not None:
        signal.signal(signal.SIGINT, _Process.handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _leave(terminals: list[int]) -> None:
    """Discard further output to a terminal that was closed: writing to it would be an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in terminals:
        os.dup2(nowhere, stream)
    os.close(nowhere)
