"""Tests of the axes that a reader asks for, of baselines, and of recordings that only widen the axes."""

from __future__ import annotations

from pathlib import Path

import pytest

import recordings
from plain_text import plain
from whydrop.recording.recording import Recording
from whydrop.show.figure import Figure, NothingToDraw
from whydrop.show.plots import building
from whydrop.show.plots.catalogue import PlotError
from whydrop.show.plots.choosing import distinct
from whydrop.show.plots.options import Limits, PlotOptions


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    """The second has twice the values of the first."""
    folder = tmp_path_factory.mktemp("two")
    return [
        recordings.rrul(folder / "a.recording", title="fifo run 1"),
        recordings.rrul(folder / "b.recording", scale=2.0, title="fq run 1"),
    ]


def draw(name: str, *of: Recording, **options: object) -> Figure:
    (found,) = building.figures(name, of, PlotOptions(**options))  # type: ignore[arg-type]
    return found


def test_limits_end_the_axes_of_their_unit_and_count_what_is_beyond(two: list[Recording]) -> None:
    picture = draw("all", two[0], limits=[Limits(0, 40, "ms")])
    ends = {panel.y.title.rpartition("(")[2]: panel.y.ends for panel in picture.panels}
    assert ends["ms)"] == (0, 40)
    assert ends["Mbit/s)"] != (0, 40)
    assert picture.left_out is not None
    assert picture.left_out.beyond > 0


def test_limits_without_a_unit_are_refused_where_several_could_be_meant(two: list[Recording]) -> None:
    assert draw("ping", two[0], limits=[Limits(1, 2)]).panels[0].y.ends == (1, 2)
    with pytest.raises(PlotError, match=r"axes in Mbit/s, ms: say which, as in 0:100Mbit/s"):
        draw("all", two[0], limits=[Limits(1, 2)])
    with pytest.raises(PlotError, match=r"no axis in K; its units are ms"):
        draw("ping", two[0], limits=[Limits(1, 2, "K")])


@pytest.mark.parametrize("name", ["ping_cdf", "box_ping", "bar_ping"])
def test_limits_end_the_axis_of_values_of_distributions(two: list[Recording], name: str) -> None:
    assert draw(name, two[0], limits=[Limits(5, 90)]).panels[0].x.ends == (5, 90)


def test_an_axis_begins_at_zero_or_not_as_asked(two: list[Recording]) -> None:
    ends = draw("download", two[0], from_zero=False).panels[0].y.ends
    assert ends is not None
    assert ends[0] > 0
    ends = draw("download", two[0], from_zero=True).panels[0].y.ends
    assert ends is not None
    assert ends[0] == 0


def test_a_window_of_time_ends_the_axis_and_is_said(two: list[Recording]) -> None:
    picture = draw("all", two[0], window=(2.0, 6.0))
    assert {panel.x.ends for panel in picture.panels} == {(2.0, 6.0)}
    assert plain(picture.notes[-1]) == "The axis of time shows 2.00 s to 6.00 s only."
    with pytest.raises(NothingToDraw, match="no seconds since the start"):
        draw("ping_cdf", two[0], window=(2.0, 6.0))


@pytest.mark.parametrize("name", ["all", "ping_cdf", "box_ping", "bar_ping"])
def test_a_recording_for_the_axes_gives_the_axes_of_both_and_is_not_drawn(two: list[Recording], name: str) -> None:
    first, second = two
    both, scaled = draw(name, first, second), draw(name, first, scale=[second])
    over_time = name == "all"
    for one, other in zip(both.panels, scaled.panels, strict=True):
        assert (one.y if over_time else one.x).ends == (other.y if over_time else other.x).ends
    assert {layer.of["recording"] for panel in scaled.panels for layer in panel.layers} <= {"fifo run 1", ""}
    assert "The axes also fit b.recording, not drawn." in scaled.notes


def test_a_baseline_is_taken_from_series_of_the_same_name_step_by_step(two: list[Recording]) -> None:
    first, second = two
    whole = {layer.of["series"]: layer for layer in draw("download", first).panels[0].layers if not layer.helper}
    for layer in draw("download", first, second, baseline=first).panels[0].layers:
        expected = whole[layer.of["series"]].data["y"].drop_nulls().to_list()
        assert layer.data["y"].drop_nulls().to_list() == pytest.approx(expected)
        assert layer.of["recording"] == "fq"


def test_a_ratio_to_a_baseline_has_no_unit(two: list[Recording]) -> None:
    (panel,) = draw("download", two[1], baseline=two[0], ratio=True).panels
    assert "Mbit" not in panel.y.title
    assert {value for layer in panel.layers for value in layer.data["y"].drop_nulls().round(9)} == {2.0}


def test_a_baseline_without_the_series_leaves_nothing_to_draw(two: list[Recording]) -> None:
    with pytest.raises(NothingToDraw, match=r"of the baseline a\.recording"):
        draw("download", two[0], baseline=two[0])


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("ping", {"ratio": True}, "needs a baseline"),
        ("ping", {"baseline": True, "log": True}, "draw the ratio"),
        ("ping", {"baseline": True, "combine": "groups"}, "combined"),
        ("ellipsis", {"baseline": True}, "of the kind ellipse"),
    ],
)
def test_what_has_no_meaning_with_a_baseline_is_refused(
    two: list[Recording], name: str, options: dict[str, object], words: str
) -> None:
    given = {**options, "baseline": two[0]} if options.get("baseline") else options
    with pytest.raises(NothingToDraw, match=words):
        draw(name, two[1], **given)


def test_the_readers_note_stands_before_the_others(two: list[Recording], tmp_path: Path) -> None:
    assert draw("ping", two[0]).noted("Office, 2nd floor").notes[0] == "Office, 2nd floor"


def test_one_recording_stands_for_all_with_the_same_series(two: list[Recording]) -> None:
    assert distinct(two) == [two[0]]
    assert list(building.available(two)) == list(building.available(two[:1]))
