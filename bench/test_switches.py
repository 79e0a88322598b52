"""The bench of the collector: its arithmetic, and short runs of what it measures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from switches.agents import COUNTERS, Agents
from switches.runs import Collected, collect, percentile, summary

from switches import agents, section
from whydrop.store import tables

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
WHYDROP = (sys.executable, "-m", "whydrop")


def polls(*rows: tuple[str, int, str, int]) -> pl.DataFrame:
    """Polls by switch, tick, status, and how late they began (nanoseconds); each took 5 ms."""
    begun = [START + tick * SECOND + late if status == "ok" else None for _, tick, status, late in rows]
    columns = {
        "due_ns": [START + tick * SECOND for _, tick, _, _ in rows],
        "start_ns": begun,
        "end_ns": [None if at is None else at + 5_000_000 for at in begun],
        "switch": [switch for switch, _, _, _ in rows],
        "status": [status for _, _, status, _ in rows],
    }
    return tables.conform("polls", pl.DataFrame(columns))


def collected(**changes: Any) -> Collected:
    fields: dict[str, Any] = {
        "agent": "snmpd", "switches": 1, "ports": 48, "interval_s": 1, "wall_s": 600, "due": 600, "missed": 0,
        "samples": 403_200, "short": 0, "cpu_s": 30.0, "peak_bytes": 10**8, "late_ns": [1_000_000] * 600,
        "took_ns": [20_000_000] * 600,
        "asleep_ns": [1_000_000] * 600,
    }  # fmt: skip
    return Collected(**(fields | changes))


def test_polls_that_failed_and_ticks_without_a_row_were_missed() -> None:
    two = Agents("snmpsim", ["127.0.1.1", "127.0.1.2"], 161, 3)
    rows = [("a", 0, "ok", 1_000_000), ("a", 1, "timeout", 0), ("a", 3, "ok", -2_000_000)]
    rows += [("b", tick, "ok", 0) for tick in range(4)]
    found = summary(two, 1, polls(*rows), samples=6 * 3 * COUNTERS - 5, cpu_s=0.2, peak_bytes=1, asleep_ns=[3])
    # of 2 x 4 ticks, one timed out and one is not even known
    assert (found.due, found.missed, found.short) == (8, 2, 5)
    assert sorted(found.late_ns) == [0, 0, 0, 0, 1_000_000, 2_000_000]
    assert set(found.took_ns) == {5_000_000}
    assert found.cpu_share() == pytest.approx(0.05)


def test_percentiles_are_interpolated_between_ranks() -> None:
    assert percentile([1.0, 2.0, 3.0], 50) == 2
    assert percentile([0.0, 100.0], 99) == pytest.approx(99)
    assert percentile([7.0], 99) == 7


def test_a_missed_poll_a_late_one_in_a_hundred_and_a_tenth_of_a_core_are_too_much() -> None:
    assert [bar.met for bar in section.bars([collected()])] == [True] * 4
    bad = collected(missed=1, short=2, cpu_s=60.0, late_ns=[1_000_000] * 580 + [21_000_000] * 20)
    assert [bar.met for bar in section.bars([bad])] == [False] * 4
    assert len(section.bars([collected(switches=100)])) == 2


def test_a_line_of_the_table_has_a_cell_for_each_heading() -> None:
    grid = section.table([collected(), collected(switches=100, interval_s=10)])
    assert [len(line) for line in grid.rows()] == [len(grid.headings())] * 2
    assert grid.rows()[0][0] == "1 switch of 48 ports x 14 counters each second, 600 s (snmpd)"


def check(found: Collected, folder: Path) -> pl.DataFrame:
    """Check what holds of any run, however busy the machine is; return the rows of the store."""
    assert found.due == len(found.late_ns) + found.missed
    assert found.missed < found.due
    assert all(late >= 0 for late in found.asleep_ns)
    assert len(found.asleep_ns) >= found.due // found.switches - 1
    # every poll that was made brought every counter
    assert found.short == 0
    rows = pl.read_parquet(folder / "store" / "counters" / "*" / "*.parquet", hive_partitioning=False)
    assert rows.select("switch", "port", "counter").unique().height == found.switches * found.ports * COUNTERS
    assert min(rows["value"].drop_nulls().to_list()) >= 0
    return rows


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.needs_program("snmpd")
def test_one_switch_of_net_snmp_each_second_gives_every_counter_of_every_poll(tmp_path: Path) -> None:
    with agents.real(tmp_path / "snmpd", 48) as one:
        found = collect(WHYDROP, one, tmp_path / "run", interval_s=1, seconds=5)
    check(found, tmp_path / "run")


@pytest.mark.slow
def test_many_simulated_switches_give_the_growth_that_they_had(tmp_path: Path) -> None:
    with agents.simulated(tmp_path / "snmpsim", 2, 40) as many:
        found = collect(WHYDROP, many, tmp_path / "run", interval_s=3, seconds=10)
    rows = check(found, tmp_path / "run").filter(pl.col("counter") == "octets.tx")
    # the agent's counter of port b2 grows by 2 x 100 and its place among the columns in a second
    of_port = rows.filter(pl.col("port") == "b2").sort("switch", "end_ns")
    for _, series in of_port.group_by("switch"):
        grown = series["value"].drop_nulls().sum()
        seconds = (series["end_ns"][-1] - series["end_ns"][0]) / SECOND
        longest = max((series["poll_end_ns"] - series["poll_start_ns"]).to_list()) / SECOND
        assert grown == pytest.approx(204 * seconds, abs=204 * (longest + 0.1))
