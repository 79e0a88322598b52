"""Files and folders into a store: each once, each by itself."""

from __future__ import annotations

import gzip
import io
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.published import MLAB
from archives.test_disco import HOUR, file_of, metric, polls, windows
from patience import wait_until
from store.test_adding import _CrashError, _Failing, plain
from whydrop.formats.archives import chunks, ingesting, parallel
from whydrop.formats.archives.chunks import Given
from whydrop.formats.archives.ingesting import Report, ingest
from whydrop.store import tables
from whydrop.store.store import Store

SERIES = 4


def hourly(folder: Path, hours: int, series: int = SERIES) -> list[Path]:
    """Files of version 1, each with the first sample of the next."""
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for hour in range(hours):
        first = HOUR + 3600 * hour
        content = file_of(
            *(
                metric(f"{kind}.uplink.tx", windows([float((first // 10 + n) % 1000) for n in range(361)], first))
                for kind in ("octets", "unicast", "discards", "errors")[:series]
            )
        )
        path = folder / f"hour{hour:03}-switch.json.gz"
        path.write_bytes(gzip.compress(content, 1, mtime=0))
        paths.append(path)
    return paths


def statuses(report: Report) -> list[str]:
    return [file.status for file in report.files]


def test_the_same_files_twice_change_nothing(tmp_path: Path) -> None:
    files = hourly(tmp_path / "in", 3)
    store = Store.create(tmp_path / "store")
    report = ingest(store, [tmp_path / "in"])
    assert report.complete
    assert statuses(report) == ["new"] * 3
    assert vars(report.tables()["counters"]) == {"rows": 3 * SERIES * 360, "duplicates": 0, "conflicts": 0}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*") if path.is_file()}
    copy = tmp_path / "copy-under-another-name"
    copy.write_bytes(files[1].read_bytes())
    again = ingest(store, [*files, copy])
    assert statuses(again) == ["known"] * 4
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store").rglob("*") if path.is_file()} == before


def test_files_can_be_read_again_when_parts_were_lost(tmp_path: Path) -> None:
    files = hourly(tmp_path / "in", 2)
    store = Store.create(tmp_path / "store")
    ingest(store, files)
    (part,) = (tmp_path / "store/counters").rglob("*.parquet")
    part.unlink()
    report = ingest(store, files, again=True)
    assert report.tables()["counters"].rows == 2 * SERIES * 360


def test_a_note_says_what_came_of_each_file(tmp_path: Path) -> None:
    (path,) = hourly(tmp_path / "in", 1)
    store = Store.create(tmp_path / "store")
    (file,) = ingest(store, [path]).files
    note = store.source(file.sha256)
    assert note is not None
    assert note["source"] == str(path)
    assert note["tables"] == {"counters": {"rows": SERIES * 360, "duplicates": 0, "conflicts": 0}}
    (tmp_path / "store/sources" / f"{file.sha256}.json").write_bytes(b"")
    (again,) = ingest(store, [path]).files
    assert again.status == "new"
    assert again.tables["counters"].duplicates == SERIES * 360


def test_one_bad_file_never_stops_the_others(tmp_path: Path) -> None:
    good = hourly(tmp_path, 2)
    cut = tmp_path / "cut-switch.json"
    cut.write_bytes(
        file_of(metric("octets.other.tx", windows([1.0, 2.0])), metric("errors.other.tx", windows([0.0])))[:-9]
    )
    torn = tmp_path / "torn-switch.json.gz"
    torn.write_bytes(good[0].read_bytes()[:200])
    noise = tmp_path / "noise.bin"
    noise.write_bytes(os.urandom(500))
    report = ingest(Store.create(tmp_path / "store"), [cut, noise, tmp_path / "gone", torn, *good, Path("/dev/null")])
    assert not report.complete
    assert statuses(report) == ["damaged", "unreadable", "unreadable", "unreadable", "new", "new", "unreadable"]
    assert report.files[0].tables["counters"].rows == 2
    assert "offset" in report.files[0].damage[0]
    for file in report.files:
        assert all(file.path in words for words in file.damage)
    assert report.tables()["counters"].rows == 2 * SERIES * 360 + 2


def test_other_things_in_a_folder_are_left_out_and_no_failure(tmp_path: Path) -> None:
    hourly(tmp_path / "in/deep/down", 1)
    (tmp_path / "in/README.md").write_text("# What this is")
    (tmp_path / "in/.hidden").write_text("{")
    report = ingest(Store.create(tmp_path / "store"), [tmp_path / "in"])
    assert statuses(report) == ["left out", "new"]
    assert report.complete


def test_a_store_among_the_archives_is_not_read_into_itself(tmp_path: Path) -> None:
    hourly(tmp_path / "in", 1)
    store = Store.create(tmp_path / "in/store")
    ingest(store, [tmp_path / "in"])
    assert statuses(ingest(store, [tmp_path / "in"])) == ["known"]


@pytest.fixture(scope="module")
def various(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of both versions; the last holds samples of two others, and is damaged."""
    folder = tmp_path_factory.mktemp("various")
    files = hourly(folder, 3)
    second = folder / "second-switch.jsonl"
    second.write_bytes(file_of(metric("octets.uplink.tx", polls([10**12, 10**12 + 5, 7], first=HOUR + 4 * 3600))))
    both = folder / "both-switch.json"
    both.write_bytes(b"".join(gzip.decompress(path.read_bytes()) for path in files[:2])[:-30])
    return [*files, second, both]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_files_in_any_order_and_any_number_of_times_give_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, various: list[Path], data: st.DataObject
) -> None:
    order = data.draw(st.permutations([*various, *data.draw(st.lists(st.sampled_from(various), max_size=4))]))
    at_once = data.draw(st.integers(1, len(order)))
    root = tmp_path_factory.mktemp("store")
    for first in range(0, len(order), at_once):
        report = ingest(Store.create(root), order[first : first + at_once], again=data.draw(st.booleans()))
        assert not any(count.conflicts for count in report.tables().values())
    columns = ["counter", "end_ns", "value", "quality"]
    expected = {(HOUR + 10 * (n + 1)) * 10**9 for n in range(3 * 360)}
    seen = plain(root).select(columns)
    assert seen.height == SERIES * len(expected) + 3
    of_windows = seen.filter(pl.col("end_ns") < (HOUR + 4 * 3600) * 10**9)
    assert set(of_windows["end_ns"]) == expected
    assert (of_windows["value"] == (of_windows["end_ns"] // 10**10 - 1) % 1000).all()


def test_a_reader_that_fails_in_an_unheard_of_way_costs_its_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = hourly(tmp_path, 3)
    pieces = chunks._pieces

    def failing(path: Path, digest: str) -> Any:
        if path == files[1]:
            raise ZeroDivisionError("unheard of")
        return pieces(path, digest)

    monkeypatch.setattr(chunks, "_pieces", failing)
    report = ingest(Store.create(tmp_path / "store"), files)
    assert statuses(report) == ["new", "unreadable", "new"]
    assert "unheard of" in report.files[1].damage[0]


def test_archives_are_read_member_by_member(tmp_path: Path) -> None:
    archive = tmp_path / "day.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in hourly(tmp_path / "in", 3):
            info = tarfile.TarInfo(path.name)
            info.size = path.stat().st_size
            tar.addfile(info, io.BytesIO(path.read_bytes()))
    report = ingest(Store.create(tmp_path / "store"), [archive, tmp_path / "in"])
    assert report.tables()["counters"].rows == 3 * SERIES * 360
    assert report.tables()["counters"].duplicates == 3 * SERIES * 360


def test_conflicts_are_counted_and_shown_with_both_values(tmp_path: Path) -> None:
    one, other = tmp_path / "1-switch.json", tmp_path / "2-switch.json"
    one.write_bytes(file_of(metric("octets.uplink.tx", windows([1.0, 2.0, 3.0]))))
    other.write_bytes(file_of(metric("octets.uplink.tx", windows([1.0, 2.5, 9.0]))))
    report = ingest(Store.create(tmp_path / "store"), [one, other])
    assert vars(report.files[1].tables["counters"]) == {"rows": 0, "duplicates": 1, "conflicts": 2}
    assert "value is 2.0, and 2.5 was left out" in str(report.files[1].shown[0])
    assert sorted(plain(tmp_path / "store")["value"]) == [1.0, 2.0, 3.0]


@pytest.mark.slow
def test_a_crash_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "ROWS_OF_A_BATCH", 500)
    files = hourly(tmp_path / "in", 3, series=1)
    for step in range(1, 40):
        root = tmp_path / str(step)
        store = Store.create(root)
        with pytest.MonkeyPatch.context() as patch:
            _Failing(patch, step)
            try:
                ingest(store, files)
                break
            except _CrashError:
                pass
        noted = len(list((root / "sources").glob("*.json")))
        there = plain(root).height if list(root.glob("counters/*/*.parquet")) else 0
        assert there >= 360 * noted, "a file is noted only when its rows are in"
        ingest(store, files)
        frame = plain(root)
        assert frame.height == frame.select(tables.KEYS["counters"]).unique().height == 3 * 360
    assert step == 10, "two parts, each a file, a rename and a folder, and three notes were expected to fail"


@pytest.mark.slow
def test_several_processes_read_the_same_as_one(tmp_path: Path) -> None:
    files = hourly(tmp_path / "in", 12)
    noise = tmp_path / "in/noise-switch.json"
    noise.write_bytes(b"{" * 100)
    one = ingest(Store.create(tmp_path / "one"), [*files, noise], processes=1)
    two = ingest(Store.create(tmp_path / "two"), [*files, noise], processes=2)
    assert [vars(file) for file in one.files] == [vars(file) for file in two.files]
    assert plain(tmp_path / "one").equals(plain(tmp_path / "two"))


def test_progress_goes_from_nothing_to_all_bytes(tmp_path: Path) -> None:
    files = hourly(tmp_path / "in", 3)
    told: list[tuple[int, int]] = []
    ingest(Store.create(tmp_path / "store"), files, lambda done, total: told.append((done, total)))
    total = sum(path.stat().st_size for path in files)
    assert told[-1] == (total, total)
    assert told == sorted(told)


def test_what_was_read_before_ctrl_c_is_kept_and_not_read_again(tmp_path: Path) -> None:
    files = hourly(tmp_path / "in", 4)
    half = sum(path.stat().st_size for path in files[:2])

    def interrupt(done: int, _total: int) -> None:
        if done >= half:
            raise KeyboardInterrupt

    store = Store.create(tmp_path / "store")
    with pytest.raises(KeyboardInterrupt):
        ingest(store, files, interrupt)
    assert plain(tmp_path / "store").height == 2 * SERIES * 360
    assert statuses(ingest(store, files)) == ["known", "known", "new", "new"]


def test_a_folder_that_cannot_be_read_is_named_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hourly(tmp_path / "in", 1)
    closed = tmp_path / "in" / "closed"
    closed.mkdir()
    original = os.scandir

    def scandir(folder: str) -> Any:
        if Path(folder) == closed:  # as the system says of folders of others
            raise PermissionError(13, "Permission denied", str(folder))
        return original(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    report = ingest(Store.create(tmp_path / "store"), [tmp_path / "in"])
    assert statuses(report) == ["new", "unreadable"]
    assert report.files[1].damage == [f"{closed}: Permission denied"]
    assert not report.complete


# Reports progress after each file, and does not go on before a line arrives.
PROGRAM = """
import sys, time
from contextlib import contextmanager
from whydrop.cli import commands, import_into_store
from whydrop.formats.archives import ingesting

@contextmanager
def by_hand():
    shown = 0
    def advance(done, total):
        nonlocal shown
        if done > shown:
            shown = done
            print(done, flush=True)
            sys.stdin.readline() or time.sleep(600)
    yield advance

if __name__ == "__main__":
    ingesting.FILES_OF_A_BATCH = 5
    import_into_store.progress.reading = lambda _: by_hand()
    commands.whydrop(["store", "import", sys.argv[1], sys.argv[2], "--workers", "2"])
"""


def begun(folder: Path, files: int) -> subprocess.Popen[str]:
    """``whydrop store import``, which has read so many files of ``folder / "in"`` and waits."""
    (folder / "script.py").write_text(PROGRAM)
    words = [sys.executable, folder / "script.py", folder / "store", folder / "in"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(words, **pipes, text=True, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n" * (files - 1))
    process.stdin.flush()
    for _ in range(files):
        assert process.stdout.readline(), process.communicate()[1]
    return process


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_ended_by_ctrl_c_or_sigterm_it_keeps_what_was_read_and_says_no_more_than_that(
    how: signal.Signals, send: Callable[[int, int], None], tmp_path: Path
) -> None:
    hourly(tmp_path / "in", 12)
    process = begun(tmp_path, 7)
    send(process.pid, how)
    # Ends when the last process that has these pipes does.
    _, said = process.communicate(timeout=120)
    assert said == "whydrop: stopped\nwhydrop: everything read so far is in the store\n"
    assert process.returncode == 128 + how
    assert plain(tmp_path / "store").height == 7 * SERIES * 360
    assert statuses(ingest(Store.open(tmp_path / "store"), [tmp_path / "in"])) == ["known"] * 7 + ["new"] * 5


@pytest.mark.slow
def test_no_process_outlives_the_one_that_was_killed_nor_complains(tmp_path: Path) -> None:
    hourly(tmp_path / "in", 12)
    process = begun(tmp_path, 2)
    process.kill()
    assert process.communicate(timeout=120) == ("", "")


@pytest.mark.slow
def test_a_file_whose_process_dies_twice_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    files = [Given(path, path.stat().st_size, named=True) for path in hourly(tmp_path / "in", 3)]
    deadly = tmp_path / "pipe"
    os.mkfifo(deadly)  # a process that reads it waits, and is killed here
    pool = parallel._Pool(2, store.files.shown, again=False)
    try:
        first, *others = pool._readers
        failing = pool.begin(Given(deadly, 0, named=True))
        reading = [pool.begin(file) for file in files]
        for _ in range(2):
            victim = first._process
            victim.kill()
            wait_until(lambda victim=victim: first._process is not victim or failing.done())
        (read,) = failing.result(120)
        assert read.report is not None
        assert read.report.damage == [f"{deadly}: the process that read it died, perhaps because memory ran out"]
        assert [one.result(120)[-1].report.status for one in reading] == ["new"] * 3
    finally:
        pool.stop()
    assert not any(reader._process.is_alive() for reader in (first, *others))


@pytest.mark.slow
def test_every_published_file_reads_and_no_test_is_lost(tmp_path: Path) -> None:
    if not MLAB.is_dir():
        pytest.skip(f"Measurement Lab's files are not in {MLAB}: only synthetic files are read")
    store = Store.create(tmp_path)
    report = ingest(store, [MLAB])
    assert report.complete, [file.damage for file in report.files if file.damage]
    assert {Path(file.path).name for file in report.files if file.status == "left out"} == {
        "README.md",
        "switches.json",
    }
    counters = store.scan("counters").collect()
    assert counters.height == 24 * 360 + 16 * 30
    assert (
        counters.filter(pl.col("site") == "svg01", pl.col("counter") == "octets.tx", pl.col("port") == "uplink")[
            "value"
        ].sum()
        == 3_978_878_632
    )
    again = ingest(store, [MLAB], again=True)
    assert all(count.rows == 0 for count in again.tables().values())


@pytest.mark.slow
def test_a_killed_program_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    hourly(tmp_path / "in", 40)
    for files in (3, 10, 17, 24, 31):
        process = begun(tmp_path, files)
        assert process.stdin is not None
        # It may read and write some more, and is killed in the midst of that.
        process.stdin.write("\n" * 5)
        process.stdin.flush()
        process.kill()
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        if list((tmp_path / "store").glob("counters/*/*.parquet")):
            assert not plain(tmp_path / "store").select(tables.KEYS["counters"]).is_duplicated().any()
    assert ingest(Store.open(tmp_path / "store"), [tmp_path / "in"]).complete
    assert plain(tmp_path / "store").height == 40 * SERIES * 360
