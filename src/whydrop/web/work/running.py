"""A running test, seen while it runs: points for live charts, and its recording at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

# Points of each series that a page which opens late is given; beyond, every second one goes.
_MOST_POINTS = 4_000
# Probes come every few milliseconds: a chart has one point for the median of as long.
_PROBE_STEP_NS = 200_000_000

Points = dict[str, list[tuple[float, float]]]


class Running:
    """A test of the catalogue, in this process."""

    def __init__(self, emit: Callable[[Any], None], test: str, to: list[str], options: Mapping[str, Any]) -> None:
        """Start the test; :func:`whydrop.start` describes the options."""
        import whydrop

        self._emit = emit
        self._points: Points = {}
        self._lock = threading.Lock()
        self._run = whydrop.start(test, to, **options)
        # As the recording numbers them, until its own table comes.
        self._names = dict(enumerate(flow.name for flow in self._run.plan.flows))
        self._thread = threading.Thread(target=self._follow, name="events of the run")
        self._thread.start()

    def live(self) -> dict[str, Any]:
        """All points so far, by series."""
        with self._lock:
            return {"series": {name: list(points) for name, points in self._points.items()}}

    def stop(self) -> None:
        """End the test early; what was measured is kept."""
        self._run.stop()

    def close(self) -> None:
        """End the test, and wait until its recording is whole."""
        self._run.stop()
        self._thread.join()

    def _follow(self) -> None:
        for event in self._run.events():
            if "flows" in event.rows:
                self._names |= dict(event.rows["flows"].select("flow", "name").rows())
            points = live_points(event.rows, self._names)
            with self._lock:
                for name, new in points.items():
                    kept = self._points.setdefault(name, [])
                    kept += new
                    if len(kept) > _MOST_POINTS:
                        del kept[: _MOST_POINTS // 2 : 2]
            self._emit({"state": event.state, "elapsed_s": event.elapsed_s, "total_s": event.total_s, "series": points})
        try:
            finished = self._run.wait()
        except Exception as reason:
            self._emit({"state": "failed", "problem": str(reason) or type(reason).__name__})
            return
        self._emit(
            {"state": finished.status, "folder": str(finished.folder), "failures": list(map(str, finished.failures))}
        )


def live_points(rows: Mapping[str, pl.DataFrame], names: Mapping[int, str]) -> Points:
    """Goodput in Mbit/s and round trips in ms of new rows: seconds since the Unix epoch, and the value."""
    found: Points = {}
    if "intervals" in rows:
        shown = rows["intervals"].select("flow", time=pl.col("end_ns") / 1e9, value=pl.col("goodput_bps") / 1e6)
        _add(found, shown, names, "goodput")
    if "probes" in rows:
        step = (pl.col("sent_ns") // _PROBE_STEP_NS) * _PROBE_STEP_NS
        shown = rows["probes"].group_by("flow", time=step / 1e9).agg(value=pl.col("rtt_ns").median() / 1e6)
        _add(found, shown, names, "delay")
    return found


def _add(found: Points, rows: pl.DataFrame, names: Mapping[int, str], kind: str) -> None:
    for flow, time_s, value in rows.drop_nulls().sort("time").rows():
        found.setdefault(f"{kind}/{names.get(flow, flow)}", []).append((time_s, round(value, 4)))
