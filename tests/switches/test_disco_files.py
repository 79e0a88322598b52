"""Files of DISCO: what is written is what its readers expect, and reads back as it was."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whydrop.formats.archives import disco
from whydrop.monitoring.switches.disco_files import DiscoFiles
from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.keeper import Keeper, KeepingError
from whydrop.monitoring.switches.pending import Pending
from whydrop.monitoring.switches.readings import Counter, Port, Reading

SECOND = 1_000_000_000
START = 1_639_449_300 * SECOND  # 2021-12-14 02:35:00
HOST = "mlab2-dfw07.mlab-oti.measurement-lab.org"
UPLINK, LOCAL = Port("uplink", 1, None, 10**10), Port("local", 2, "mlab2", 10**10)
OCTETS, RX, DISCARDS = Counter("octets.tx", "1", 64), Counter("octets.rx", "2", 64), Counter("discards.tx", "3", 32)
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "mlab" / "disco" / "discov2-switch.jsonl"


def reading(tick: int, totals: dict[tuple[Port, Counter], int], **changes: Any) -> Reading:
    due = START + tick * 10 * SECOND
    one = Reading(
        "s1.dfw07", "dfw07", "dfw", due, due + 1_600_000, due + 33_000_000, "ok",
        uptime_ns=(1000 + 10 * tick) * SECOND, values=totals, steady_ns=tick * 10 * SECOND,
    )  # fmt: skip
    return replace(one, **changes)


def keeper_of(folder: Path, hostname: str = HOST, **more: Any) -> Keeper:
    """A collector that writes files of DISCO into a folder; its store is beside it."""
    return Keeper(folder.parent / f"{folder.name}-store", "a", disco=DiscoFiles(folder, hostname), **more)


def written(folder: Path, readings: list[Reading], hostname: str = HOST) -> pl.DataFrame:
    """Have readings written; the samples that they gave."""
    counting = Counting(10 * SECOND)
    frames = []
    with keeper_of(folder, hostname) as keeper:
        for one in readings:
            frames.append(counting.samples(one))
            keeper.take(one, frames[-1])
    return pl.concat(frames)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def steady_growth(ticks: int) -> list[Reading]:
    return [
        reading(tick, {(UPLINK, OCTETS): 10**12 + 5 * tick, (LOCAL, OCTETS): 2**63 + 7 * tick, (UPLINK, DISCARDS): 3})
        for tick in range(ticks)
    ]


def test_a_file_has_five_minutes_and_the_names_of_disco(tmp_path: Path) -> None:
    written(tmp_path / "disco", steady_growth(95))
    folder = f"2021/12/14/{HOST}"
    # the first poll of all has no growth
    assert [str(path.relative_to(tmp_path / "disco")) for path in files(tmp_path / "disco")] == [
        f"{folder}/2021-12-14T02:35:10-to-2021-12-14T02:39:50-switch.jsonl",
        f"{folder}/2021-12-14T02:40:00-to-2021-12-14T02:44:50-switch.jsonl",
        f"{folder}/2021-12-14T02:45:00-to-2021-12-14T02:49:50-switch.jsonl",
        f"{folder}/2021-12-14T02:50:00-to-2021-12-14T02:50:40-switch.jsonl",
    ]


def test_a_line_is_a_metric_as_disco_writes_it(tmp_path: Path) -> None:
    written(tmp_path / "disco", steady_growth(3))
    (path,) = files(tmp_path / "disco")
    lines = path.read_text().splitlines()
    first = json.loads(lines[0])
    at = START // SECOND + 10
    assert lines[0].startswith(
        f'{{"experiment":"s1.dfw07","hostname":"{HOST}","metric":"switch.octets.uplink.tx","sample":'
        f'[{{"timestamp":{at},"collectstart":{at}001600000,"collectend":{at}033000000,"value":5,'
        '"counter":1000000000005},'
    )
    assert [json.loads(line)["metric"] for line in lines] == [
        "switch.octets.uplink.tx", "switch.octets.local.tx", "switch.discards.uplink.tx",
    ]  # fmt: skip
    assert len(first["sample"]) == 2
    # beyond what the table's int64 holds, and beyond a double's 53 bits
    assert json.loads(lines[1])["sample"][1]["counter"] == 2**63 + 14


def test_the_keys_of_a_real_file_are_those_that_are_written(tmp_path: Path) -> None:
    if not DATA.exists():
        pytest.skip("the files of M-Lab are not beside this checkout (../shared/data/mlab/disco/discov2-switch.jsonl)")
    real = json.loads(DATA.read_text().splitlines()[0])
    written(tmp_path / "disco", steady_growth(3))
    ours = json.loads(files(tmp_path / "disco")[0].read_text().splitlines()[0])
    assert list(ours) == list(real)
    assert list(ours["sample"][0]) == list(real["sample"][0])
    assert [type(value) for value in ours["sample"][0].values()] == [type(v) for v in real["sample"][0].values()]


def test_a_poll_that_was_missed_is_no_sample(tmp_path: Path) -> None:
    readings = steady_growth(5)
    readings[2] = reading(2, {}, status="timeout", start_ns=None, end_ns=None)
    written(tmp_path / "disco", readings)
    samples = json.loads(files(tmp_path / "disco")[0].read_text().splitlines()[0])["sample"]
    assert [(sample["timestamp"] - START // SECOND, sample["value"]) for sample in samples] == [
        (10, 5), (30, 10), (40, 5),
    ]  # fmt: skip


def test_a_wrap_is_a_difference_of_64_bits_without_a_sign(tmp_path: Path) -> None:
    written(tmp_path / "disco", [reading(0, {(UPLINK, DISCARDS): 2**32 - 1}), reading(1, {(UPLINK, DISCARDS): 2})])
    (sample,) = json.loads(files(tmp_path / "disco")[0].read_text())["sample"]
    assert sample["value"] == 2**64 - 2**32 + 3


def test_a_counter_that_restarted_ends_a_file(tmp_path: Path) -> None:
    totals = [500, 600, 10, 30, 60]
    readings = [reading(tick, {(UPLINK, OCTETS): total}) for tick, total in enumerate(totals)]
    written(tmp_path / "disco", readings)
    found = [json.loads(path.read_text())["sample"] for path in files(tmp_path / "disco")]
    assert [[sample["value"] for sample in samples] for samples in found] == [[100], [20, 30]]
    assert [sample["timestamp"] - START // SECOND for sample in found[1]] == [30, 40]


def test_each_machine_of_a_site_has_a_file_of_its_own(tmp_path: Path) -> None:
    other = replace(LOCAL, machine="mlab3", index=3)
    readings = [reading(tick, {(port, OCTETS): tick for port in (UPLINK, LOCAL, other)}) for tick in range(3)]
    written(tmp_path / "disco", readings)
    hosts = {path.parent.name: len(path.read_text().splitlines()) for path in files(tmp_path / "disco")}
    assert hosts == {HOST: 2, "mlab3-dfw07.mlab-oti.measurement-lab.org": 1}


def test_nothing_that_is_there_is_replaced_and_nothing_is_written_twice(tmp_path: Path) -> None:
    later = [replace(one, start_ns=one.start_ns + 1) for one in steady_growth(3) if one.start_ns]
    for readings in (steady_growth(3), later, steady_growth(3)):
        written(tmp_path / "disco", readings)
    one, other = files(tmp_path / "disco")
    assert {one.name, other.name} == {
        "2021-12-14T02:35:10-to-2021-12-14T02:35:20-switch.jsonl",
        "2021-12-14T02:35:10-to-2021-12-14T02:35:20-switch.2.jsonl",
    }
    assert one.read_text() != other.read_text()


def test_files_that_cannot_be_written_wait_in_the_database(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = tmp_path / "disco"
    counting = Counting(10 * SECOND)
    with keeper_of(folder, say=lines.append) as keeper:
        folder.rmdir()
        folder.write_text("a file where the folder should be")
        for one in steady_growth(95):
            keeper.take(one, counting.samples(one))
            keeper.flush(one.due_ns)
        assert len(lines) == 1
        assert "Its rows wait in" in lines[0]
        folder.unlink()
    assert len(files(folder)) == 4
    assert lines[1:] == [f"{folder}: can be written again"]


def test_files_that_cannot_be_written_for_a_day_are_given_up(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = tmp_path / "disco"
    counting = Counting(10 * SECOND)
    with keeper_of(folder, say=lines.append) as keeper:
        folder.rmdir()
        folder.write_text("a file where the folder should be")
        for one in steady_growth(3):
            keeper.take(one, counting.samples(one))
        keeper.flush(START + 86_000 * SECOND)
        keeper.flush(START + 88_000 * SECOND)
        assert lines[1:] == [f"{folder}: 6 samples that waited for a day are lost to DISCO's files"]


def crashed(folder: Path, readings: list[Reading], copy: Path) -> None:
    """Have readings written up to the last whole minute, and find the disk as a loss of power leaves it there."""
    counting = Counting(10 * SECOND)
    with keeper_of(folder) as keeper:
        for one in readings:
            keeper.flush(one.due_ns)
            keeper.take(one, counting.samples(one))
        for path in (folder, folder.parent / f"{folder.name}-store"):
            shutil.copytree(path, copy / path.name)


def stamps_of(folder: Path) -> list[int]:
    """Of the first metric's samples, seconds behind the start."""
    lines = [json.loads(path.read_text().splitlines()[0]) for path in files(folder)]
    return sorted(sample["timestamp"] - START // SECOND for line in lines for sample in line["sample"])


def test_a_crash_costs_no_sample_that_was_there_when_its_minute_ended(tmp_path: Path) -> None:
    crashed(tmp_path / "disco", steady_growth(50), tmp_path / "copy")
    folder = tmp_path / "copy" / "disco"
    keeper_of(folder).close()
    assert stamps_of(folder) == list(range(10, 490, 10))
    pieces = [piece for path in files(folder) for piece in disco.pieces_of(path.read_bytes(), "", path.name)]
    assert [piece.damage for piece in pieces] == [None, None]


def test_a_crash_between_a_file_and_the_removal_of_its_samples_writes_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pending, "forget_disco", lambda _self, _file: None)
    written(tmp_path / "disco", steady_growth(20))
    monkeypatch.undo()
    keeper_of(tmp_path / "disco").close()
    assert len(files(tmp_path / "disco")) == 1
    assert stamps_of(tmp_path / "disco") == list(range(10, 200, 10))


def test_files_that_cannot_be_written_in_the_end_are_written_by_the_next_collector(tmp_path: Path) -> None:
    lines: list[str] = []
    folder, counting = tmp_path / "disco", Counting(10 * SECOND)
    with keeper_of(folder, say=lines.append) as keeper:
        for one in steady_growth(8):
            keeper.take(one, counting.samples(one))
        folder.rmdir()
        folder.write_text("a file where the folder should be")
    assert "the next start of the collector writes them" in lines[-1]
    folder.unlink()
    keeper_of(folder).close()
    assert stamps_of(folder) == list(range(10, 80, 10))


def test_samples_that_can_be_written_nowhere_are_said_to_be_lost(tmp_path: Path) -> None:
    counting = Counting(10 * SECOND)
    keeper = keeper_of(tmp_path / "disco", say=[].append)
    for one in steady_growth(8):
        keeper.take(one, counting.samples(one))
    shutil.rmtree(tmp_path / "disco-store")
    (tmp_path / "disco-store").write_text("a file where the store should be")
    with pytest.raises(KeepingError, match="32 samples and polls that waited in memory are lost"):
        keeper.close()


def test_a_writer_writes_no_growth_since_a_reading_that_it_has_not_seen(tmp_path: Path) -> None:
    # of which a writer before it may have a sample, or none
    counting = Counting(10 * SECOND)
    readings = steady_growth(4)
    counting.samples(readings[0])
    with keeper_of(tmp_path / "disco") as keeper:
        for one in readings[1:]:
            keeper.take(one, counting.samples(one))
    assert stamps_of(tmp_path / "disco") == [20, 30]


def test_a_folder_that_cannot_be_made_is_found_out_at_once(tmp_path: Path) -> None:
    (tmp_path / "disco").write_text("")
    with pytest.raises(OSError, match="disco"):
        DiscoFiles(tmp_path / "disco", HOST)


@pytest.mark.parametrize("hostname", ["../x", "a/b", ".x", "a b"])
def test_a_host_name_that_is_no_folders_is_refused(tmp_path: Path, hostname: str) -> None:
    with pytest.raises(ValueError, match=r"expected letters, digits, '\.', '_' or '-'"):
        DiscoFiles(tmp_path, hostname)


def test_a_machines_name_never_leaves_the_folder(tmp_path: Path) -> None:
    evil = replace(LOCAL, machine="../../../evil")
    written(tmp_path / "disco", [reading(tick, {(evil, OCTETS): tick}) for tick in range(3)])
    assert all(path.is_relative_to(tmp_path / "disco") for path in files(tmp_path / "disco"))
    assert {path.name for path in tmp_path.iterdir()} == {"disco", "disco-store"}


GROWTH = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6), st.booleans()), min_size=2, max_size=40)


@settings(deadline=None, max_examples=40)
@given(growth=GROWTH, first=st.tuples(st.integers(0, 2**63 - 10**12), st.integers(2**32 - 10**6, 2**32 - 1)))
def test_what_is_written_reads_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, growth: list[tuple[int, int, bool]], first: tuple[int, int]
) -> None:
    folder = tmp_path_factory.mktemp("disco") / "disco"
    readings = [reading(0, {(UPLINK, OCTETS): first[0], (UPLINK, RX): 5, (UPLINK, DISCARDS): first[1]})]
    octets, discards = first
    for tick, (more, lost, polled) in enumerate(growth, start=1):
        octets, discards = octets + more, discards + lost
        totals = {(UPLINK, OCTETS): octets, (UPLINK, RX): 5, (UPLINK, DISCARDS): discards % 2**32}
        readings.append(
            reading(tick, totals) if polled else reading(tick, {}, status="timeout", start_ns=None, end_ns=None)
        )
    samples = written(folder, readings)
    pieces = [piece for path in files(folder) for piece in disco.pieces_of(path.read_bytes(), str(path), path.name)]
    assert all(piece.damage is None for piece in pieces)
    back = pl.concat([piece.frame for piece in pieces]) if pieces else samples.clear()
    columns = ["metro", "site", "switch", "port", "counter", "value", "total", "poll_start_ns", "poll_end_ns"]
    order = ["counter", "poll_start_ns"]
    expected = samples.filter(pl.col("value").is_not_null()).sort(order)
    assert back.select(columns).sort(order).equals(expected.select(columns))
    assert set(back["machine"].to_list()) <= {"mlab2"}
    # the tick, where the table has the middle of the poll
    assert back.sort(order)["end_ns"].to_list() == [end - 17_300_000 for end in expected["end_ns"]]
