"""Long calls, made so that Ctrl-C reaches whoever waits for them, and leaves none of them half done.

Python raises ``KeyboardInterrupt`` in the main thread only, and only between two of its own instructions. So whatever
must not be torn, or takes long outside Python, is done in another thread, while the one that asked for it waits. It
works in any thread. How the process handles signals is not touched: that is the program's own matter.
"""

from __future__ import annotations

import _thread
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

#: How long what was interrupted may take to end, s, before nobody waits for it any more.
PATIENCE_S = 10.0
# Between two looks for Ctrl-C, and between two calls to what runs to end. One long wait would not do: the handler that
# Polars installs lets the system go on with it.
_LOOK_S = 0.1
_MOST_TRIES = 10


def interruptible(work: Callable[[], T], interrupt: Callable[[], object], name: str) -> T:
    """Return or raise what ``work`` does. Where this is interrupted, the work has ended when the exception arrives.

    Unless it does not end within :data:`PATIENCE_S`, as on storage that does not answer any more: then the exception
    says so in a note, and the work is left alone with its thread, which ends with the program at the latest.

    Args:
        work: is done in a thread of its own.
        interrupt: ends the work, and nothing else, from another thread; it is called until the work has ended, as what
            comes before the work has quite begun may be lost.
        name: of what is done, for the note.
    """
    task = _Task(work)
    try:
        result: T = task.outcome()
    except BaseException as reason:
        if not task.is_over and not task.withdraw():
            until = time.monotonic() + PATIENCE_S
            while not task.is_over and time.monotonic() < until:
                interrupt()
                task.wait()
            if not task.is_over:
                reason.add_note(f"{name} did not end within {PATIENCE_S:g} s and was given up")
        raise
    return result


def whole(work: Callable[[], None]) -> None:
    """Do what must not be left in the middle: Ctrl-C has its effect when it is done, a second one at once.

    The second does not end the work either: it goes on in its thread, as long as the program does.

    Args:
        work: may be done again after it was ended by a ``KeyboardInterrupt``, with the same result. Polars, which has a
            handler of its own, ends its queries by one in whichever thread they are.
    """
    task = _Task(lambda: _undisturbed(work))
    try:
        task.outcome()
    except BaseException:
        if not task.is_over and not task.withdraw():
            while not task.is_over:
                task.wait()
        raise


def _undisturbed(work: Callable[[], None]) -> None:
    for left in reversed(range(_MOST_TRIES)):
        try:
            work()
        except KeyboardInterrupt:
            if not left:
                raise
        else:
            return


class _Task:
    """A piece of work, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.is_over = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._work = work
        # Who takes this decides whether the work is done at all.
        self._unclaimed: list[None] = [None]
        # Only wakes who waits. Its locks are taken and given back outside Python: no exception leaves one of them held.
        self._told: SimpleQueue[None] = SimpleQueue()

    def outcome(self) -> Any:
        """Have it done, and wait for it."""
        # Starting a `threading.Thread` waits, with locks that an exception would leave held.
        _thread.start_new_thread(self._run, ())
        while not self.is_over:
            self.wait()
        if self._error is not None:
            raise self._error
        return self._result

    def withdraw(self) -> bool:
        """True if it has not begun; then it never will."""
        return self._claimed()

    def _claimed(self) -> bool:
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        return True

    def _run(self) -> None:
        if not self._claimed():
            return
        try:
            self._result = self._work()
        except BaseException as reason:  # (it is raised where it was asked)
            self._error = reason
        self.is_over = True
        self._told.put(None)

    def wait(self) -> None:
        """Until it is over, or for a moment."""
        with suppress(Empty):
            self._told.get(timeout=_LOOK_S)
