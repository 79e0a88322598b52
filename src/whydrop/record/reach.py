"""Long calls into libraries, made so that Ctrl-C reaches whoever waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from whydrop.record.interrupts import put_off

T = TypeVar("T")

# Between two looks for Ctrl-C, and between two calls to what runs to end.
_PATIENCE_S = 0.1


class Worker:
    """One thread that does what it is asked, one thing after the other.

    A library that computes in the main thread looks for signals when it likes. Nor does one long wait in the main
    thread serve: the handler that Polars installs lets the system go on with it. So there are many short ones.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        """``interrupt`` ends what runs, wherever it is; it is called again until that has ended."""
        self._interrupt = interrupt
        self._asked: SimpleQueue[_Task | None] = SimpleQueue()
        # Ends with the program, whatever becomes of whoever should close it.
        threading.Thread(target=_serve, args=(self._asked,), daemon=True).start()

    def do(self, work: Callable[[], T]) -> T:
        """What ``work`` gives or raises. Where this is interrupted, the work has ended when the exception arrives."""
        task = _Task(work)
        try:
            # Either it is asked and known to be, or neither.
            with put_off():
                self._asked.put(task)
                task.was_asked = True
            while not task.is_over:
                task.wait()
        except BaseException:
            while task.was_asked and not task.is_over:
                self._interrupt()
                task.wait()
            raise
        if task.error is not None:
            raise task.error
        result: T = task.result
        return result

    def close(self) -> None:
        """Let the thread end when it has done what it was asked."""
        self._asked.put(None)


class _Task:
    """A piece of work, and what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.was_asked = self.is_over = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._work = work
        # Only wakes who waits. Its locks are taken and given back outside Python: no exception leaves one of them held.
        self._told: SimpleQueue[None] = SimpleQueue()

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as reason:  # (it is raised where it was asked)
            self.error = reason
        self.is_over = True
        self._told.put(None)

    def wait(self) -> None:
        """Until it is over, or for a moment."""
        with suppress(Empty):
            self._told.get(timeout=_PATIENCE_S)


def _serve(asked: SimpleQueue[_Task | None]) -> None:
    while (task := asked.get()) is not None:
        task.run()
        # Its result is not kept until something else is asked.
        del task
