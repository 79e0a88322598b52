"""Files of DISCO as recordings, with the commands that people use on recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archives.test_disco import HOUR, file_of, metric, polls, windows
from whydrop.formats.importing import open_recording
from whydrop.recording.recording import RecordingError


def written(path: Path, *documents: object) -> Path:
    path.write_bytes(file_of(*documents))
    return path


def test_octets_become_megabits_a_second_and_the_rest_packets_a_second(tmp_path: Path) -> None:
    octets = metric("octets.uplink.tx", windows([1_250_000.0, 2_500_000.0]))
    discards = metric("discards.uplink.tx", windows([0.0, 30.0]))
    found = open_recording(written(tmp_path / "switch.json", octets, discards))
    rates = found.samples("switch uplink @s1.dfw02::octets.tx")
    assert rates["value"].to_list() == [1.0, 2.0]
    assert rates["time_ns"].to_list() == [(HOUR + 10) * 10**9, (HOUR + 20) * 10**9]
    assert found.samples("switch uplink @s1.dfw02::discards.tx")["value"].to_list() == [0.0, 3.0]
    assert {one.key: one.units for one in found.series()} == {"octets.tx": "Mbit/s", "discards.tx": "packets/s"}
    assert found.step_s == 10
    assert found.started_ns == HOUR * 10**9


def test_a_rate_over_missed_polls_is_over_all_of_their_time(tmp_path: Path) -> None:
    samples = polls([0, 100, 200, 300])
    del samples[2]
    found = open_recording(written(tmp_path / "switch.jsonl", metric("unicast.uplink.tx", samples)))
    assert found.samples("switch uplink @s1.dfw02::unicast.tx")["value"].to_list() == [10.0, 10.0]
    assert any("1 samples have no rate" in note for note in found.notes)


def test_a_damaged_file_is_shown_up_to_the_damage_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "switch.json", metric("octets.uplink.tx", windows([1.0])))
    path.write_bytes(path.read_bytes() + b'\n{"metric": ')
    found = open_recording(path)
    assert found.status == "failed"
    assert "offset" in found.notes[-1]
    assert found.samples("switch uplink @s1.dfw02::octets.tx").height == 1


def test_a_file_without_a_sample_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="without a sample"):
        open_recording(written(tmp_path / "switch.json", metric("octets.uplink.tx", [])))


@pytest.mark.slow
def test_the_commands_for_recordings_work_on_it(tmp_path: Path, run) -> None:
    octets = metric("octets.uplink.tx", windows([float(n) for n in range(100)]))
    path = written(tmp_path / "switch.json", octets, metric("discards.uplink.tx", windows([1.0, 2.0])))
    done = run("import", path, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    folder = done.stdout.strip()
    assert "switch uplink @s1.dfw02::discards.tx" in run("show", folder).stdout
    assert "switch " in run("plot", "list", folder).stdout
    plotted = run("plot", folder, "--format", "json", "--output", "-")
    assert plotted.returncode == 0, plotted.stderr
    assert "octets.tx" in json.dumps(json.loads(plotted.stdout))
