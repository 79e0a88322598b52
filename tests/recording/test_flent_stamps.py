"""Files of Flent with raw time stamps that contradict their grid."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whydrop.formats.importing import open_recording
from whydrop.recording.recording import Recording

T0_S = 1_700_000_000.0
X_VALUES = [step / 5 for step in range(350)]
PING, UPLOAD = "Ping (ms) ICMP", "TCP upload"


def written(path: Path, change: Callable[[str, int, float], float] = lambda _name, _number, t: t) -> Recording:
    """A minute of load with ten seconds without, by stamps that ``change`` makes of the true ones."""
    values = {PING: lambda x: 20.0 + 80.0 * (5 <= x < 65), UPLOAD: lambda x: 5.0 if 5 <= x < 65 else None}
    file: dict[str, Any] = {
        "version": 4,
        "x_values": X_VALUES,
        "metadata": {
            "NAME": "tcp_upload", "TITLE": "a", "LENGTH": 60, "STEP_SIZE": 0.2, "TOTAL_LENGTH": 70, "HOST": "h",
            "HOSTS": ["h"], "T0": "2023-11-14T22:13:20.000000Z", "TIME": "2023-11-14T22:13:20.000000Z",
            "SERIES_META": {},
        },
        "results": {name: [of(x) for x in X_VALUES] for name, of in values.items()},
        "raw_values": {
            name: [
                {"t": change(name, number, T0_S + x), "val": of(x), "seq": number}
                for number, x in enumerate(X_VALUES)
                if of(x) is not None
            ]
            for name, of in values.items()
        },
    }  # fmt: skip
    target = path / "a.flent.gz"
    target.write_bytes(gzip.compress(json.dumps(file).encode()))
    return open_recording(target)


def times_s(recording: Recording, name: str) -> list[float]:
    return [(time - T0_S * 1e9) / 1e9 for time in recording.samples(name)["time_ns"].to_list()]


WRONG: dict[str, Callable[[str, int, float], float]] = {
    "a clock since boot": lambda name, _, t: t - 1.6e9 if name == PING else t,
    "a clock set back by an hour": lambda _name, _number, t: t - 3600 * (t - T0_S >= 30),
    "a clock set forward by an hour": lambda _name, _number, t: t + 3600 * (t - T0_S >= 30),
    "a clock set back and forward again": lambda _name, _number, t: t - 3600 * (20 <= t - T0_S < 40),
    "a clock set back by ten seconds": lambda _name, _number, t: t - 10 * (t - T0_S >= 30),
    "a clock of another year": lambda _name, _number, t: t - 3.2e7,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_stamps_that_contradict_the_grid_are_put_right_and_that_is_said(tmp_path: Path, wrong: str) -> None:
    right, found = written(tmp_path), written(tmp_path, WRONG[wrong])
    assert right.notes == []
    assert any("contradict the time axis" in note for note in found.notes)
    for name in (PING, UPLOAD):
        assert times_s(found, name) == pytest.approx(times_s(right, name), abs=0.3)
        assert found.samples(name)["value"].to_list() == right.samples(name)["value"].to_list()


def test_stamps_without_any_order_give_way_to_the_grid(tmp_path: Path) -> None:
    found = written(tmp_path, lambda _name, number, t: t + number * 7919 % 5000)
    assert any("its averaged values are used" in note for note in found.notes)
    assert times_s(found, PING) == pytest.approx(X_VALUES, abs=1e-6)


def test_a_stall_of_seconds_is_no_contradiction(tmp_path: Path) -> None:
    assert written(tmp_path, lambda _name, _number, t: t + 2.0 * (t - T0_S >= 30)).notes == []
