"""A running test, seen while it runs: points for live charts, and its recording at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from whydrop.web.work.live_points import LivePoints

# Flows that are named in one message.
_MOST_NAMES = 10


class Running:
    """A test of the catalogue, in this process."""

    def __init__(self, emit: Callable[[Any], None], test: str, to: list[str], options: Mapping[str, Any]) -> None:
        """Start the test; :func:`whydrop.start` describes the options."""
        import whydrop

        self._emit = emit
        self._lock = threading.Lock()
        # Of the last event: who has all points so far knows which events have none that are new.
        self._number = 0
        self._run = whydrop.start(test, to, **options)
        self._live = LivePoints(self._run.plan.flows)
        self._thread = threading.Thread(target=self._follow, name="events of the run")
        self._thread.start()

    def live(self) -> dict[str, Any]:
        """All points so far, by series, and the number of the last event with some of them."""
        with self._lock:
            return {"number": self._number, "series": self._live.all(), "left_out": self._live.left_out}

    def stop(self) -> None:
        """End the test early; what was measured is kept."""
        self._run.stop()

    def close(self) -> None:
        """End the test, and wait until its recording is whole."""
        self._run.stop()
        self._thread.join()

    def _follow(self) -> None:
        for event in self._run.events():
            self._say(event.rows, event.elapsed_s, state=event.state, total_s=event.total_s)
        try:
            finished = self._run.wait()
        except Exception as reason:
            self._emit({"state": "failed", "problem": str(reason) or type(reason).__name__, **self._recording()})
            return
        self._emit(
            {
                "state": finished.status,
                "folder": str(finished.folder),
                "failures": list(map(str, finished.failures)),
                "warnings": list(finished.warnings),
            }
        )

    def _say(self, rows: Mapping[str, Any], elapsed_s: float | None, **values: Any) -> None:
        with self._lock:
            points = self._live.add(rows, elapsed_s)
            self._number += 1
            silent = self._live.silent(elapsed_s or 0.0)[:_MOST_NAMES]
            values |= {
                "elapsed_s": elapsed_s, "number": self._number, "left_out": self._live.left_out, "silent": silent,
            }  # fmt: skip
        self._emit({**values, **self._recording(), "series": points})

    def _recording(self) -> dict[str, str]:
        """Where the recording is, once there is one: the server finds it, should this process die."""
        return {} if self._run.folder is None else {"recording": str(self._run.folder)}
