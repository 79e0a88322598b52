"""Long calls in a thread of their own: Ctrl-C reaches the caller, and leaves no call half done.

Python raises ``KeyboardInterrupt`` in the main thread only, and only between two of its own instructions. So calls that
must not be torn, or that take long outside Python, run in another thread while the caller waits. Any thread may call.
Handlers of signals stay as they are.
"""

from __future__ import annotations

import _thread
import time
from _queue import Empty, SimpleQueue
from contextlib import suppress

# As type checkers know it: importing typing takes a tenth of the start of `whydrop explain --json`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")

#: Longest wait for an interrupted call to end, s.
PATIENCE_S = 10.0
# Between two looks for Ctrl-C, and between two interruptions of the call. One long wait would not do: the system
# continues it after the handler that Polars installs.
_LOOK_S = 0.1
_MOST_TRIES = 10


def waited_for(work: Callable[[], T]) -> T:
    """Return or raise what ``work`` does. After Ctrl-C it runs on in its thread until the program ends."""
    result: T = Call(work).outcome()
    return result


def interruptible(work: Callable[[], T], interrupt: Callable[[], object], name: str) -> T:
    """Return or raise what ``work`` does. Where this is interrupted, the work has ended when the exception arrives.

    If the work does not end within :data:`PATIENCE_S`, for example on storage that no longer answers, a note on the
    exception says so. Its thread then ends with the program.

    Args:
        work: runs in a thread of its own.
        interrupt: ends the work, and nothing else, from another thread. It is called until the work has ended, because
            a call just before the work begins may have no effect.
        name: of the work, for the note.
    """
    call = Call(work)
    try:
        result: T = call.outcome()
    except BaseException as reason:
        if not call.is_over and not call.withdraw():
            until = time.monotonic() + PATIENCE_S
            while not call.is_over and time.monotonic() < until:
                interrupt()
                call.wait(_LOOK_S)
            if not call.is_over:
                reason.add_note(f"{name} did not end within {PATIENCE_S:g} s and was abandoned")
        raise
    return result


def completed(work: Callable[[], None]) -> None:
    """Do work that must not stop in the middle: Ctrl-C is raised when it is done, a second one at once.

    The second does not end the work either: it runs on in its thread until the program ends.

    Args:
        work: gives the same result when it is repeated after a ``KeyboardInterrupt``. Polars, which has a handler of
            its own, ends its queries by one in whichever thread they run.
    """
    call = Call(lambda: _repeated(work))
    try:
        call.outcome()
    except BaseException:
        if not call.is_over and not call.withdraw():
            while not call.is_over:
                call.wait(_LOOK_S)
        raise


def _repeated(work: Callable[[], None]) -> None:
    for left in reversed(range(_MOST_TRIES)):
        try:
            work()
        except KeyboardInterrupt:
            if not left:
                raise
        else:
            return


class Call:
    """A call in a thread of its own, and its result.

    Attributes:
        is_over: true once it has returned or raised.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        self.is_over = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._work = work
        # The thread that takes this decides whether the work is done at all.
        self._unclaimed: list[None] = [None]
        # Only wakes the caller. It takes and releases its locks outside Python, so an exception leaves none locked.
        self._ended: SimpleQueue[None] = SimpleQueue()

    def outcome(self) -> Any:
        """Start it, wait for it, and return or raise what it does."""
        self.start()
        return self.result()

    def start(self) -> None:
        """Start its thread."""
        # Starting a `threading.Thread` waits, with locks that an exception would leave locked.
        _thread.start_new_thread(self._run, ())

    def result(self) -> Any:
        """Wait for it, and return or raise what it does."""
        while not self.is_over:
            self.wait(_LOOK_S)
        if self._error is not None:
            raise self._error
        return self._result

    def withdraw(self) -> bool:
        """True if it has not begun; then it never will."""
        return self._claimed()

    def wait(self, seconds: float) -> None:
        """Wait until it is over, at most this long."""
        with suppress(Empty):
            self._ended.get(timeout=seconds)

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
        except BaseException as reason:  # (the caller raises it)
            self._error = reason
        self.is_over = True
        self._ended.put(None)
