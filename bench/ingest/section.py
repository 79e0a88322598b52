"""The section of the results about reading files of telemetry into a store."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import measuring
from aims import Bar, grouped
from measuring import Run
from presenting import Grid, Section
from programs import Program

from ingest import files as made

NAME = "ingestion"
# One million samples of each generation: 116 hours, and a week of files of five minutes and some.
HOURS = 116
FILES_OF_FIVE_MINUTES = 2084
WANTED_S = 5.0


def measure(options: argparse.Namespace, command: Sequence[str]) -> Section | None:
    """A million samples of each generation into a new store, and once more into the same; whole processes."""
    whydrop = str(command[0])
    folder = options.folder / "ingest"
    shutil.rmtree(folder, ignore_errors=True)
    samples = {
        "DISCO v1 (hourly, gzip)": (folder / "v1", made.first_generation(folder / "v1", HOURS)),
        "DISCO v2 (5 min)": (folder / "v2", made.second_generation(folder / "v2", FILES_OF_FIVE_MINUTES)),
    }
    grid = Grid(
        f"Telemetry of one switch into a store on one core, {options.repetitions} turns, medians",
        [
            "telemetry",
            "files",
            "read MB",
            "samples",
            "store MB",
            "CPU s",
            "wall s",
            "samples/CPU s",
            "peak MB",
            "again: CPU s",
        ],
    )
    seconds: list[float] = []
    with on_core(options.core):
        for what, (files, count) in samples.items():
            first, again = [], []
            store = folder / "store"
            for _ in range(options.repetitions):
                shutil.rmtree(store, ignore_errors=True)
                ingest = [whydrop, "store", "import", str(store), str(files)]
                first.append(measuring.run_once(ingest))
                again.append(measuring.run_once(ingest))
            grid.lines.append(_line(what, files, count, store, first, again))
            seconds.append(_cpu_s(first))
    shutil.rmtree(folder, ignore_errors=True)
    what = f"{grouped(HOURS * 8640)} samples of DISCO v1 into a new store, whole process"
    bar = Bar(what, f"< {WANTED_S:g} s", f"{seconds[0]:.2f} s", seconds[0] < WANTED_S)
    program = Program("whydrop", (whydrop, "store", "import"), ("DIR",), (whydrop, "--version"))
    return Section(NAME, [grid], [bar], [program], options.core)


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Keep the programs that are started on one core, and let go of it again."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _line(what: str, files: Path, count: int, store: Path, first: Sequence[Run], again: Sequence[Run]) -> list[str]:
    paths = list(files.iterdir())
    return [
        what,
        str(len(paths)),
        f"{sum(path.stat().st_size for path in paths) / 1e6:.1f}",
        grouped(count),
        f"{sum(path.stat().st_size for path in store.rglob('*.parquet')) / 1e6:.1f}",
        f"{_cpu_s(first):.2f}",
        f"{statistics.median(run.wall_s for run in first):.2f}",
        grouped(round(count / _cpu_s(first))),
        f"{max(run.peak_bytes for run in first) / 1e6:.0f}",
        f"{_cpu_s(again):.2f}",
    ]


def _cpu_s(runs: Sequence[Run]) -> float:
    return statistics.median(run.cpu_s for run in runs)
