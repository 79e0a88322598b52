"""A rolling capture in a process of its own, which reports its state every second and with each capture."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

_EVERY_S = 1.0


class Rolling:
    """A rolling capture that runs until it is stopped."""

    def __init__(self, emit: Callable[[Any], None], options: Mapping[str, Any]) -> None:
        """Start it; ``options`` are those of :func:`whydrop.roll`. Its state is emitted as values of JSON."""
        import whydrop

        self._emit = emit
        self._changed, self._is_over = threading.Event(), False
        self._roll = whydrop.roll(**options, on_event=lambda _: self._changed.set())
        self._reporter = threading.Thread(target=self._report, daemon=True)
        self._reporter.start()

    def _report(self) -> None:
        while not self._is_over:
            self._emit(self._roll.status())
            self._changed.wait(_EVERY_S)
            self._changed.clear()

    def status(self) -> dict[str, Any]:
        """Its state (:meth:`whydrop.Roll.status`)."""
        return self._roll.status()

    def keep(self) -> dict[str, Any]:
        """Keep the window around now; the state, in which a message says why it was skipped, if it was."""
        self._roll.keep()
        return self._roll.status()

    def stop(self) -> dict[str, Any]:
        """End it: what is kept is explained first."""
        self._is_over = True
        self._changed.set()
        self._reporter.join()
        self._roll.stop()
        return self._roll.status()

    def close(self) -> None:
        """End at once: a trigger that has fired still keeps its window, which is not explained."""
        self._is_over = True
        self._changed.set()
        self._roll.stop(waiting=False)
