"""Progress on a terminal."""

from __future__ import annotations

import pytest

from whydrop.cli import progress


def test_nothing_is_drawn_while_reading_takes_less_than_a_second(capsys: pytest.CaptureFixture[str]):
    with progress.reading() as advance:
        for done in range(0, 100, 10):
            advance(done, 100)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("total", "said"), [(1_000_000, "left"), (0, "0:00:0")])
def test_a_bar_says_how_far_and_how_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, total: int, said: str
):
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.reading() as advance:
        advance(500_000, total)
    drawn = capsys.readouterr().err
    assert "Reading" in drawn
    assert said in drawn
