"""The section of the results about the study over a fleet's history: DuckDB beside pandas, by size."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import measuring
from aims import Bar, grouped
from measuring import ProgramError, Series
from presenting import Grid, Section
from programs import Program

ROOT = Path(__file__).parent.parent
FIGURES = Path(__file__).parent / "fleet" / "figures.py"
FIRST_DAY = date(2018, 1, 1)
SITES = [f"{metro}{number:02}" for metro in ("dfw", "lga", "lhr", "nuq", "syd") for number in range(1, 6)]
MACHINES = 4
PORTS = len(SITES) * MACHINES
SAMPLES_PER_DAY = 8640 * PORTS
"""Of each counter, if no poll were missed."""
DAYS = (2, 6, 18)
WHOLE_YEAR = 365
# What pandas was seen to take at its peak; it is not started where that is not there.
PANDAS_BYTES_PER_SAMPLE = 180
# Counters that a figure reads.
COUNTERS = {1: 1, 3: 2}
WANTED_PER_S = 20e6
WANTED_MB = 4000
# So many take long enough that Python's start does not count.
LONG_SAMPLES = 200_000_000


@dataclass
class Size:
    """Some days of the fleet, and what was measured on them."""

    days: int
    figure: int
    series: list[Series]

    def samples(self) -> int:
        """That the figure is made of."""
        return self.days * SAMPLES_PER_DAY * COUNTERS[self.figure]

    def lines(self) -> list[list[str]]:
        """A line of the table for each program."""
        return [self._line(one) for one in self.series]

    def _line(self, one: Series) -> list[str]:
        what = f"figure {self.figure}, {self.days} days: {one.name}"
        if not one.runs:
            need_gb = self.samples() * PANDAS_BYTES_PER_SAMPLE / 1e9
            return [what, grouped(self.samples()), "-", "-", "-", f"not run: {need_gb:.0f} GB"]
        return [
            what,
            grouped(self.samples()),
            f"{quickest_s(one):.2f}",
            f"{one.cpu_s():.2f}",
            f"{self.samples() / quickest_s(one) / 1e6:.1f}",
            f"{one.peak_bytes() / 1e6:.0f}",
        ]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of this section."""
    parser.add_argument(
        "--fleet-days", type=int, nargs="+", default=list(DAYS), metavar="N",
        help="sizes of the fleet's history, of 100 ports (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--full", action="store_true", help="fleet: a whole year too, 315 million samples per counter (3 GB, minutes)"
    )


def measure(options: argparse.Namespace, command: tuple[str, ...]) -> Section:
    """Figures 1 and 3 over 100 ports' history of several lengths."""
    lengths = sorted({*options.fleet_days, *([WHOLE_YEAR] if options.full else [])})
    store = options.folder / "fleet" / "store"
    make(store, lengths[-1])
    measured = [
        run(store, days, figure, min(options.repetitions, 3 if days <= 60 else 1), options.folder / "fleet")
        for figure in COUNTERS
        for days in lengths
    ]
    columns = ["program", "samples", "wall s, quickest", "CPU s", "million samples/s", "peak MB"]
    title = f"{PORTS} ports polled each 10 s, whole processes, results compared; {min(options.repetitions, 3)} turns"
    grid = Grid(title, columns, [line for size in measured for line in size.lines()])
    return Section("fleets", [grid, slopes(measured)], bars(measured), [_program(command[0])], None, "")


def make(store: Path, days: int) -> None:
    """Write the fleet, unless it is there, at least as long."""
    truth = store.with_name("store-truth") / "truth.json"
    try:
        there = json.loads(truth.read_text())["plan"]["days"]
    except (OSError, ValueError, KeyError):
        there = 0
    if there >= days:
        return
    words = [
        "-m", "bench.fleet", "--out", str(store), "--sites", ",".join(SITES), "--machines", str(MACHINES),
        "--first-day", FIRST_DAY.isoformat(), "--days", str(days), "--counters", "octets.tx,unicast.tx,discards.tx",
        "--telemetry", "v1", "--tests-per-day", "0",
    ]  # fmt: skip
    # In a separate process: the memory peak of this one would count as that of its children.
    if subprocess.run([sys.executable, *words], cwd=ROOT, check=False).returncode != 0:
        raise ProgramError("the fleet could not be written")


def run(store: Path, days: int, figure: int, turns: int, folder: Path) -> Size:
    """One figure over the first ``days``, DuckDB and pandas in turns."""
    last = FIRST_DAY + timedelta(days=days - 1)
    results = {engine: folder / f"{engine}-{figure}-{days}.parquet" for engine in ("duckdb", "pandas")}
    series = []
    for engine, out in results.items():
        words = [sys.executable, str(FIGURES), engine, str(store), "--figure", str(figure), "--out", str(out)]
        series.append(Series(_name(engine), [*words, "--first", FIRST_DAY.isoformat(), "--last", last.isoformat()]))
    size = Size(days, figure, series)
    fits = size.samples() * PANDAS_BYTES_PER_SAMPLE < 0.7 * available_bytes()
    measuring.measure_in_turns(series if fits else series[:1], turns, warm_up=turns > 1)
    if fits:
        compare(*results.values())
    return size


def available_bytes() -> int:
    """Memory that programs may still take."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("MemAvailable"))) * 1024


def compare(ours: Path, theirs: Path) -> None:
    """Both must have found the same, or their times mean nothing."""
    import polars as pl
    from polars.testing import assert_frame_equal

    text = pl.col(pl.Categorical, pl.Enum, pl.String).cast(pl.String)
    first, second = (pl.read_parquet(path).with_columns(text).sort("site", "day") for path in (ours, theirs))
    try:
        assert_frame_equal(first, second, rel_tol=1e-9)
    except AssertionError as difference:
        raise ProgramError(f"{ours} and {theirs}: whydrop and pandas did not compute the same: {difference}") from None


def slopes(measured: list[Size]) -> Grid:
    """The cost of each further sample, start-up apart: by least squares over the sizes."""
    grid = Grid(
        "Each further sample, by least squares over the sizes",
        ["program", "wall ns", "CPU ns", "start-up, CPU s", "peak bytes"],
    )
    for figure in COUNTERS:
        sizes = [size for size in measured if size.figure == figure]
        for which in range(len(sizes[0].series)):
            runs = [(size.samples(), size.series[which]) for size in sizes if size.series[which].runs]
            if len(runs) > 1:
                wall = _line([(samples, quickest_s(one)) for samples, one in runs])
                cpu = _line([(samples, one.cpu_s()) for samples, one in runs])
                peak = _line([(samples, one.peak_bytes()) for samples, one in runs])
                grid.lines.append(
                    [
                        f"figure {figure}: {runs[0][1].name}",
                        f"{wall.slope * 1e9:.1f}",
                        f"{cpu.slope * 1e9:.1f}",
                        f"{cpu.intercept:.1f}",
                        f"{max(0.0, peak.slope):.0f}",
                    ]
                )
    return grid


def bars(measured: list[Size]) -> list[Bar]:
    """Of DuckDB, on the largest size."""
    found = []
    cores = len(os.sched_getaffinity(0))
    for figure in COUNTERS:
        sizes = [size for size in measured if size.figure == figure]
        largest, ours = sizes[-1], sizes[-1].series[0]
        wanted = f">= {WANTED_PER_S / 1e6:.0f} million"
        by_wall = largest.samples() / quickest_s(ours)
        if largest.samples() >= LONG_SAMPLES:
            what = f"figure {figure}, {largest.days} days: samples/s, whole process"
            found.append(Bar(f"{what}, wall time", wanted, f"{by_wall / 1e6:.1f} million", by_wall >= WANTED_PER_S))
        if len(sizes) > 1:
            each_s = _line([(size.samples(), size.series[0].cpu_s()) for size in sizes]).slope
            by_cpu = cores / each_s
            what = f"figure {figure}: each further sample, samples/s of {cores} cores' processor time"
            found.append(Bar(what, wanted, f"{by_cpu / 1e6:.1f} million", by_cpu >= WANTED_PER_S))
        peak_mb = ours.peak_bytes() / 1e6
        what = f"figure {figure}, {largest.days} days: peak memory"
        found.append(Bar(what, f"< {WANTED_MB} MB", f"{peak_mb:.0f} MB", peak_mb < WANTED_MB))
    return found


def quickest_s(one: Series) -> float:
    """Wall time of the turn that other work on the machine disturbed least."""
    return min(run.wall_s for run in one.runs)


def _line(points: list[tuple[int, float]]) -> statistics.LinearRegression:
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points])


def _name(engine: str) -> str:
    return "whydrop, DuckDB" if engine == "duckdb" else "pandas"


def _program(ours: str) -> Program:
    return Program(
        "whydrop", before=("python", "bench/fleet/figures.py", "duckdb"), version_command=(ours, "--version")
    )
