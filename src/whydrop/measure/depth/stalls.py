"""Pauses of this host while something is measured: it slept, was stopped, or had no turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# A busy host gives a program its turn within this time.
_LONG_S = 2.0
_LOOK_EVERY_S = 0.2


def _awake_or_not_s() -> float:
    """Seconds that go on while a machine sleeps, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Stalls:
    """Times in which this process did not run.

    >>> now = iter([0.0, 0.1, 62.3, 62.4])
    >>> stalls = Stalls(lambda: next(now))
    >>> [stalls.look() for _ in range(3)]
    [None, None, None]
    >>> round(stalls.stood_s, 1)
    62.2

    Attributes:
        stood_s: all of them together, seconds.
    """

    def __init__(self, now: Callable[[], float] = _awake_or_not_s) -> None:
        self._now = now
        self._last_s = now()
        self.stood_s = 0.0

    def look(self) -> None:
        """To be called several times a second."""
        last_s, self._last_s = self._last_s, self._now()
        if self._last_s - last_s > _LONG_S:
            self.stood_s += self._last_s - last_s

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have a thread look in the meantime."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK_EVERY_S):
                self.look()

        watcher = threading.Thread(target=watch, name="stalls", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
