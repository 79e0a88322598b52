"""Ctrl-C, SIGTERM and SIGHUP, received in one place: people, service managers and terminals that go away send them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from whydrop.runtime.signals import ENDING, deliver

# Long enough for what ignored the exception to be left.
_AGAIN_S = 0.01


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: ends what is going on as Ctrl-C does, with an exit status of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.number = number

    @property
    def status(self) -> int:
        """The exit status, as a shell reports a signal."""
        return 128 + self.number


class Received:
    """Which signal was received.

    Attributes:
        number: of the first one; ``None`` while there was none.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def status(self) -> int:
        """The exit status of a program that was interrupted: by that signal, else by Ctrl-C."""
        return 128 + (self.number or signal.SIGINT)

    def raise_if_received(self) -> None:
        """Raise it again: a library may have made an error of its own of it, which looks like a failure."""
        if self.number is not None:
            _raise(self.number)


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(number)


@contextmanager
def as_ctrl_c() -> Iterator[Received]:
    """In the meantime SIGTERM and SIGHUP end what is going on as Ctrl-C does, and none of the three is lost.

    Each raises a ``KeyboardInterrupt`` (:class:`Terminated` those two). Two things lose one. Python ignores what is
    raised in a finalizer or a callback of a weak reference, and complains about it: then it is raised once more, where
    it is received. And a library may make an error of its own of it, which looks like a failure: so whoever goes on
    after errors calls :meth:`Received.raise_if_received` before the next step.

    A signal that is ignored (in the background of a script, under nohup) stays so, one that has a handler keeps it. In
    other threads than the main one nothing changes.
    """
    received = Received()
    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    main, terminals = threading.get_ident(), [stream for stream in (1, 2) if os.isatty(stream)]
    in_hook = False

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave(terminals)
        received.number = received.number or number
        # Python ignores what its hook raises as well; the signal that the hook arranges comes in any case.
        if not in_hook:
            deliver(number, lambda: _raise(number))

    def again(number: int) -> None:
        while True:
            time.sleep(_AGAIN_S)
            if not in_hook:
                # A signal of the system's, since only that ends what waits.
                return signal.pthread_kill(main, number)

    def ignored(what: Any) -> None:
        nonlocal in_hook
        if not issubclass(what.exc_type, KeyboardInterrupt):
            said(what)
            return
        in_hook = True
        number = getattr(what.exc_value, "number", signal.SIGINT)
        threading.Thread(target=again, args=(number,), daemon=True).start()
        # Last: from here to the end of the hook Python handles no signal.
        in_hook = False

    before, said = {number: signal.getsignal(number) for number in ENDING}, sys.unraisablehook
    ours = [number for number in ENDING if before[number] in (signal.SIG_DFL, signal.default_int_handler)]
    try:
        sys.unraisablehook = ignored
        for number in ours:
            signal.signal(number, interrupt)
        yield received
    finally:
        for number in ours:
            signal.signal(number, before[number])
        sys.unraisablehook = said


def _leave(terminals: list[int]) -> None:
    """A terminal that goes away takes no more; what is still said is said to nobody, rather than be an error."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    for stream in terminals:
        os.dup2(nobody, stream)
    os.close(nobody)
