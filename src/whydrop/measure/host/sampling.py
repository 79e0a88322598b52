"""Counters of this host, sampled by a thread of its own while a test runs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from whydrop.measure.host.sources import CounterSource, Reading, all_sources, tells_of_trouble
from whydrop.recording.tables import COUNTERS

# Of the host that the test runs on.
LOCAL = "local"

# Sampling faster than this would be a load of its own.
_SHORTEST_STEP_S = 0.05

# A source that fails so often in a row is asked no more.
_MOST_FAILURES = 3

# Of these only what changes is kept: drivers and the stack have hundreds of counters that stay as they are.
_ONLY_CHANGING = {"driver", "netstat", "pressure", "softnet", "table"}

Row = tuple[int, str, str, str, str, float, bool]


class CounterSampler:
    """Samples queues, interfaces, drivers, processors, the stack and wireless links at each step.

    What a sampler costs is itself a counter: ``sampler whydrop::busy_s``, the processor time of its thread.
    """

    def __init__(
        self,
        interfaces: Sequence[str] | str | None,
        step_s: float,
        host: str = LOCAL,
        further: Mapping[str, CounterSource] | None = None,
    ) -> None:
        """A sampler that does not run yet; reads the network namespace of the thread that calls :meth:`start`.

        Args:
            interfaces: names, such as ``eth0``; ``None``: all, of which only the counters of trouble are kept
                (`sources.tells_of_trouble`), and of them only what changes, so that it may run for days.
            step_s: from one sample to the next.
            host: for the column of that name.
            further: sources beside those of every host, by name.
        """
        self.notes: list[str] = []
        self._interfaces = [interfaces] if isinstance(interfaces, str) else interfaces
        self._step_s = max(step_s, _SHORTEST_STEP_S)
        self._host = host
        self._rows: list[Row] = []
        # When each counter that is kept only where it changes was read last, its value, and whether it was kept.
        self._before: dict[tuple[str, str, str], tuple[int, float, bool]] = {}
        self._failures: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._sources: dict[str, CounterSource] = {}
        self._further = further or {}

    def start(self) -> None:
        """Take the first sample, and go on in a thread."""
        self._sources, missing = all_sources(self._interfaces)
        self._sources |= self._further
        self.notes += missing
        self._sample()
        self._thread = threading.Thread(target=self._run, name="counters", daemon=True)
        self._thread.start()

    def drain(self) -> pl.DataFrame:
        """The rows sampled since the last call, for the table of counters."""
        with self._lock:
            rows, self._rows = self._rows, []
        return pl.DataFrame(rows, schema=COUNTERS, orient="row")

    def stop(self) -> None:
        """Take the last sample; :meth:`drain` may be called once more after it."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
            self._thread = None

    def _run(self) -> None:
        began = time.monotonic()
        step = 1
        while not self._stop.wait(max(0.0, began + step * self._step_s - time.monotonic())):
            self._sample()
            # Steps missed on a busy machine are left out.
            step = max(step + 1, int((time.monotonic() - began) / self._step_s) + 1)
        self._sample()

    def _sample(self) -> None:
        for name, source in self._sources.items():
            if self._failures[name] >= _MOST_FAILURES:
                continue
            # One stamp a source: reading one takes microseconds, reading all of them may take a millisecond.
            time_ns = now_ns()
            try:
                readings = list(source())
                self._failures[name] = 0
            except (OSError, ValueError, IndexError) as reason:
                self._failures[name] += 1
                if self._failures[name] == _MOST_FAILURES:
                    self.notes.append(f"counters of {name} ended: {reason}")
                continue
            self._keep(time_ns, readings)
        self._keep(now_ns(), [("sampler", "whydrop", "busy_s", time.thread_time(), True)])

    def _keep(self, time_ns: int, readings: list[Reading]) -> None:
        rows: list[Row] = []
        for reading in readings:
            source, thing, counter, value, cumulative = reading
            samples = [(time_ns, float(value))]
            if self._interfaces is None:
                samples = self._changed((source, thing, counter), *samples[0]) if tells_of_trouble(reading) else []
            elif source in _ONLY_CHANGING:
                samples = self._changed((source, thing, counter), *samples[0])
            rows += [(when, self._host, source, thing, counter, known, cumulative) for when, known in samples]
        with self._lock:
            self._rows += rows

    def _changed(self, key: tuple[str, str, str], time_ns: int, value: float) -> list[tuple[int, float]]:
        """The sample, if it is another value than before; and the one before, so that it shows when it changed."""
        before_ns, before, kept = self._before.get(key, (time_ns, value, False))
        changed = value != before
        self._before[key] = (time_ns, value, changed)
        if not changed:
            return []
        return [(time_ns, value)] if kept else [(before_ns, before), (time_ns, value)]


# What is added to the monotonic clock: a clock that is set while a test runs must not move its samples.
_EPOCH_MINUS_MONOTONIC_NS = time.time_ns() - time.monotonic_ns()


def now_ns() -> int:
    """Nanoseconds since the Unix epoch that never jump while the process lives."""
    return time.monotonic_ns() + _EPOCH_MINUS_MONOTONIC_NS
