"""Paths to emulate, as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest

import whydrop
from whydrop.emulating.setting import trace_of
from whydrop.explaining.predicting.described import PathError, of_file, of_text

POLICER = {"element": "policer", "rate_bps": 20e6, "burst_bytes": 80e3}


def written(folder: Path, text: str) -> Path:
    file = folder / "path.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    "text",
    [
        'path = "policer:rate=20M,burst=80kB"\nrtt = "40ms"\nmtu = 9000\n',
        'rtt = 0.04\nmtu = 9000\n[[elements]]\nelement = "policer"\nrate_bps = 20e6\nburst_bytes = 80e3\n',
    ],
)
def test_a_file_has_the_path_as_text_or_as_elements(tmp_path: Path, text: str) -> None:
    setting = of_file(written(tmp_path, text))
    element = setting.path["elements"][0]
    assert {name: element[name] for name in POLICER} == POLICER
    assert (setting.rtt_s, setting.mtu_bytes) == (0.04, 9000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rtt = 1\n", "expected either path ="),
        ('path = "policer:rate=20M"\n', "burst: is missing"),
        ("path = 5\n", "expected a text"),
        ('path = "delay:time=1ms"\nspeed = 3\n', "speed: expected one of path, elements, rtt, mtu"),
        ('path = "delay:time=1ms"\nrtt = "soon"\n', "rtt: "),
        ('path = "delay:time=1ms"\nmtu = "big"\n', "mtu: expected a whole number"),
        ("path = \n", "line 1"),
        ('[[elements]]\nelement = "magic"\n', "magic"),
    ],
)
def test_a_mistake_in_a_file_names_the_file_and_what_was_expected(tmp_path: Path, text: str, words: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(PathError) as raised:
        of_file(file)
    assert str(raised.value).startswith(f"{file}: ")
    assert words in str(raised.value)


def test_a_text_that_is_no_path_is_refused() -> None:
    with pytest.raises(PathError, match="burst"):
        of_text("policer:rate=20M")


@pytest.mark.parametrize("rtt_s", [-0.005, 1e30])
def test_a_round_trip_that_no_path_has_is_refused(rtt_s: float) -> None:
    with pytest.raises(whydrop.Error, match="expected a time from 0 to 60 s"):
        whydrop.emulate("line:rate=1G", rtt_s=rtt_s, command=["true"])


def test_a_trace_has_a_time_a_line(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text("0\n5\n5\n")
    assert trace_of(file) == [0, 5, 5]
    file.write_text("5\nsoon\n")
    with pytest.raises(PathError, match=r"trace: line 2: .*whole milliseconds"):
        trace_of(file)
