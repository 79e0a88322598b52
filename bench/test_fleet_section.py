"""The arithmetic of the section about fleets' histories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fleet_section
import polars as pl
import pytest
from fleet_section import SAMPLES_PER_DAY, Size
from measuring import ProgramError, Run, Series


def series(name: str, *runs: tuple[float, float, float]) -> Series:
    """Runs of (wall s, CPU s, peak MB)."""
    return Series(name, [name], [Run(wall, cpu, int(peak * 1e6)) for wall, cpu, peak in runs])


def sizes(figure: int) -> list[Size]:
    # A second to start, then 20 ns of wall time and 40 ns of processor time for each sample.
    found = []
    for days in (1, 300):
        samples = days * SAMPLES_PER_DAY * fleet_section.COUNTERS[figure]
        ours = series("whydrop, DuckDB", (1 + samples * 20e-9, 1 + samples * 40e-9, 100 + samples * 10e-6), (99, 99, 1))
        ours.runs[1] = Run(99, ours.runs[0].cpu_s, 1)
        found.append(Size(days, figure, [ours, series("pandas")]))
    return found


def test_samples_are_those_of_all_counters_that_a_figure_reads() -> None:
    assert Size(1, 1, []).samples() == 8640 * 100
    assert Size(365, 1, []).samples() == 315_360_000
    assert Size(365, 3, []).samples() == 630_720_000


def test_the_slope_is_what_a_further_sample_takes_without_the_start() -> None:
    grid = fleet_section.slopes([*sizes(1), *sizes(3)])
    assert [line[0] for line in grid.lines] == ["figure 1: whydrop, DuckDB", "figure 3: whydrop, DuckDB"]
    for line in grid.lines:
        assert line[1:3] == ["20.0", "40.0"]
        assert line[3] == "1.0"
        assert line[4] == "10"


def test_the_bar_is_of_the_quickest_turn_and_the_largest_size() -> None:
    cores = len(os.sched_getaffinity(0))
    bars = fleet_section.bars([*sizes(1), *sizes(3)])
    wall, each, memory = bars[:3]
    samples = 300 * SAMPLES_PER_DAY
    assert wall.measured == f"{samples / (1 + samples * 20e-9) / 1e6:.1f} million"
    assert wall.met
    assert each.measured == f"{cores / 40e-9 / 1e6:.1f} million"
    assert memory.met


def test_a_process_that_hardly_does_more_than_start_is_not_judged_by_its_rate() -> None:
    assert not any("whole process" in bar.what for bar in fleet_section.bars(sizes(1)[:1] + sizes(3)[:1]))


def test_a_program_that_memory_does_not_suffice_for_is_named_with_what_it_needs() -> None:
    (_, line) = Size(365, 3, [series("whydrop, DuckDB", (1, 1, 1)), series("pandas")]).lines()
    assert line[-1] == f"not run: {630_720_000 * fleet_section.PANDAS_BYTES_PER_SAMPLE / 1e9:.0f} GB"


@pytest.mark.parametrize(("value", "same"), [(1.0, True), (1.0 + 1e-12, True), (1.001, False), (None, False)])
def test_results_that_differ_are_an_error(tmp_path: Path, value: float | None, same: bool) -> None:
    first = pl.DataFrame({"metro": ["dfw"], "site": ["dfw01"], "day": ["2018-01-01"], "ratio": [1.0]})
    first.write_parquet(tmp_path / "ours")
    theirs = first.with_columns(pl.col("site").cast(pl.Categorical), ratio=pl.lit(value, pl.Float64))
    theirs.write_parquet(tmp_path / "theirs")
    if same:
        fleet_section.compare(tmp_path / "ours", tmp_path / "theirs")
    else:
        with pytest.raises(ProgramError, match="did not compute the same"):
            fleet_section.compare(tmp_path / "ours", tmp_path / "theirs")


def test_rows_that_one_program_lacks_are_an_error(tmp_path: Path) -> None:
    first = pl.DataFrame({"metro": ["dfw"] * 2, "site": ["dfw01"] * 2, "day": ["a", "b"], "ratio": [1.0, 2.0]})
    first.write_parquet(tmp_path / "ours")
    first.head(1).write_parquet(tmp_path / "theirs")
    with pytest.raises(ProgramError, match="did not compute the same"):
        fleet_section.compare(tmp_path / "ours", tmp_path / "theirs")


@pytest.mark.slow
def test_both_programs_compute_the_same_of_a_fleet_with_gaps(tmp_path: Path) -> None:
    words = [
        "-m", "bench.fleet", "--out", str(tmp_path / "store"), "--sites", "dfw01,lga01", "--machines", "3",
        "--first-day", fleet_section.FIRST_DAY.isoformat(), "--days", "2", "--outages", "10", "--tests-per-day", "0",
        "--counters", "octets.tx,unicast.tx,discards.tx", "--telemetry", "v1",
    ]  # fmt: skip
    subprocess.run([sys.executable, *words], cwd=fleet_section.ROOT, check=True, capture_output=True)
    for figure in fleet_section.COUNTERS:
        size = fleet_section.run(tmp_path / "store", 2, figure, 1, tmp_path)
        assert all(one.runs for one in size.series)


@pytest.mark.slow
def test_a_fleet_that_cannot_be_is_bad_usage() -> None:
    words = [sys.executable, "-m", "bench.fleet", "--out", "/nowhere", "--counters", "octets"]
    done = subprocess.run(words, cwd=fleet_section.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "counters are among octets.tx" in done.stderr
