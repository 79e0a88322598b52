"""Ctrl-C while something waits where Python does not hear it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

# How long Ctrl-C may wait.
_LOOK_UP_S = 0.1


def waited_for(call: Callable[[], _Result], name: str) -> _Result:
    """The result of a call that may block outside Python, made in a thread so that Ctrl-C is received meanwhile."""
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
