"""Tests that readings are in the store once, whatever happened to the collector, its journal and the disk."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keeping_child import COUNTERS, START, TICKS, reading

from whydrop.collect.switches import framing, journal
from whydrop.collect.switches.counting import Counting
from whydrop.collect.switches.journal import HOUR_NS, Journal
from whydrop.collect.switches.keeping import FOLDER, MINUTE_NS, Keeper, KeepingError
from whydrop.store import tables
from whydrop.store.files import Files
from whydrop.store.store import Store

CHILD = Path(__file__).with_name("keeping_child.py")
SECOND = 1_000_000_000


def kept(keeper: Keeper, ticks: range, label_of: Callable[[str], str] = str) -> None:
    """Have a keeper take the polls of some ticks."""
    counting = Counting(MINUTE_NS // TICKS)
    for tick in ticks:
        one = replace(reading(tick), switch=label_of("s1.dfw07"))
        keeper.keep(one, counting.samples(one))


def rows(store: Path, table: str = "counters") -> pl.DataFrame:
    """All that a store has, as any engine reads it."""
    if not (store / table).is_dir():
        return pl.DataFrame(schema=tables.TABLES[table])
    return pl.read_parquet(store / table / "*" / "*.parquet", hive_partitioning=False)


def ticks_of(store: Path) -> list[int]:
    """The ticks whose rows are in a store, each as often as it is there with all counters."""
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
        keeper.keep(late, Counting(1).samples(late))
    polls = rows(tmp_path, "polls").sort("due_ns")
    assert polls["status"].to_list() == ["ok", "late"]
    assert polls["start_ns"].to_list() == [START + 1000, None]
    assert polls["message"].to_list() == [None, "skipped"]


def test_an_hour_is_a_part_when_it_is_over_and_a_journal_before(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(TICKS * 70))
        keeper.flush(START + 70 * MINUTE_NS)
        first = START // HOUR_NS
        over = [path.stem for path in (tmp_path / "counters").rglob("*.parquet")]
        assert over == [f"{first % 24:02d}-a"]
        journals = {path.name for path in (tmp_path / FOLDER / "a").glob("*.journal")}
        assert journals == {f"counters.{first + 1}.journal", f"polls.{first + 1}.journal"}
    assert not list((tmp_path / FOLDER / "a").glob("*.journal"))
    assert ticks_of(tmp_path) == list(range(TICKS * 70))


def test_a_minute_is_on_the_disk_when_the_next_one_begins(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a") as keeper:
        keeper.tick(START)
        kept(keeper, range(TICKS))
        keeper.tick(START + 59 * SECOND)
        one = Journal(tmp_path / FOLDER / "a", "counters", START // HOUR_NS)
        assert not one.path.exists()
        keeper.tick(START + 60 * SECOND)
        deadline = time.monotonic() + 20
        while not one.path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        keeper.flush()
        frame, damage = one.read()
        assert (frame.height, damage) == (TICKS * len(COUNTERS), None)


def test_a_collector_that_starts_again_within_the_hour_continues_its_file(tmp_path: Path) -> None:
    for first in (0, 10, 20):
        with Keeper(tmp_path, "a") as keeper:
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
        pytest.raises(KeepingError, match=r"another collector keeps samples here under the label a\. Stop it, or"),
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


def test_a_crash_between_the_part_and_the_end_of_its_journal_leaves_no_row_twice(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, "a", rows_of_part=30)
    kept(keeper, range(10))
    keeper._write_journals()
    saved = tmp_path / "saved"
    shutil.copytree(tmp_path / FOLDER / "a", saved)
    keeper.close()
    shutil.copytree(saved, tmp_path / FOLDER / "a", dirs_exist_ok=True)
    with Keeper(tmp_path, "a", rows_of_part=30) as again:
        kept(again, range(10, 12))
    assert ticks_of(tmp_path) == list(range(12))


def test_a_journal_that_grew_after_a_crash_brings_no_row_that_a_later_part_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_tick = len(COUNTERS)
    with Keeper(tmp_path, "a", rows_of_part=10 * of_tick) as keeper:
        kept(keeper, range(4))
    keeper = Keeper(tmp_path, "a", rows_of_part=10 * of_tick)
    kept(keeper, range(4, 14))
    monkeypatch.setattr(Journal, "remove", lambda _self: None)  # a crash: the part is there, and its journal still is
    keeper.close()
    monkeypatch.undo()
    assert len(list((tmp_path / "counters").rglob("*.parquet"))) == 2
    with Keeper(tmp_path, "a", rows_of_part=10 * of_tick) as keeper:
        kept(keeper, range(14, 16))
    assert ticks_of(tmp_path) == list(range(16))


def test_a_part_that_cannot_be_read_stays_and_another_is_written(tmp_path: Path) -> None:
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(3))
    (path,) = (tmp_path / "counters").rglob("*.parquet")
    path.write_bytes(b"PAR1 no more")
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        kept(keeper, range(3, 6))
    assert path.read_bytes() == b"PAR1 no more"
    assert pl.read_parquet(path.with_name(f"{path.stem}+2.parquet")).height == 3 * len(COUNTERS)
    assert any(str(path) in line and "stays as it is" in line for line in lines)


@pytest.fixture(scope="module")
def whole_journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    counting, one = Counting(MINUTE_NS // TICKS), Journal(folder, "counters", START // HOUR_NS)
    for minute in range(5):
        one.append(pl.concat([counting.samples(reading(minute * TICKS + tick)) for tick in range(TICKS)]))
    return one.path


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_whatever_is_damaged_the_minutes_that_are_whole_are_found(whole_journal: Path, data: st.DataObject) -> None:
    content = whole_journal.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    how = data.draw(st.sampled_from(["cut", "flip", "insert"]))
    if how == "cut":
        damaged = content[:at]
    elif how == "flip":
        damaged = content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :]
    else:
        damaged = content[:at] + data.draw(st.binary(min_size=1, max_size=40)) + content[at:]
    found = [(start, one) for start, one in journal._frames(damaged, "counters")]
    frames = [one for _, one in found if isinstance(one, pl.DataFrame)]
    size = len(content) // 5
    intact = at // size if how == "cut" else 4
    assert len(frames) >= intact - 1 if how == "cut" else len(frames) >= intact
    minutes = [frame["total"].min() // TICKS for frame in frames]
    assert minutes == sorted(set(minutes))
    assert all(frame.height == TICKS * len(COUNTERS) for frame in frames)


@settings(deadline=None)
@given(content=st.binary(max_size=300) | st.binary(max_size=200).map(lambda tail: framing.MAGIC + tail))
def test_no_content_of_a_journal_is_an_error(content: bytes) -> None:
    assert all(isinstance(one, str) for _, one in journal._frames(content, "counters"))


def test_a_damaged_journal_is_named_with_the_place_of_the_damage(tmp_path: Path, whole_journal: Path) -> None:
    folder = tmp_path / FOLDER / "a"
    folder.mkdir(parents=True)
    Store.create(tmp_path / "elsewhere")
    content = whole_journal.read_bytes()
    (folder / whole_journal.name).write_bytes(content[:-7])
    shutil.copy(tmp_path / "elsewhere" / "whydrop-store.json", tmp_path)
    lines: list[str] = []
    Keeper(tmp_path, "a", say=lines.append).close()
    assert ticks_of(tmp_path) == list(range(4 * TICKS))
    assert any(f"{folder / whole_journal.name}: offset" in line and "of which" in line for line in lines)


def test_samples_wait_for_a_full_disk_and_are_kept_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        kept(keeper, range(6))
        keeper.flush(START)
        real = os.write

        def full(descriptor: int, content: memoryview) -> int:
            # takes some of it first, as disks do
            if len(content) < 20:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, content[: len(content) // 2])

        monkeypatch.setattr("whydrop.collect.switches.framing.os.write", full)
        for minute in (1, 2):
            kept(keeper, range(minute * 6, minute * 6 + 6))
            keeper.flush(START + minute * MINUTE_NS)
        assert len(lines) == 1
        assert "No space left on device; what is read waits in memory (up to 256 MiB)" in lines[0]
        monkeypatch.undo()
        keeper.flush(START + 3 * MINUTE_NS)
        assert lines[1:] == ["the disk takes samples again"]
    assert ticks_of(tmp_path) == list(range(18))


def test_a_disk_that_fails_behind_a_whole_frame_leaves_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Keeper(tmp_path, "a", say=[].append) as keeper:
        kept(keeper, range(6))
        monkeypatch.setattr("whydrop.collect.switches.framing.os.fsync", fails)
        monkeypatch.setattr("whydrop.collect.switches.framing.os.ftruncate", fails)
        keeper.flush(START)
        monkeypatch.undo()
        keeper.flush(START)
        assert keeper._journals["counters", START // HOUR_NS].read()[0].height == 2 * 6 * len(COUNTERS)
    assert ticks_of(tmp_path) == list(range(6))


def test_what_no_memory_holds_any_more_is_lost_from_its_oldest_end_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append, memory_bytes=20_000) as keeper:
        monkeypatch.setattr("whydrop.collect.switches.framing.os.write", _no_room)
        for first in range(0, 120, 6):
            kept(keeper, range(first, first + 6))
            keeper.flush(START)
        monkeypatch.undo()
    found = ticks_of(tmp_path)
    assert found == list(range(found[0], 120))
    assert found[0] > 0
    assert sum("the oldest are being lost" in line for line in lines) == 1
    assert f"{found[0] * len(COUNTERS)} samples were lost" in lines[-1]


def _no_room(_descriptor: int, _content: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_hour_waits_in_its_journal_where_the_store_has_no_room(
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
    monkeypatch.setattr("whydrop.collect.switches.framing.os.write", _no_room)
    kept(keeper, range(6, 12))
    with pytest.raises(
        KeepingError, match=f"No space left on device; {6 * len(COUNTERS) + 6} samples and polls .* lost"
    ):
        keeper.close()
    assert not any("until there is room" in line for line in lines)
    assert ticks_of(tmp_path) == list(range(6))


def test_in_the_end_a_journal_that_the_store_does_not_take_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "counters")

    monkeypatch.setattr(Store, "write_part", full)
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        kept(keeper, range(6))
    assert lines == [
        f"counters: No space left on device; what is in {tmp_path / FOLDER / 'a'} goes into the store when the "
        "collector starts again"
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
    # one hour's rows, which wait as one since they could not be written
    monkeypatch.setattr("whydrop.collect.switches.keeping._ROWS_OF_PIECE", 2 * len(COUNTERS))
    with Keeper(tmp_path, "a", say=[].append, memory_bytes=20_000) as keeper:
        monkeypatch.setattr("whydrop.collect.switches.framing.os.write", _no_room)
        kept(keeper, range(12))
        keeper.flush(START)
        for tick in range(12, 60):
            kept(keeper, range(tick, tick + 1))
            keeper.flush(START)
        monkeypatch.undo()
    assert len(ticks_of(tmp_path)) >= 12


def test_a_store_that_vanishes_is_waited_for_and_made_anew_in_the_end(tmp_path: Path) -> None:
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
            f"{store}: the store is gone (removed, or its disk is no longer mounted); what is read waits in memory "
            "(up to 256 MiB) until there is room"
        ]
    assert ticks_of(store) == list(range(6, 12))
    assert any(f"{6 * len(COUNTERS)} rows are gone" in line for line in lines)


def test_a_journals_folder_that_vanishes_is_made_again_and_locked(tmp_path: Path) -> None:
    lines: list[str] = []
    with Keeper(tmp_path, "a", say=lines.append) as keeper:
        shutil.rmtree(tmp_path / FOLDER)
        kept(keeper, range(6))
        keeper.flush(START)
        assert lines == [f"{tmp_path / FOLDER / 'a'}: was removed; it was made again"]
        with pytest.raises(KeepingError, match="another collector"):
            Keeper(tmp_path, "a")
    assert ticks_of(tmp_path) == list(range(6))


def test_what_nobody_asks_to_be_written_is_written_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # polls may be an hour apart, and so are ticks
    monkeypatch.setattr("whydrop.collect.switches.keeping.PATIENCE_S", 0.05)
    with Keeper(tmp_path, "a") as keeper:
        kept(keeper, range(3))
        one = Journal(tmp_path / FOLDER / "a", "counters", START // HOUR_NS)
        deadline = time.monotonic() + 20
        while not one.read()[0].height and time.monotonic() < deadline:
            time.sleep(0.01)
        assert one.read()[0].height == 3 * len(COUNTERS)


def test_an_object_store_is_refused_with_what_to_do_instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Store, "create", lambda where: Store(replace(Files.at(tmp_path), local=None)))
    with pytest.raises(KeepingError, match=r"keeps in a folder of its own machine.*Name a folder"):
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
    shell = 'mount -t tmpfs -o size=300k tmpfs "$3" && exec "$0" "$1" "$2" "$3"'
    command = ["unshare", "--mount", "sh", "-c", shell, sys.executable, script, CHILD.parent, disk]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[:1] == ["True"], done.stderr
    assert "No space left on device" in done.stdout
    assert done.stdout.strip().endswith("the disk takes samples again")


FULL_DISK = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import polars as pl
from keeping_child import COUNTERS, MINUTE_NS, START, TICKS, Counting, Keeper, reading

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
        keeper.keep(one, counting.samples(one))
    keeper.flush(START + (minute + 1) * MINUTE_NS)
keeper.close()
totals = pl.read_parquet(disk / "store/counters/*/*.parquet")["total"]
print(sorted(totals.to_list()) == [tick for tick in range(40 * TICKS) for _ in COUNTERS])
print("; ".join(lines))
"""
