"""Tests of the coarse copies from which wide windows of large figures are made."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from whydrop.show import embedding
from whydrop.show.document import Choice
from whydrop.show.figure import Axis, Figure, Layer, Panel
from whydrop.show.levels import Levels
from whydrop.show.theme import STYLES

ROWS = 400_000


@pytest.fixture(scope="module")
def figure() -> Figure:
    """A noisy line with one peak that a coarse look would miss, and a few rare events."""
    x = np.arange(ROWS) / 1e4
    y = np.sin(x) + np.random.default_rng(1).normal(size=ROWS) / 10
    y[123_456] = 99.0
    style = next(iter(STYLES.values()))
    line = Layer("line", style, "line", pl.DataFrame({"x": x, "y": y}))
    rare = Layer("lost", style, "points", pl.DataFrame({"x": x[::40_000], "y": y[::40_000]}), rare=True)
    return Figure("f", "f", "", (Panel(Axis("Time (s)"), Axis("y"), (line, rare), zoom="time"),))


def rows(levels: Levels, figure: Figure, window: tuple[float, float] | None) -> list[int]:
    return [layer.data.height for layer in levels.coarse(figure, 1000, window).panels[0].layers]


def test_wide_windows_are_made_of_fewer_rows_and_narrow_ones_of_all(figure: Figure):
    levels = Levels()
    wide = rows(levels, figure, None)
    assert wide[0] < ROWS
    assert wide[1] == 10
    assert rows(levels, figure, (0.0, 20.0)) == wide
    assert rows(levels, figure, (0.0, 0.5)) == [ROWS, 10]


def test_a_peak_of_one_packet_is_in_the_coarse_copy(figure: Figure):
    (line, _) = Levels().coarse(figure, 1000, None).panels[0].layers
    assert line.data["y"].max() == 99.0
    (whole, _) = figure.panels[0].layers
    assert line.data["y"].min() == whole.data["y"].min()
    assert line.data["x"].is_sorted()


def test_the_answer_names_the_rows_that_there_are_and_not_those_of_the_copy(figure: Figure):
    answer = embedding.binary("part", Choice([figure]), 1000, None, Levels())
    assert f'"rows":{ROWS}'.encode() in answer
    assert len(answer) < 200_000


def test_a_narrow_window_is_the_same_with_levels_and_without(figure: Figure):
    plain, leveled = (
        embedding.binary("part", Choice([figure]), 1000, (12.0, 12.5), levels) for levels in (None, Levels())
    )
    assert plain == leveled


def test_small_layers_are_left_as_they_are(figure: Figure):
    (line, rare) = figure.panels[0].layers
    small = Figure("f", "f", "", (Panel(Axis(), Axis(), (Layer("s", line.style, "line", line.data.head(1000)), rare)),))
    assert rows(Levels(), small, None) == [1000, 10]
