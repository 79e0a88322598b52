"""Reports that are made many times a second, passed on a few times a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# Progress is for people.
_EVERY_S = 0.2


def seldom(emit: Callable[[Any], None]) -> Callable[..., None]:
    """A function that emits its arguments as values by name, unless it did so a moment before."""
    emitted_s = -_EVERY_S

    def report(**values: Any) -> None:
        nonlocal emitted_s
        now_s = time.monotonic()
        if now_s - emitted_s >= _EVERY_S:
            emitted_s = now_s
            emit(values)

    return report
