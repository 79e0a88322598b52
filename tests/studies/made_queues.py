"""Runs of the experiment with queues, made with known truth: what each cell's medians and times to contain are."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from small_stores import SECOND, START, Row, write

MS = 1_000_000
STEP_NS = 100 * MS
LOAD_S = 20.0
LAST_START_S = 4.02


@dataclass(frozen=True)
class Made:
    """One run: the cell, and the truth.

    Attributes:
        latency_ms: median induced latency.
        contain_s: when the delay falls below any target, after the last start; ``None``: never.
        metrics: further ones, by name.
        missing: metrics that it has not.
    """

    queue: str
    repetition: int = 1
    latency_ms: float = 10.0
    line: str = "10/10"
    control: str = "cubic"
    scene: str = "rrul"
    contain_s: float | None = 0.0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    status: str = "complete"
    failures: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None

    @property
    def recording(self) -> str:
        """Its identity."""
        cell = (self.line, self.control, self.scene, self.queue, self.repetition, self.status, *self.variables)
        return f"{zlib.crc32(repr(cell).encode()):064x}"

    @property
    def start_ns(self) -> int:
        """When it began."""
        return START + zlib.crc32(self.recording.encode()) % 80_000 * SECOND


def recording(made: Made) -> Row:
    """Its row of ``recordings``."""
    down, up = made.line.split("/")
    variables = {
        "line": made.line, "control": made.control, "scene": made.scene, "queue": made.queue, "rtt_ms": 50,
        "rate_down": f"{down}mbit", "rate_up": f"{up}mbit", **made.variables,
    }  # fmt: skip
    load = made.start_ns + 3 * SECOND
    return {
        "time_ns": made.start_ns, "end_ns": made.start_ns + 30 * SECOND, "recording": made.recording,
        "name": f"{made.scene}-{made.queue}-{made.repetition}", "test": made.scene, "status": made.status,
        "failures": json.dumps(made.failures), "whydrop": "1.0", "kernel": "6.12.1", "batch": "queues",
        "run": made.recording[:8], "repetition": made.repetition,
        "seed": made.repetition if made.seed is None else made.seed,
        "variables": json.dumps({name: value for name, value in variables.items() if value is not None}),
        "load_start_ns": load, "load_end_ns": load + round(LOAD_S * SECOND),
        "last_start_ns": load + round(LAST_START_S * SECOND), "step_ns": STEP_NS,
    }  # fmt: skip


def metrics(made: Made) -> list[Row]:
    """Its rows of ``metrics``."""
    values: dict[str, float | None] = {
        "induced-latency": made.latency_ms, "induced-latency-p95": made.latency_ms * 1.5,
        "induced-latency-p99": made.latency_ms * 2, "goodput-down": 9.0, "goodput-up": 8.0, "fairness-down": 0.9,
        "queue-down.sent_packets": 1980.0, "queue-down.drops": 20.0, "queue-down.marks": 10.0, **made.metrics,
    }  # fmt: skip
    return [
        {"time_ns": made.start_ns, "recording": made.recording, "metric": name, "value": value}
        for name, value in values.items()
        if name not in made.missing
    ]


def delays(made: Made) -> list[Row]:
    """Its steps: 200 ms of induced delay from the last start until it is contained, else its median."""
    rows = []
    for step in range(-20, round(LOAD_S * 10)):
        after_s = step / 10
        since = after_s - LAST_START_S
        is_high = since >= 0 and (made.contain_s is None or since < made.contain_s)
        median = 200.0 if is_high else (0.0 if step < 0 else min(made.latency_ms, 5.0))
        rows.append(
            {
                "time_ns": made.start_ns + 3 * SECOND + step * STEP_NS, "recording": made.recording,
                "after_load_ns": step * STEP_NS, "samples": 5, "lost": 0, "min_ns": round(median * MS / 2),
                "median_ns": round(median * MS), "max_ns": round(median * MS * 2),
            }
        )  # fmt: skip
    return rows


def counts(made: Made) -> list[Row]:
    """Its histogram under load: a spread about its median; and what lies before."""
    rows = []
    for load, centre in ((True, made.latency_ms), (False, 0.05)):
        for part in (0.5, 0.8, 1.0, 1.3, 2.0):
            upper = max(1, round(centre * part * 10)) * MS // 10
            rows.append(
                {"time_ns": made.start_ns, "recording": made.recording, "load": load, "lower_ns": upper - MS // 10,
                 "upper_ns": upper, "samples": 20}
            )  # fmt: skip
    merged = {(row["load"], row["upper_ns"]): row for row in rows}
    return list(merged.values())


def cell(queue: str, latencies: Iterable[float], **more: Any) -> list[Made]:
    """Runs of a cell, a repetition for each median."""
    return [Made(queue, number + 1, latency, **more) for number, latency in enumerate(latencies)]


def around(value: float, count: int = 5, spread: float = 0.05, seed: int = 1) -> list[float]:
    """Values about one, always the same ones."""
    noise = np.random.default_rng(seed + zlib.crc32(repr(value).encode()) % 1000)
    return [float(one) for one in value * np.exp(spread * noise.normal(size=count))]


def store_of(folder: Path, runs: Iterable[Made]) -> Path:
    """A store with these runs."""
    made = list(runs)
    return write(
        folder,
        recordings=map(recording, made),
        metrics=[row for one in made for row in metrics(one)],
        delays=[row for one in made for row in delays(one)],
        delay_counts=[row for one in made for row in counts(one)],
    )


TRUE_LATENCY = {
    "pfifo_fast": 400.0, "ared": 30.0, "pie": 28.0, "codel": 20.0, "sfq": 3.0, "fq_codel": 2.0, "fq_nocodel": 2.5,
    "fq_pie": 2.2, "cake": 1.8,
}  # fmt: skip
TRUE_CONTAIN = {
    "pfifo_fast": None, "ared": 6.0, "pie": 5.0, "codel": 4.0, "sfq": 0.0, "fq_codel": 0.0, "fq_nocodel": 0.0,
    "fq_pie": 0.0, "cake": 0.0,
}  # fmt: skip
FAIR = {"sfq": 0.98, "fq_codel": 0.99, "fq_nocodel": 0.985, "fq_pie": 0.97, "cake": 0.995}


def as_published(lines: Iterable[str] = ("10/10", "100/100"), count: int = 4) -> list[Made]:
    """An experiment that comes out as the published findings say."""
    runs = []
    for line in lines:
        for place, (queue, latency) in enumerate(TRUE_LATENCY.items()):
            factor = 10 / float(line.split("/")[0])
            fair = {"fairness-down": FAIR.get(queue, 0.6), "fairness-up": FAIR.get(queue, 0.55)}
            for number, one in enumerate(around(latency * max(0.1, factor), count, seed=place)):
                wobble = 0.004 * ((number * number + 3 * number * place) % 5)
                noisy = {name: value - wobble for name, value in fair.items()}
                goodput = {"goodput-down": 9.4 - 0.1 * place - wobble * 20}
                common = {"line": line, "repetition": number + 1, "latency_ms": one}
                started = {**common, "contain_s": TRUE_CONTAIN[queue]}
                runs.append(Made(queue, scene="rrul", metrics=goodput, **started))  # type: ignore[arg-type]
                runs.append(Made(queue, scene="distances", metrics=noisy, **common))  # type: ignore[arg-type]
                runs.append(Made(queue, scene="transient", **started))  # type: ignore[arg-type]
    return runs
