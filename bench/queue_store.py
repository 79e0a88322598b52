"""How fast `whydrop study queues` reads 10 000 synthetic recordings on DuckDB and on Spark, and whether they agree.

    .venv/bin/python bench/queue_store.py [--recordings 10000] [--store FOLDER] [--spark local[2]]

Recordings are as those of `examples/queues`: five lines, ten queues, two congestion controls, four scenes, and as many
repetitions as make up the number; each with its metrics, 700 steps of delays and a histogram. The store is kept where
``--store`` names it. Times are of whole processes, the median of three turns. Python's modules are compiled before, as
where programs are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import Series, measure_in_turns

from whydrop.recording.metrics.induced import STEP_NS, histogram
from whydrop.recording.metrics.load import Window
from whydrop.store.store import Store
from whydrop.store.tables import conform

TURNS = 3
_AT_ONCE = 500
_START_NS = 1_790_000_000_000_000_000
_IDLE_STEPS, _LOAD_STEPS = 50, 600
_LINES = {"10/1": (10, 1), "10/10": (10, 10), "50/5": (50, 5), "100/100": (100, 100), "1000/40": (1000, 40)}
# Median induced delay in ms at 10 Mbit/s, seconds until it is contained, Jain's index of flows at four distances.
_QUEUES = {
    "pfifo_fast": (600.0, 60.0, 0.6),
    "ared": (35.0, 8.0, 0.55),
    "pie": (22.0, 6.0, 0.55),
    "codel": (20.0, 5.0, 0.55),
    "sfq": (15.0, 0.1, 0.8),
    "fq_codel": (3.0, 0.05, 0.9),
    "fq_nocodel": (6.0, 0.1, 0.85),
    "fq_pie": (4.0, 0.05, 0.9),
    "cake": (2.0, 0.05, 0.93),
    "dualpi2": (15.0, 3.0, 0.6),
}
_CONTROLS = ("cubic", "bbr")
_SCENES = ("rrul", "voip", "distances", "transient")


def main() -> int:
    """Print how fast the store is read, and whether the engines agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=10_000)
    parser.add_argument("--store", type=Path, help="keep the store here; used again if it is there")
    parser.add_argument("--spark", default="local[2]", help="master of Spark, after `spark:` (%(default)s)")
    parser.add_argument("--only", choices=("duckdb", "spark"), help="measure one engine")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        store = wanted.store or Path(folder) / "store"
        if not store.exists():
            write(store, wanted.recordings)
        command = [sys.executable, "-m", "whydrop", "study", "queues", str(store), "--json"]
        engines = {"duckdb": [], "spark": ["--backend", f"spark:{wanted.spark}"]}
        chosen = {name: [*command, *more] for name, more in engines.items() if wanted.only in (None, name)}
        measured = [Series(name, words) for name, words in chosen.items()]
        measure_in_turns(measured, TURNS)
        answers = [json.loads(subprocess.check_output(words)) for words in chosen.values()]
        for answer in answers:
            del answer["facts"]["backend"]
    for one in measured:
        print(
            f"{one.name}: {one.wall_s():.1f} s, {one.cpu_s():.1f} s of processors, for {wanted.recordings} recordings"
        )
    if len(answers) == 2:
        print("the engines agree" if alike(*answers) else "THE ENGINES DISAGREE")
        return 0 if alike(*answers) else 1
    return 0


def alike(one: Any, other: Any) -> bool:
    """True if two documents have the same content, numbers to a relative 10⁻⁹."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, int | float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=0.0))
    return bool(one == other)


def write(path: Path, recordings: int) -> None:
    """A store of so many synthetic recordings; the same ones each time."""
    store = Store.create(path)
    random = np.random.default_rng(33)
    frames: dict[str, list[pl.DataFrame]] = {}
    for number, (repetition, cell) in enumerate(_cells(recordings)):
        for table, frame in recorded(number, repetition, cell, random).items():
            frames.setdefault(table, []).append(frame)
        if (number + 1) % _AT_ONCE == 0 or number + 1 == recordings:
            for table, parts in frames.items():
                store.add(table, pl.concat(parts))
            frames.clear()


Cell = tuple[str, str, str, str]


def _cells(recordings: int) -> Iterator[tuple[int, Cell]]:
    """Cells of lines, queues, controls and scenes, again and again, with the number of the repetition."""
    numbers = iter(range(recordings))
    for repetition in count(1):
        for cell in product(_LINES, _QUEUES, _CONTROLS, _SCENES):
            if next(numbers, None) is None:
                return
            yield repetition, cell


def recorded(number: int, repetition: int, cell: Cell, random: np.random.Generator) -> dict[str, pl.DataFrame]:
    """The rows of one recording for each table."""
    line, queue, control, scene = cell
    median_ms, contained_s, fairness = _QUEUES[queue]
    rate_down, rate_up = _LINES[line]
    median_ms *= (10 / rate_down) ** 0.5 * float(random.lognormal(0.0, 0.1))
    start_ns = _START_NS + number * 100 * 10**9
    load_ns = start_ns + _IDLE_STEPS * STEP_NS
    name = f"{number:064x}"
    after = (np.arange(-_IDLE_STEPS, _LOAD_STEPS) * STEP_NS).astype(np.int64)
    decay = np.exp(-np.maximum(after, 0) / 1e9 / max(contained_s, 0.05))
    delay_ms = np.where(after < 0, 0.0, median_ms * (1 + 3 * decay)) + random.normal(0.0, 0.05, len(after))
    delay_ns = np.rint(delay_ms * 1e6).astype(np.int64)
    which = {"time_ns": start_ns, "recording": name}
    variables = {
        "line": line, "queue": queue, "control": control, "scene": scene,
        "rate_down": f"{rate_down}mbit", "rate_up": f"{rate_up}mbit",
    }  # fmt: skip
    about = {
        **which, "end_ns": load_ns + (_LOAD_STEPS + _IDLE_STEPS) * STEP_NS, "name": f"{number}.recording",
        "test": scene, "status": "complete", "failures": "[]", "batch": scene, "repetition": repetition,
        "run": f"{scene}/{line},{queue},{control}/{repetition:02d}", "arguments": "[]", "outputs": "{}",
        "variables": json.dumps(variables), "load_start_ns": load_ns,
        "load_end_ns": load_ns + _LOAD_STEPS * STEP_NS, "last_start_ns": load_ns + STEP_NS, "step_ns": STEP_NS,
    }  # fmt: skip
    load = after >= 0
    values = {
        "goodput-down": rate_down * 0.94, "goodput-up": rate_up * 0.94, "fairness-down": fairness,
        "fairness-up": fairness, "induced-latency": float(np.median(delay_ms[load])), "retransmits": 1.0, "mos": 4.0,
        "induced-latency-p95": float(np.quantile(delay_ms[load], 0.95)), "idle-rtt": 50.0,
        "induced-latency-p99": float(np.quantile(delay_ms[load], 0.99)), "page-time": 1000 + 10 * median_ms,
        "queue-up.sent_packets": 50_000.0, "queue-up.drops": 500.0, "queue-up.marks": 0.0,
        "queue-down.sent_packets": 50_000.0, "queue-down.drops": 500.0, "queue-down.marks": 0.0,
    }  # fmt: skip
    metrics = pl.DataFrame({"metric": list(values), "value": [float(value) for value in values.values()]})
    steps = pl.DataFrame({"after_load_ns": after, "min_ns": delay_ns - 1000, "median_ns": delay_ns,
                          "max_ns": delay_ns + 1000})  # fmt: skip
    counts = histogram(
        Window(load_ns, load_ns + _LOAD_STEPS * STEP_NS, "made"),
        pl.DataFrame({"time_ns": after + load_ns, "induced_ns": delay_ns}),
    ).with_columns(pl.col("samples") * 5)
    return {
        "recordings": conform("recordings", pl.DataFrame([about])),
        "metrics": conform("metrics", metrics.with_columns(**{key: pl.lit(value) for key, value in which.items()})),
        "delays": conform("delays", steps.with_columns(
            time_ns=pl.col("after_load_ns") + load_ns, recording=pl.lit(name), samples=5, lost=0)),
        "delay_counts": conform(
            "delay_counts", counts.with_columns(**{key: pl.lit(value) for key, value in which.items()})
        ),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
