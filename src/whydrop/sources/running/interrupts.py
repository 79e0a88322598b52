"""Ctrl-C while something must not be left half done, or waits where Python does not hear it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_Result = TypeVar("_Result")

# How long Ctrl-C may go unheard.
_LOOK_UP_S = 0.1


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C is only noted (what is yielded tells whether); the second is a ``KeyboardInterrupt`` as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    seen: list[int] = []

    def note(number: int, _frame: object) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def waited_for(call: Callable[[], _Result], name: str) -> _Result:
    """The result of a call that may block outside Python, made in another thread so that Ctrl-C is heard meanwhile."""
    results: list[_Result] = []
    problems: list[BaseException] = []

    def body() -> None:
        try:
            results.append(call())
        except BaseException as reason:  # handed over to the caller's thread
            problems.append(reason)

    thread = threading.Thread(target=body, daemon=True, name=name)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_UP_S)
    if problems:
        raise problems[0]
    return results[0]
