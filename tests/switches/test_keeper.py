"""Tests that readings are in the store once, whatever happened to the collector, its database and the disk."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from keeper_child import COUNTERS, START, TICKS, reading

from patience import wait_until
from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.keeper import FOLDER, HOUR_NS, MINUTE_NS, Keeper, KeepingError
from whydrop.monitoring.switches.pending import NAME, Part, Pending
from whydrop.monitoring.switches.schedule import Clock
from whydrop.store import tables
from whydrop.store.files import Files
from whydrop.store.store import Store

CHILD = Path(__file__).with_name("keeper_child.py")
SECOND = 1_000_000_000


def kept(keeper: Keeper, ticks: range, label_of: Callable[[str], str] = str) -> None:
    """Have a keeper take the polls of some ticks."""
    counting = Counting(MINUTE_NS // TICKS)
    for tick in ticks:
        one = replace(reading(tick), switch=label_of("s1.dfw07"))
        keeper.take(one, counting.samples(one))


class At(Clock):
    """A clock that stands still at a minute."""

    def __init__(self, minute: int) -> None:
        self.minute = minute

    def wall_ns(self) -> int:
        return START + self.minute * MINUTE_NS


def database(store: Path, label: str = "a") -> Path:
    return store / FOLDER / label / NAME


def pending(store: Path) -> list[Part]:
    """The parts of which rows are in the database, read beside the collector."""
    other = Pending(database(store))
    try:
        return other.parts()
    finally:
        other.close()


def rows(store: Path, table: str = "counters") -> pl.DataFrame:
    """All that a store has, as any engine reads it."""
    if not (store / table).is_dir():
        return pl.DataFrame(schema=tables.TABLES[table])
    return pl.read_parquet(store / table / "*" / "*.parquet", hive_partitioning=False)


def ticks_of(store: Path) -> list[int]:
    """The ticks with rows in a store, each as often as it is there with all counters."""
    found = rows(store).group_by("end_ns", "counter").len()
    assert found["len"].max() in (None, 1), "a row is in the store twice"
    per_tick = rows(store).group_by("total").len().sort("total")
    assert set(per_tick["len"].to_list()) <= {len(COUNTERS)}
    return per_tick["total"].to_list()


@pytest.mark.slow
def test_readings_are_parquet_by_the_hour_in_the_stores_layout(tmp_path: Path) -> None:
    with Keeper(tmp_path, "mlab2") as keeper:
        kept(keeper, range(TICKS * 120))
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    hours = sorted({(START + tick * 10 * SECOND) // HOUR_NS for tick in range(TICKS * 120)})
    expected = []
    for hour in hours:
        begins = datetime.fromtimestamp(hour * 3600, UTC)
        expected += [f"{table}/day={begins:%Y-%m-%d}/{begins:%H}-mlab2.parquet" for table in ("counters", "polls")]
    assert names == sorted(expected)
    assert len(hours) == 3
    assert rows(tmp_path).schema == pl.Schema(tables.COUNTERS)
    assert rows(tmp_path, "polls").schema == pl.Schema(tables.POLLS)
    assert ticks_of(tmp_path) == list(range(TICKS * 120))


def test_a_part_is_sorted_as_the_store_wants_it(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(20))
    (path,) = (tmp_path / "counters").rglob("*.parquet")
    frame = pl.read_parquet(path)
    assert frame.equals(frame.sort(tables.ORDER["counters"]))


def test_every_poll_has_a_row_made_or_not(tmp_path: Path) -> None:
    late = replace(reading(1), status="late", message="skipped", start_ns=None, end_ns=None, values={})
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(1))
        keeper.take(late, Counting(1).samples(late))
    polls = rows(tmp_path, "polls").sort("due_ns")
    assert polls["status"].to_list() == ["ok", "late"]
    assert polls["start_ns"].to_list() == [START + 1000, None]
    assert polls["message"].to_list() == [None, "skipped"]


def test_an_hour_is_a_part_when_it_is_over_and_in_the_database_before(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(TICKS * 70))
        keeper.flush(START + 70 * MINUTE_NS)
        first = START // HOUR_NS
        over = [path.stem for path in (tmp_path / "counters").rglob("*.parquet")]
        assert over == [f"{first % 24:02d}-a"]
        assert {(part.table, part.hour) for part in pending(tmp_path)} == {
            ("counters", first + 1), ("polls", first + 1),
        }  # fmt: skip
    assert pending(tmp_path) == []
    assert ticks_of(tmp_path) == list(range(TICKS * 70))


def test_polls_are_in_the_database_within_the_time_of_a_flush(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a", flush_s=0.05, clock=At(0)) as keeper:
        kept(keeper, range(TICKS))
        wait_until(lambda: sum(part.rows for part in pending(tmp_path)) == TICKS * (len(COUNTERS) + 1))


def test_a_collector_that_starts_again_within_the_hour_continues_its_file(tmp_path: Path) -> None:
    for first in (0, 10, 20):
        with Keeper(tmp_path, "a", clock=At(4)) as keeper:
            kept(keeper, range(first, first + 10))
    assert len(list((tmp_path / "counters").rglob("*.parquet"))) == 1
    assert ticks_of(tmp_path) == list(range(30))


def test_collectors_of_different_labels_share_a_store(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a") as one, Keeper(tmp_path, "b") as other:
        kept(one, range(6), lambda _: "s1.dfw01")
        kept(other, range(6), lambda _: "s1.dfw02")
    assert rows(tmp_path).group_by("switch").len().sort("switch")["len"].to_list() == [6 * len(COUNTERS)] * 2


def test_a_second_collector_of_the_same_label_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    with (
        Keeper(tmp_path, "a"),
        pytest.raises(KeepingError, match=r"another collector uses the label a in this store\. Stop it, or"),
    ):
        Keeper(tmp_path, "a")
    # the first is gone
    Keeper(tmp_path, "a").close()


@pytest.mark.parametrize("label", ["", "../x", "a/b", ".hidden", "a" * 65, "a b", "a+2"])
def test_a_label_that_is_no_part_of_a_files_name_is_refused(tmp_path: Path, label: str) -> None:
    with pytest.raises(KeepingError, match="expected up to 64 letters, digits"):
        Keeper(tmp_path, label)


@pytest.mark.slow
def test_an_hour_of_more_rows_than_fit_becomes_several_parts(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a", rows_of_part=100) as keeper:
        for first in range(0, 180, 6):
            kept(keeper, range(first, first + 6))
            keeper.flush(START + first * 10 * SECOND)
    sizes = [pl.read_parquet(path).height for path in (tmp_path / "counters").rglob("*.parquet")]
    assert sum(sizes) == 180 * len(COUNTERS)
    assert len(sizes) > 4
    # a part is written when a minute has filled it
    assert max(sizes) <= 100 + 6 * len(COUNTERS)
    assert ticks_of(tmp_path) == list(range(180))


@pytest.mark.parametrize("rows_of_part", [30, 1000])
def test_a_crash_between_a_part_and_the_removal_of_its_rows_leaves_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_of_part: int
) -> None:
    monkeypatch.setattr(Pending, "forget", lambda _self, _part: None)
    with Keeper(tmp_path, "a", rows_of_part=rows_of_part) as keeper:
        kept(keeper, range(10))
        keeper.flush(START + 2 * HOUR_NS)
        assert ticks_of(tmp_path) == list(range(10))
    monkeypatch.undo()
    with Keeper(tmp_path, "a", rows_of_part=rows_of_part) as again:
        kept(again, range(10, 12))
    assert ticks_of(tmp_path) == list(range(12))
    assert pending(tmp_path) == []


def test_a_part_that_was_compacted_before_a_restart_brings_no_row_twice(tmp_path: Path) -> None:
    for label in ("a", "b"):
        with Keeper(tmp_path, label, clock=At(4)) as keeper:
            kept(keeper, range(10), lambda _name, label=label: f"s-{label}")
    Store.open(tmp_path).compact()
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(10, 12), lambda _name: "s-a")
    assert rows(tmp_path).filter(switch="s-a").height == 12 * len(COUNTERS)


def test_rows_of_an_hour_that_is_in_the_store_get_a_part_of_their_own(tmp_path: Path) -> None:
    # as after a clock that was set back
    with Keeper(tmp_path, "a") as keeper:
        for first in (0, 6):
            kept(keeper, range(first, first + 6))
            keeper.flush(START + 2 * HOUR_NS)
    assert len(list((tmp_path / "counters").rglob("*.parquet"))) == 2
    assert ticks_of(tmp_path) == list(range(12))


def test_a_part_that_cannot_be_read_stays_and_another_is_written(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(3))
    (path,) = (tmp_path / "counters").rglob("*.parquet")
    path.write_bytes(b"PAR1 no more")
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(3, 6))
    assert path.read_bytes() == b"PAR1 no more"
    assert pl.read_parquet(path.with_name(f"{path.stem}+2.parquet")).height == 3 * len(COUNTERS)


def test_a_damaged_database_is_set_aside_and_a_new_one_begins(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a", clock=At(4)) as keeper:
        kept(keeper, range(12))
    path = database(tmp_path)
    content = bytearray(path.read_bytes())
    content[20:3000] = bytes(2980)
    path.write_bytes(content)
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        kept(keeper, range(12, 14))
    assert len(lines) == 1
    assert f"{path}: damaged" in lines[0]
    assert path.with_name(f"{NAME}.damaged").read_bytes() == content
    assert ticks_of(tmp_path) == list(range(14))


def test_of_a_damaged_database_the_minutes_that_are_whole_are_kept(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a", clock=At(4)) as keeper:
        for first in (0, 6):
            kept(keeper, range(first, first + 6))
            keeper.flush()
    shutil.rmtree(tmp_path / "counters")
    changed = sqlite3.connect(database(tmp_path))
    with changed:
        changed.execute("UPDATE chunk SET content = zeroblob(length(content)) WHERE name = 'counters' AND id <= 2")
    changed.close()
    lines: list[str] = []
    Keeper(tmp_path, "a", say=lines.append).close()
    assert ticks_of(tmp_path) == list(range(6, 12))
    assert lines == [f"{database(tmp_path)}: damaged; {6 * len(COUNTERS)} rows of counters are lost"]


def test_the_journal_of_an_earlier_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    Keeper(tmp_path, "a").close()
    (tmp_path / FOLDER / "a" / "counters.491897.journal").write_bytes(b"")
    with pytest.raises(KeepingError, match=r"491897\.journal: polls that an earlier version .* Start that version"):
        Keeper(tmp_path, "a")


def full(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def test_polls_wait_for_a_full_disk_and_are_kept_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        kept(keeper, range(6))
        keeper.flush(START)
        monkeypatch.setattr(Pending, "add", full)
        for minute in (1, 2):
            kept(keeper, range(minute * 6, minute * 6 + 6))
            keeper.flush(START + minute * MINUTE_NS)
        path = database(tmp_path)
        assert lines == [f"{path}: database or disk is full. New polls wait in memory, up to 256 MiB"]
        monkeypatch.undo()
        keeper.flush(START + 3 * MINUTE_NS)
        assert lines[1:] == [f"{path}: can be written again"]
    assert ticks_of(tmp_path) == list(range(18))


def test_a_transaction_that_fails_half_way_leaves_nothing_of_itself(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a", say=[].append) as keeper:
        kept(keeper, range(6))
        # the rows are written before the readings
        database_of = keeper._pending._db
        database_of.execute("CREATE TRIGGER fails INSERT ON last_reading BEGIN SELECT RAISE(FAIL, 'no'); END")
        keeper.flush(START)
        assert pending(tmp_path) == []
        database_of.execute("DROP TRIGGER fails")
        keeper.flush(START)
    assert ticks_of(tmp_path) == list(range(6))


def test_what_no_memory_holds_any_more_is_lost_from_its_oldest_end_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append, memory_bytes=20_000) as keeper:
        monkeypatch.setattr(Pending, "add", full)
        for first in range(0, 120, 6):
            kept(keeper, range(first, first + 6))
            keeper.flush(START)
        monkeypatch.undo()
    found = ticks_of(tmp_path)
    assert found == list(range(found[0], 120))
    assert found[0] > 0
    assert sum("the oldest are being lost" in line for line in lines) == 1
    assert f"{found[0] * (len(COUNTERS) + 1)} samples and polls were lost" in lines[-1]


def test_an_hour_waits_in_the_database_where_the_store_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / "counters"))

    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        monkeypatch.setattr(Store, "write_part", full)
        kept(keeper, range(12))
        keeper.flush(START + 2 * HOUR_NS)
        assert "No space left on device" in lines[0]
        monkeypatch.undo()
        keeper.flush(START + 2 * HOUR_NS)
        assert ticks_of(tmp_path) == list(range(12))


def test_what_cannot_be_written_in_the_end_is_said_to_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    keeper = Keeper(tmp_path, "a", say=lines.append)
    kept(keeper, range(6))
    keeper.flush(START)
    monkeypatch.setattr(Pending, "add", full)
    kept(keeper, range(6, 12))
    with pytest.raises(
        KeepingError, match=f"database or disk is full; {6 * len(COUNTERS) + 6} samples and polls .* are lost"
    ):
        keeper.close()
    assert not any("wait in memory" in line for line in lines)
    assert ticks_of(tmp_path) == list(range(6))


def test_in_the_end_rows_that_the_store_does_not_take_are_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "counters")

    monkeypatch.setattr(Store, "write_part", full)
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        kept(keeper, range(6))
    assert lines == [
        f"counters: No space left on device. Its rows wait in {database(tmp_path)}; the next start of the collector "
        "writes them"
    ]
    monkeypatch.undo()
    Keeper(tmp_path, "a").close()
    assert ticks_of(tmp_path) == list(range(6))


def test_rows_wait_in_memory_whatever_prevents_their_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError("no more")

    with Keeper(tmp_path, "a", say=[].append) as keeper:
        kept(keeper, range(6))
        monkeypatch.setattr(pl.DataFrame, "write_ipc_stream", fails)
        keeper.flush(START)
        monkeypatch.undo()
    assert ticks_of(tmp_path) == list(range(6))


def test_of_what_no_memory_holds_any_more_the_newest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Keeper(tmp_path, "a", say=[].append, memory_bytes=20_000) as keeper:
        monkeypatch.setattr(Pending, "add", full)
        for tick in range(60):
            kept(keeper, range(tick, tick + 1))
            keeper.flush(START)
        monkeypatch.undo()
    found = ticks_of(tmp_path)
    assert found == list(range(60))[-len(found) :]
    assert len(found) >= 12


def test_a_store_that_vanishes_is_waited_for_and_made_again_in_the_end(tmp_path: Path) -> None:
    lines: list[str] = []
    store = tmp_path / "store"
    with Keeper(store, "a", say=lines.append) as keeper:
        kept(keeper, range(6))
        keeper.flush(START)
        shutil.rmtree(store)
        kept(keeper, range(6, 12))
        keeper.flush(START + MINUTE_NS)
        assert not store.exists()
        assert lines == [
            f"{store}: the store is gone (removed, or its disk is no longer mounted). New polls wait in memory, "
            "up to 256 MiB"
        ]
    # what was in the database is written again, as its file was still open
    assert ticks_of(store) == list(range(12))


def test_a_collectors_folder_that_vanishes_is_made_again_and_locked(tmp_path: Path) -> None:
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        shutil.rmtree(tmp_path / FOLDER)
        kept(keeper, range(6))
        keeper.flush(START)
        assert lines == [f"{tmp_path / FOLDER / 'a'}: was removed; it was made again"]
        with pytest.raises(KeepingError, match="another collector"):
            Keeper(tmp_path, "a")
    assert ticks_of(tmp_path) == list(range(6))


def test_an_object_store_is_refused_with_what_to_do_instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Store, "create", lambda where: Store(replace(Files.at(tmp_path), local=None)))
    with pytest.raises(KeepingError, match=r"needs a folder of this machine.*Name a folder"):
        Keeper("s3://bucket/store", "a")


def test_close_may_be_called_twice(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, "a")
    keeper.close()
    keeper.close()


def start_child(store: Path, first_minute: int, rows_of_part: int = 1_000_000) -> subprocess.Popen[str]:
    command = [sys.executable, str(CHILD), str(store), "a", str(first_minute), str(rows_of_part)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def kill_behind(child: subprocess.Popen[str], minutes: int) -> int:
    """Kill a child (signal 9) some minutes of its own after it began; the last minute it said it has on the disk."""
    assert child.stdout is not None
    last = -1
    for _ in range(minutes):
        last = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    # what it said before it was dead counts too
    rest = child.stdout.read().split()
    child.wait()
    child.stdout.close()
    return int(rest[-1]) if rest else last


@pytest.mark.slow
def test_a_collector_killed_in_mid_hour_loses_the_current_minute_at_most(tmp_path: Path) -> None:
    last = kill_behind(start_child(tmp_path, 0), 25)
    Keeper(tmp_path, "a").close()
    found = ticks_of(tmp_path)
    assert found == list(range(len(found)))
    assert (last + 1) * TICKS <= len(found) <= (last + 2) * TICKS


@pytest.mark.slow
@pytest.mark.parametrize("rows_of_part", [150, 1_000_000])
def test_a_collector_killed_again_and_again_has_every_minute_it_said_it_has_and_none_twice(
    tmp_path: Path, rows_of_part: int
) -> None:
    first, expected = 0, set()
    for minutes in (3, 61, 118, 7):
        last = kill_behind(start_child(tmp_path, first, rows_of_part), minutes)
        expected |= set(range(first * TICKS, (last + 1) * TICKS))
        first = last + 2
    Keeper(tmp_path, "a", rows_of_part=rows_of_part).close()
    found = ticks_of(tmp_path)
    assert expected <= set(found)
    assert len(found) <= len(expected) + 4 * TICKS


@pytest.mark.slow
@pytest.mark.needs_root
def test_a_real_disk_that_is_full_and_gets_room_again_has_everything(tmp_path: Path) -> None:
    script, disk = tmp_path / "script.py", tmp_path / "disk"
    disk.mkdir()
    script.write_text(FULL_DISK)
    shell = 'mount -t tmpfs -o size=1000k tmpfs "$3" && exec "$0" "$1" "$2" "$3"'
    command = ["unshare", "--mount", "sh", "-c", shell, sys.executable, script, CHILD.parent, disk]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[:1] == ["True"], done.stderr
    assert "database or disk is full" in done.stdout
    assert done.stdout.strip().endswith("can be written again")


FULL_DISK = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import polars as pl
from keeper_child import COUNTERS, MINUTE_NS, START, TICKS, Counting, Keeper, reading

disk, lines = Path(sys.argv[2]), []
keeper, counting = Keeper(disk / "store", "a", say=lines.append), Counting(MINUTE_NS // TICKS)
for minute in range(40):
    if minute == 10:
        with (disk / "filler").open("wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass
    if minute == 30:
        (disk / "filler").unlink()
    for tick in range(minute * TICKS, (minute + 1) * TICKS):
        one = reading(tick)
        keeper.take(one, counting.samples(one))
    keeper.flush(START + (minute + 1) * MINUTE_NS)
keeper.close()
totals = pl.read_parquet(disk / "store/counters/*/*.parquet")["total"]
print(sorted(totals.to_list()) == [tick for tick in range(40 * TICKS) for _ in COUNTERS])
print("; ".join(lines))
"""
