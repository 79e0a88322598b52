"""A recording survives what happens to processes, disks and folders."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import textwrap
import time
from itertools import pairwise
from pathlib import Path

import polars as pl
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recordings
from whydrop.recording import ipc_messages, table_files, tables
from whydrop.recording.recording import Recording, RecordingError
from whydrop.recording.writer import RecordingWriter, folder_for
from whydrop.runtime import durable

TESTS = Path(__file__).parents[1]


def rows(start: int, count: int = 10) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "flow": [0] * count,
            "start_ns": [recordings.START_NS + n * recordings.MS for n in range(start, start + count)],
            "end_ns": [recordings.START_NS + (n + 1) * recordings.MS for n in range(start, start + count)],
            "goodput_bps": [float(n) for n in range(start, start + count)],
        }
    )


def goodputs(recording: Recording) -> list[float]:
    return recording.table("intervals")["goodput_bps"].to_list()


def fail_to_write(monkeypatch: pytest.MonkeyPatch, reason: int, beneath: Path) -> None:
    """Let every write beneath a folder fail, as a full disk does: halfway, where a file grows."""
    replace, extend = durable.write_by, os.pwrite

    def failing(path: Path, fill: object) -> None:
        if beneath in path.parents:
            raise OSError(reason, os.strerror(reason), str(path))
        replace(path, fill)

    def filling(file: int, content: bytes, offset: int) -> int:
        if beneath in Path(f"/proc/self/fd/{file}").readlink().parents:
            extend(file, content[: len(content) // 2], offset)
            raise OSError(reason, os.strerror(reason))
        return extend(file, content, offset)

    monkeypatch.setattr(durable, "write_by", failing)
    monkeypatch.setattr(os, "pwrite", filling)


def test_what_was_appended_is_what_is_read(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a.recording", recordings.metadata())
    for number in range(40):
        writer.append("intervals", rows(number * 10))
        assert writer.flush()
    folder = writer.finish("complete")
    assert sorted(path.name for path in folder.iterdir()) == ["intervals.parquet", "recording.json"]
    found = Recording.open(folder)
    assert goodputs(found) == [float(n) for n in range(400)]
    assert found.status == "complete"
    assert found.metadata["tables"] == {"intervals": 400}
    assert found.notes == []


def test_the_metadata_are_stable_and_sorted(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        folder = RecordingWriter(tmp_path / name, recordings.metadata()).finish("complete")
        texts.append((folder / "recording.json").read_text())
    assert texts[0] == texts[1]
    document = json.loads(texts[0])
    assert texts[0] == json.dumps(document, indent=2, sort_keys=True) + "\n"
    assert document["schema"] == 1
    assert document["whydrop"]


def test_each_table_has_one_arrow_stream_that_other_programs_read(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    for number in range(3):
        writer.append("intervals", rows(number * 10))
        writer.append("counters", recordings.tables()["counters"])
        writer.flush()
    assert sorted(path.name for path in (tmp_path / "a" / "journal").iterdir()) == [
        "counters.arrows",
        "intervals.arrows",
    ]
    stream = pyarrow.ipc.open_stream((tmp_path / "a" / "journal" / "intervals.arrows").read_bytes())
    assert stream.read_all()["goodput_bps"].to_pylist() == [float(n) for n in range(30)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flushes", "most_bytes"), [(450, 1_200_000), pytest.param(2000, 2_500_000, marks=pytest.mark.exhaustive)]
)
def test_a_stream_stays_small_however_often_it_is_flushed(tmp_path: Path, flushes: int, most_bytes: int) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    for number in range(flushes):
        writer.append("tcp_info", pl.DataFrame({"flow": [0], "time_ns": [number]}))
        writer.flush()
    assert (tmp_path / "a" / "journal" / "tcp_info.arrows").stat().st_size < most_bytes
    for found in (Recording.open(writer.folder), Recording.open(writer.finish("complete"))):
        assert found.table("tcp_info")["time_ns"].to_list() == list(range(flushes))


def test_a_later_row_of_a_flow_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    writer.append("flows", pl.DataFrame({"flow": [0, 1], "name": ["one", "two"], "status": ["running", "running"]}))
    writer.flush()
    writer.append("flows", pl.DataFrame({"flow": [0], "name": ["one"], "status": ["complete"]}))
    writer.flush()
    for found in (Recording.open(writer.folder), Recording.open(writer.finish("complete"))):
        assert found.table("flows")["status"].to_list() == ["complete", "running"]
        assert found.table("flows")["flow"].to_list() == [0, 1]


def test_a_recording_that_is_being_written_is_not_called_interrupted(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    writer.append("intervals", rows(0))
    writer.flush()
    found = Recording.open(writer.folder)
    assert found.status == "running"
    assert "at this moment" in found.notes[0]
    assert goodputs(found) == [float(n) for n in range(10)]


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_moment_loses_only_what_was_not_flushed(tmp_path: Path) -> None:
    """Killed after different times, while it does nothing but write: most kills hit the middle of a flush."""
    program = textwrap.dedent(
        """
        import sys
        import recordings
        from recording.test_writer import rows
        from whydrop.recording.writer import RecordingWriter
        writer = RecordingWriter(sys.argv[1], recordings.metadata())
        for number in range(100_000):
            writer.append("intervals", rows(number * 10))
            writer.append("counters", recordings.tables()["counters"])
            writer.flush()
            print(number + 1, flush=True)
        """
    )
    for attempt in range(6):
        folder = tmp_path / f"{attempt}.recording"
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True, cwd=TESTS, bufsize=1
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.05 + 0.061 * attempt)
        child.send_signal(signal.SIGKILL)
        told = [line for line in child.stdout.read().splitlines() if line]
        child.wait()
        flushed = int(told[-1]) if told else 1
        found = Recording.open(folder)
        assert found.status == "interrupted"
        assert "interrupted" in found.notes[0]
        values = goodputs(found)
        assert len(values) >= flushed * 10
        assert values == [float(n) for n in range(len(values))]
        assert len(found.notes) == 1, "nothing of it is damaged"


def test_a_stream_that_ends_within_a_batch_has_all_batches_before_it(tmp_path: Path) -> None:
    """A crash of the machine leaves such a stream: only the batch that was being written is incomplete."""
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    for number in range(3):
        writer.append("intervals", rows(number * 10))
        writer.flush()
    writer.close()
    stream = tmp_path / "a" / "journal" / "intervals.arrows"
    content = stream.read_bytes()
    for end in range(len(content) - 8, 0, -101):
        stream.write_bytes(content[:end])
        found = Recording.open(writer.folder)
        values = goodputs(found)
        assert values == [float(n) for n in range(len(values))]
        assert any(str(stream) in note for note in found.notes) or len(values) in (0, 10, 20)
    stream.write_bytes(content[:-8])
    assert len(goodputs(Recording.open(writer.folder))) == 20


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, list[int]]:
    """An unfinished recording of six flushes: its stream, the content, and where the schema and each batch end."""
    writer = RecordingWriter(tmp_path_factory.mktemp("damage") / "a", recordings.metadata())
    stream = writer.folder / "journal" / "intervals.arrows"
    ends = []
    for number in range(6):
        writer.append("intervals", rows(number * 10))
        writer.flush()
        ends.append(stream.stat().st_size)
    writer.close()
    content = pyarrow.BufferReader(stream.read_bytes())
    pyarrow.ipc.read_message(content)
    return stream, stream.read_bytes(), [content.tell(), *ends]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damage_costs_only_the_batches_that_it_hits(
    interrupted: tuple[Path, bytes, list[int]], data: st.DataObject
) -> None:
    """Whatever is overwritten, removed or inserted: in a header, in columns, or across batches."""
    stream, content, ends = interrupted
    first = data.draw(st.integers(ends[0], len(content) - 1))
    last = min(len(content), first + data.draw(st.integers(1, 700)))
    written = data.draw(st.sampled_from([b"\xff" * (last - first), b"", b"\0" * 13]) | st.binary(max_size=300))
    stream.write_bytes(content[:first] + written + content[last:])
    found = Recording.open(stream.parents[1])
    whole = [number for number, (begin, end) in enumerate(pairwise(ends)) if end <= first or last <= begin]
    values = goodputs(found)
    expected = [float(number * 10 + row) for number in whole for row in range(10)]
    # Columns are compressed and have no checksum: damage may leave other values in their place.
    assert [value for value in values if value in expected] == expected
    if values == expected and len(whole) < 6:
        assert any(re.search(rf"{stream}: byte \d+: .* lost", note) for note in found.notes)


def test_after_a_damaged_header_the_later_batches_are_read(interrupted: tuple[Path, bytes, list[int]]) -> None:
    stream, content, ends = interrupted
    # The marker, the length of the description, the description itself, and the columns behind it.
    for at in (0, 4, 24, 700):
        stream.write_bytes(content[: ends[2] + at] + b"\xee" * 60 + content[ends[2] + at + 60 :])
        found = Recording.open(stream.parents[1])
        assert goodputs(found) == [float(n) for n in (*range(20), *range(30, 60))]
        skipped = f"{ends[3] - ends[2]:,}".replace(",", "\u00a0")
        assert f"{stream}: byte {ends[2]}: {skipped} bytes skipped as damaged: their rows are lost" in found.notes


def by_pyarrow(batches: int, compression: str | None = "zstd") -> bytes:
    """A stream as whydrop wrote it before polars did."""
    content = io.BytesIO()
    frames = [tables.conform("intervals", rows(number * 10)) for number in range(batches)]
    arrow = [frame.to_arrow(compat_level=pl.CompatLevel.oldest()) for frame in frames]
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_stream(content, arrow[0].schema, options=options) as stream:
        for table in arrow:
            stream.write_table(table)
    return content.getvalue()


@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
def test_streams_that_pyarrow_wrote_are_read_up_to_their_damage_and_behind_it(compression: str | None) -> None:
    content = by_pyarrow(4, compression).removesuffix(ipc_messages.END)
    source = pyarrow.BufferReader(content)
    ends = [pyarrow.ipc.read_message(source) and source.tell() for _ in range(5)]
    frame, damages = table_files.decode(content, "intervals", Path("x.arrows"))
    assert (frame["goodput_bps"].to_list(), damages) == ([float(n) for n in range(40)], [])
    frame, damages = table_files.decode(content[: ends[3] - 8], "intervals", Path("x.arrows"))
    assert (frame.height, len(damages)) == (20, 1)
    damaged = content[: ends[1] + 8] + b"\xee" * 40 + content[ends[1] + 48 :]
    frame, damages = table_files.decode(damaged, "intervals", Path("x.arrows"))
    assert frame["goodput_bps"].to_list() == [float(n) for n in (*range(10), *range(20, 40))]
    assert len(damages) == 1


def test_a_damaged_length_of_a_buffer_takes_no_memory() -> None:
    content = by_pyarrow(1).removesuffix(ipc_messages.END)
    # Before each compressed buffer stands the length that it has afterwards: 40 bytes of 32-bit numbers, 80 of others.
    for length in (40, 80):
        at = content.index(struct.pack("<q", length) + b"\x28\xb5\x2f\xfd")
        damaged = content[:at] + struct.pack("<q", 1 << 46) + content[at + 8 :]
        frame, damages = table_files.decode(damaged, "intervals", Path("x.arrows"))
        assert (frame.height, len(damages)) == (0, 1)


def test_a_finished_table_has_its_nulls_by_column_and_one_of_earlier_versions_is_read(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    writer.append("intervals", rows(0))
    folder = writer.finish("complete")
    counted = table_files.nulls_of(folder, "intervals")
    whole = pl.read_parquet(folder / "intervals.parquet")
    assert counted == {column: (whole[column].null_count(), 10) for column in whole.columns}
    assert counted["lost"] == (10, 10)
    names = [series.name for series in Recording.open(folder).series()]
    whole.write_parquet(folder / "intervals.parquet")
    assert table_files.nulls_of(folder, "intervals") == {}
    assert goodputs(Recording.open(folder)) == [float(n) for n in range(10)]
    assert [series.name for series in Recording.open(folder).series()] == names


def test_rows_that_were_damaged_on_the_disk_are_named_when_the_test_ends(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    writer.append("intervals", rows(0))
    writer.flush()
    stream = tmp_path / "a" / "journal" / "intervals.arrows"
    with stream.open("r+b") as file:
        file.truncate(1000)
    writer.append("intervals", rows(10))
    found = Recording.open(writer.finish("complete"))
    assert goodputs(found) == [float(n) for n in range(10, 20)]
    assert str(stream) in found.metadata["failures"][0]


def test_other_files_in_the_folder_of_the_streams_are_left_alone(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    writer.append("intervals", rows(0))
    writer.flush()
    for name in ("secrets.arrows", "x", "intervals.arrows.part"):
        (writer.folder / "journal" / name).write_bytes(b"nonsense")
    found = Recording.open(writer.folder)
    assert goodputs(found) == [float(n) for n in range(10)]
    assert len(found.notes) == 1


def test_while_the_disk_is_full_rows_wait_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    writer.append("intervals", rows(0))
    assert writer.flush()
    with monkeypatch.context() as full:
        fail_to_write(full, errno.ENOSPC, writer.folder)
        for number in (1, 2):
            writer.append("intervals", rows(number * 10))
            assert not writer.flush()
            assert writer.message is not None
            assert "No space left" in writer.message
            assert str(writer.folder) in writer.message
    writer.append("intervals", rows(30))
    assert writer.flush()
    assert writer.message is None
    assert goodputs(Recording.open(writer.folder)) == [float(n) for n in range(40)]


def test_a_disk_that_stays_full_sends_the_recording_to_the_fallback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordingWriter(tmp_path / "a.recording", recordings.metadata(), fallback=tmp_path / "elsewhere")
    writer.append("intervals", rows(0))
    writer.flush()
    fail_to_write(monkeypatch, errno.ENOSPC, writer.folder)
    writer.append("intervals", rows(10))
    writer.flush()
    folder = writer.finish("complete")
    assert folder == tmp_path / "elsewhere" / "a.recording"
    assert writer.message is not None
    assert writer.message.count("\n") == 0
    assert str(folder) in writer.message
    found = Recording.open(folder)
    assert goodputs(found) == [float(n) for n in range(20)]
    assert "No space left" in found.metadata["failures"][0]


def test_when_no_disk_takes_it_nothing_is_lost_and_it_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata(), fallback=tmp_path / "elsewhere")
    writer.append("intervals", rows(0))
    with monkeypatch.context() as full:
        fail_to_write(full, errno.EDQUOT, tmp_path)
        with pytest.raises(RecordingError, match="quota"):
            writer.finish("complete")
    found = Recording.open(writer.finish("complete"))
    assert goodputs(found) == [float(n) for n in range(10)]
    assert found.status == "complete"
    assert found.metadata["failures"] == []


def test_a_folder_that_vanishes_while_the_test_runs_costs_nothing(tmp_path: Path) -> None:
    import shutil

    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    for number in range(20):
        writer.append("intervals", rows(number * 10))
        writer.flush()
        if number in (5, 18):
            shutil.rmtree(writer.folder)
    shutil.rmtree(writer.folder)
    found = Recording.open(writer.finish("complete"))
    assert goodputs(found) == [float(n) for n in range(200)]
    assert found.metadata["failures"] == []


@pytest.mark.slow
@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_on_a_disk_of_a_few_kilobytes_every_sample_is_kept(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=True)
    try:
        writer = RecordingWriter(disk / "a.recording", recordings.metadata(), fallback=tmp_path / "elsewhere")
        refused = 0
        for number in range(60):
            writer.append("intervals", rows(number * 1000, 1000))
            refused += not writer.flush()
        assert refused
        folder = writer.finish("complete")
        assert folder.parent == tmp_path / "elsewhere"
        assert goodputs(Recording.open(folder)) == [float(n) for n in range(60_000)]
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False)


def test_a_folder_with_something_in_it_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RecordingError, match="not empty"):
        RecordingWriter(tmp_path, recordings.metadata())


def test_a_folder_that_cannot_be_made_is_said_before_the_test_begins(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="file/a"):
        RecordingWriter(tmp_path / "file" / "a", recordings.metadata())


def test_unknown_columns_and_tables_are_refused_where_they_are_appended(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    with pytest.raises(KeyError, match="colour"):
        writer.append("intervals", pl.DataFrame({"flow": [0], "colour": ["red"]}))
    with pytest.raises(KeyError):
        writer.append("weather", pl.DataFrame({"flow": [0]}))


@pytest.mark.slow
def test_few_files_are_open_while_a_recording_is_written(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (an open folder is one file more)
    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    for number in range(50):
        writer.append("intervals", rows(number))
        writer.append("counters", recordings.tables()["counters"])
        writer.flush()
    # The lock, and one file for each of the two tables.
    assert len(os.listdir("/proc/self/fd")) <= before + 3  # noqa: PTH208
    writer.finish("complete")
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208


def test_two_recordings_of_one_moment_get_different_folders(tmp_path: Path) -> None:
    first = folder_for(tmp_path, "rrul", recordings.START_NS, "a title / with signs")
    assert first.name == "rrul-2023-11-14T221320.000Z.a_title_with_signs.recording"
    first.mkdir()
    assert folder_for(tmp_path, "rrul", recordings.START_NS, "a title / with signs") != first
    assert len(folder_for(tmp_path, "x" * 400, recordings.START_NS, "y" * 400).name) < 256
