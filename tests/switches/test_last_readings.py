"""Growth across a collector's restart: known where two clocks prove it, counted once, and never invented."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whydrop.monitoring.switches import pending
from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.keeper import FOLDER, Keeper
from whydrop.monitoring.switches.readings import Counter, Port, Reading
from whydrop.monitoring.switches.schedule import Clock
from whydrop.store.store import Store

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
INTERVAL = 10 * SECOND
UPLINK = Port("uplink", 1, None, 10**10)
OCTETS, DISCARDS = Counter("octets.tx", "1.10", 64), Counter("discards.tx", "1.19", 32)
PACE = 1000  # octets a tick; one discard


@dataclass
class Now(Clock):
    """The time of a tick."""

    tick: int

    def wall_ns(self) -> int:
        return START + self.tick * INTERVAL

    def steady_ns(self) -> int:
        return 10**15 + self.tick * INTERVAL


def reading(tick: int, **changes: Any) -> Reading:
    due = START + tick * INTERVAL
    one = Reading(
        "s1", "dfw07", "dfw", due, due + 1_000_000, due + 3_000_000, "ok",
        uptime_ns=10**14 + tick * INTERVAL, steady_ns=10**15 + tick * INTERVAL + 3_000_000, asked_at="192.0.2.7 161",
        values={(UPLINK, OCTETS): 10**12 + PACE * tick, (UPLINK, DISCARDS): (2**32 - 20 + tick) % 2**32},
    )  # fmt: skip
    return replace(one, **changes)


@pytest.fixture(autouse=True)
def _a_machine_that_says_which_start_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "boot", lambda: "a start")


def run(store: Path, *readings: Reading, label: str = "a") -> pl.DataFrame:
    """A collector that takes some readings, from its start to its end; the rows that it gave."""
    with Keeper(store, label, clock=Now((readings[0].due_ns - START) // INTERVAL)) as keeper:
        counting = Counting(INTERVAL, keeper.last_readings())
        frames = []
        for one in readings:
            frames.append(counting.samples(one))
            keeper.take(one, frames[-1])
    return pl.concat(frames)


def first_of(rows: pl.DataFrame) -> dict[str, tuple[Any, Any, Any]]:
    """Value, span in ticks and quality of each counter's first row."""
    rows = rows.filter(pl.col("end_ns") == rows["end_ns"].min())
    return {
        row["counter"]: (row["value"], None if row["span_ns"] is None else row["span_ns"] / INTERVAL, row["quality"])
        for row in rows.iter_rows(named=True)
    }


UNKNOWN = {"octets.tx": (None, None, "ok"), "discards.tx": (None, None, "ok")}


def test_counters_go_on_across_a_restart(tmp_path: Path) -> None:
    assert first_of(run(tmp_path, *map(reading, range(5)))) == UNKNOWN
    assert first_of(run(tmp_path, *map(reading, range(30, 33)))) == {
        "octets.tx": (26 * PACE, 26.0, "gap"), "discards.tx": (26, 26.0, "gap+wrap"),
    }  # fmt: skip
    # no tick was missed in between
    assert first_of(run(tmp_path, reading(33))) == {"octets.tx": (PACE, 1.0, "ok"), "discards.tx": (1, 1.0, "ok")}


def windows(store: Path, counter: str = "octets.tx") -> list[tuple[int, int, float]]:
    """Start, end and growth of a counter's rows in a store, in their order."""
    rows = pl.read_parquet(store / "counters" / "*" / "*.parquet", hive_partitioning=False)
    rows = rows.filter((pl.col("counter") == counter) & pl.col("value").is_not_null()).sort("end_ns")
    return [(end - span, end, value) for end, span, value in rows.select("end_ns", "span_ns", "value").iter_rows()]


def killed(store: Path, copy: Path, ticks: range, flushed: int) -> None:
    """A store as a collector leaves it that is killed when it has flushed some ticks, and read others."""
    with Keeper(store, "a", clock=Now(ticks[0])) as keeper:
        counting = Counting(INTERVAL, keeper.last_readings())
        for tick in ticks:
            one = reading(tick)
            keeper.take(one, counting.samples(one))
            if tick == flushed:
                keeper.flush()
        shutil.copytree(store, copy)


def test_what_a_kill_cost_is_in_the_growth_after_it_and_nothing_is_there_twice(tmp_path: Path) -> None:
    killed(tmp_path / "store", tmp_path / "killed", range(10), flushed=6)
    run(tmp_path / "killed", *map(reading, range(15, 18)))
    found = windows(tmp_path / "killed")
    assert sum(value for *_, value in found) == 17 * PACE
    assert all(end == start for (_, end, _), (start, _, _) in pairwise(found))


def test_a_database_that_is_older_than_the_store_is_not_believed(tmp_path: Path) -> None:
    # a backup that was restored
    killed(tmp_path / "store", tmp_path / "killed", range(10), flushed=4)
    run(tmp_path / "store", *map(reading, range(15, 18)))
    shutil.rmtree(tmp_path / "store" / FOLDER)
    shutil.copytree(tmp_path / "killed" / FOLDER, tmp_path / "store" / FOLDER)
    assert first_of(run(tmp_path / "store", reading(20))) == UNKNOWN


def test_what_another_collector_has_counted_since_is_not_counted_again(tmp_path: Path) -> None:
    run(tmp_path, *map(reading, range(5)))
    run(tmp_path, *map(reading, range(10, 15)), label="b")
    copy = Path(shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-copy")))
    assert first_of(run(tmp_path, reading(20))) == UNKNOWN
    # nor where its part is one with others meanwhile
    (part,) = (copy / "counters").rglob("*-b.parquet")
    part.rename(part.with_name("compacted-0123.parquet"))
    assert first_of(run(copy, reading(20))) == UNKNOWN
    # nor what is in its journal only
    run(tmp_path, *map(reading, range(21, 23)))
    with Keeper(tmp_path, "b") as other:
        other.take(reading(25), Counting(INTERVAL).samples(reading(25)))
        other.flush()
        assert first_of(run(tmp_path, reading(30))) == UNKNOWN


CHANGES: dict[str, dict[str, Any]] = {
    "a switch that does not report its uptime": {"uptime_ns": None},
    "an uptime that does not fit the time": {"uptime_ns": 10**14 + 5 * INTERVAL},
    "another switch by this name": {"asked_at": "192.0.2.8 161"},
    "a port at another index": {"values": {(replace(UPLINK, index=2), OCTETS): 10**13}},
    "a counter by another object": {"values": {(UPLINK, replace(OCTETS, oid="1.16")): 10**13}},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_what_is_not_proven_to_have_gone_on_is_read_for_the_first_time(tmp_path: Path, changes: dict[str, Any]) -> None:
    run(tmp_path, *map(reading, range(5)))
    assert set(first_of(run(tmp_path, reading(30, **changes))).values()) == {(None, None, "ok")}


def test_a_switch_that_restarted_meanwhile_has_a_reset(tmp_path: Path) -> None:
    run(tmp_path, *map(reading, range(5)))
    totals = {(UPLINK, OCTETS): 5000, (UPLINK, DISCARDS): 1}
    assert first_of(run(tmp_path, reading(30, uptime_ns=100 * SECOND, values=totals))) == {
        "octets.tx": (None, 26.0, "gap+reset"), "discards.tx": (None, 26.0, "gap+reset"),
    }  # fmt: skip


def test_a_switch_that_had_just_begun_may_have_begun_again_at_once(tmp_path: Path) -> None:
    run(tmp_path, reading(0, uptime_ns=SECOND // 2))
    assert first_of(run(tmp_path, reading(3, uptime_ns=SECOND // 2 + 3 * INTERVAL))) == UNKNOWN


def test_32_bits_that_may_have_been_full_meanwhile_have_no_value(tmp_path: Path) -> None:
    run(tmp_path, *map(reading, range(5)))
    # 10 Gbit/s of small frames fill them in 289 s
    assert first_of(run(tmp_path, reading(44)))["discards.tx"] == (None, 40.0, "gap+wrap")


@pytest.mark.parametrize("days", [1.01, 400])
def test_what_is_older_than_a_day_is_not_remembered(tmp_path: Path, days: float) -> None:
    run(tmp_path, *map(reading, range(5)))
    later = int(days * 8640)
    assert first_of(run(tmp_path, reading(later))) == UNKNOWN


@pytest.fixture
def other_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has restarted, and with it its steady clock."""
    monkeypatch.setattr(pending, "boot", lambda: "another start")
    monkeypatch.setattr(Now, "steady_ns", lambda self: self.tick * SECOND)


@pytest.mark.usefixtures("other_start")
def test_across_a_restart_of_the_collectors_machine_the_wall_clock_and_the_switchs_must_agree(tmp_path: Path) -> None:
    memory_of = tmp_path / "store"
    with pytest.MonkeyPatch.context() as before:
        before.setattr(pending, "boot", lambda: "a start")
        run(memory_of, *map(reading, range(5)))
    shutil.copytree(memory_of, tmp_path / "copy")
    fresh = {"steady_ns": 40 * SECOND}
    assert first_of(run(memory_of, reading(14, **fresh)))["octets.tx"] == (10 * PACE, 10.0, "gap")
    wrong = {**fresh, "start_ns": START + 9 * INTERVAL, "end_ns": START + 9 * INTERVAL}
    assert first_of(run(tmp_path / "copy", reading(14, **wrong))) == UNKNOWN


def test_a_machine_that_does_not_say_which_start_it_is_shows_it_by_its_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending, "boot", lambda: None)
    run(tmp_path, *map(reading, range(5)))
    with Keeper(tmp_path, "a", clock=Now(5)) as keeper:
        one = keeper.last_readings()["s1"]
    same, other = Now(14), Now(14)
    at = pending.recent([one], same.wall_ns(), same.steady_ns())["s1"].at
    assert at.steady_ns is not None
    at = pending.recent([one], other.wall_ns(), 40 * SECOND)["s1"].at
    assert at.steady_ns is None


def test_an_unreadable_part_makes_what_is_remembered_unsure(tmp_path: Path) -> None:
    run(tmp_path, *map(reading, range(5)))
    (part,) = (tmp_path / "counters").rglob("*.parquet")
    part.with_name(f"{part.name[:2]}-b.parquet").write_bytes(b"no parquet")
    assert first_of(run(tmp_path, reading(30))) == UNKNOWN


RUN = st.fixed_dictionaries(
    {
        "off": st.integers(0, 40),  # ticks
        "ticks": st.integers(1, 8),
        "flushed": st.sets(st.integers(0, 7)),
        "killed": st.booleans(),
        "restart": st.none() | st.none() | st.integers(0, 40),  # of the switch, while the collector was off
    }
)


@pytest.mark.slow
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=st.lists(RUN, min_size=2, max_size=5))
def test_no_run_of_collectors_counts_anything_twice_or_more_than_there_was(
    tmp_path_factory: pytest.TempPathFactory, runs: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    store, tick, booted = folder / "0", 0, -(10**6)
    for number, one in enumerate(runs, start=1):
        tick += one["off"]
        if one["restart"] is not None and one["restart"] <= one["off"]:
            booted = tick - one["restart"]
        with Keeper(store, "a", clock=Now(tick)) as keeper:
            counting = Counting(INTERVAL, keeper.last_readings())
            for place in range(one["ticks"]):
                total = (0 if booted > 0 else 10**12) + PACE * (tick - max(booted, 0))
                read = reading(tick, uptime_ns=(tick - booted) * INTERVAL, values={(UPLINK, OCTETS): total})
                keeper.take(read, counting.samples(read))
                tick += 1
                if place in one["flushed"]:
                    keeper.flush()
            if one["killed"]:
                shutil.copytree(store, folder / f"{number}")
        store = folder / f"{number}" if one["killed"] else store
    Keeper(store, "a").close()
    found = windows(store) if (store / "counters").is_dir() else []
    assert all(end <= start for (_, end, _), (start, _, _) in pairwise(found))
    assert all(value == PACE * (end - start) / INTERVAL for start, end, value in found)


def test_a_store_is_made_where_there_was_none(tmp_path: Path) -> None:
    with Keeper(tmp_path / "new", "a") as keeper:
        assert keeper.last_readings() == {}
    assert Store.create(tmp_path / "new").files.local == tmp_path / "new"
