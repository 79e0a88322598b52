"""Progress on a terminal."""

from __future__ import annotations

import pytest

from whydrop.cli import progress


@pytest.mark.parametrize(
    ("done", "total", "said"),
    [
        (500_000, 2_000_000, "Reading: 500\xa0kB of 2.00\xa0MB, 30 s left"),
        (500_000, 0, "Reading: 500\xa0kB"),
        (0, 2_000_000, "Reading"),
    ],
)
def test_the_state_says_how_far_and_how_long(done: int, total: int, said: str):
    meter = progress.Meter()
    meter.began -= 10
    meter.advance(done, total)
    assert meter.state() == said


def test_when_the_reader_falls_silent_causes_are_being_weighed():
    meter = progress.Meter()
    meter.advance(100, 100)
    meter.updated -= 10
    assert meter.state() == "Weighing causes"


def test_the_state_is_drawn_only_when_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "_SILENCE_S", 600)
    with progress.metered() as meter:
        meter.advance(1, 0)
    assert capsys.readouterr().err == ""
    with progress.metered() as meter:
        meter.advance(500_000, 2_000_000)
        meter.show()
    assert "Reading: 500\xa0kB of 2.00\xa0MB" in capsys.readouterr().err
