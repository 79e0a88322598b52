"""Figures as files: their formats, their sizes, and what is in them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import recordings
from whydrop.recording.recording import Recording
from whydrop.show import figure_numbers as numbers
from whydrop.show.figure import Figure, Layer
from whydrop.show.plots import catalogue, traces
from whydrop.show.plots.building import build
from whydrop.show.plots.traces import trace
from whydrop.show.thinning import thin
from whydrop.show.writing import rendered

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recordings.rrul(tmp_path_factory.mktemp("one") / "a.recording")


def picture(one: Recording, name: str = "all_scaled") -> Figure:
    return build(name, catalogue.find(name), [one])


def svg(of: Figure, **options: Any) -> str:
    return rendered(of, "svg", **options).decode()


def test_a_picture_says_its_title_units_and_what_is_left_out(one: Recording) -> None:
    text = svg(picture(one))
    for words in ("Goodput and latency", "Goodput (Mbit/s)", "Round-trip time (ms)", "Time (s)", "Drawn: "):
        assert words in text


def test_without_a_legend_no_name_is_in_the_picture(one: Recording, tmp_path: Path) -> None:
    assert "ICMP" in svg(picture(one, "ping_cdf"))
    assert "ICMP" not in svg(picture(one, "ping_cdf"), legend=False)


def test_categories_stand_at_their_rows(one: Recording) -> None:
    text = svg(picture(one, "box_ping"))
    assert "UDP BE" in text
    assert "mean of all pings" in text


def test_every_one_of_many_bars_is_named(tmp_path: Path) -> None:
    names = [f"flow number {number}" for number in range(40)]
    rows = [float(-place) for place in range(len(names))]
    data = pl.DataFrame({"x": 0.0, "x2": 1.0, "y": [row - 0.4 for row in rows], "y2": [row + 0.4 for row in rows]})
    bars = trace("", ("s", "r", "Mbit/s"), "bars", data)
    panel = traces.panel("", "x", "", (bars,), y_words=tuple(zip(rows, names, strict=True)))
    drawn = svg(Figure("k", "t", "", (panel,)))
    assert [name for name in names if f">{name}<" not in drawn] == []


@pytest.mark.parametrize("size", [(800, 900), (1400, 1000)])
def test_a_picture_has_the_size_that_was_asked_for(one: Recording, tmp_path: Path, size: tuple[int, int]) -> None:
    width, height = struct.unpack(">II", rendered(picture(one), "png", size=size)[16:24])
    assert (width / 2, height / 2) == pytest.approx(size, abs=4)


def test_every_format_is_what_its_name_says(one: Recording, tmp_path: Path) -> None:
    begins = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg", "html": b"<!doctype html>"}
    for kind, magic in begins.items():
        assert rendered(picture(one, "totals"), kind).startswith(magic), kind


def test_a_page_loads_nothing_from_anywhere(one: Recording, tmp_path: Path) -> None:
    assert not re.search(r'(src|href)="https?:', rendered(picture(one, "totals"), "html").decode())


@pytest.mark.needs_browser
def test_a_page_draws_itself_without_a_network(one: Recording, tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "picture.html"
    path.write_bytes(rendered(picture(one), "html"))
    page = browser.new_context(offline=True).new_page()
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("canvas")
    assert not wrong
    assert asked == [path.as_uri()]
    assert page.title() == "Goodput and latency – whydrop"


def _figure(layer: Layer) -> Figure:
    panel = traces.panel("", "Time (s)", "Delay (ms)", (layer,), x_ends=(0.0, 1.0), y_ends=(0.0, 100.0))
    return Figure("key", "Title", "", (panel,))


def _thinned(layer: Layer) -> pl.DataFrame:
    return thin(layer, _figure(layer).panels[0], 900, 380).data


def test_thinning_keeps_every_extreme_and_every_rare_event() -> None:
    n = 200_000
    values = [1.0] * n
    values[123_456] = 99.0
    data = pl.DataFrame({"x": [i / n for i in range(n)], "y": values})
    thinned = _thinned(trace("a", ("a", "r", "ms"), "line", data))
    assert thinned.height < 8_000
    assert 99.0 in thinned["y"]
    assert _thinned(trace("lost", ("a", "r", ""), "crosses", data, rare=True)).height == n


def test_thinning_keeps_gaps() -> None:
    n = 100_000
    data = pl.DataFrame(
        {"x": [i / n for i in range(n)], "y": [float(i % 7) if i != 50_000 else None for i in range(n)]}
    )
    thinned = _thinned(trace("a", ("a", "r", "ms"), "line", data))
    assert thinned["y"].null_count() == 1
    assert thinned["x"].is_sorted()


def test_names_that_are_markup_do_no_harm(tmp_path: Path) -> None:
    data = pl.DataFrame({"x": [0.0, 1.0], "y": [1.0, 2.0]})
    line = trace("<script>alert(1)</script>", ("a", "r", "ms"), "line", data)
    text = rendered(_figure(line).titled("</title><script>alert(2)</script>"), "html").decode()
    assert "<script>alert(2)" not in text.split("</head>")[0]
    assert "<script>alert(1)</script>" not in text


def test_control_characters_in_names_are_made_visible(tmp_path: Path) -> None:
    data = pl.DataFrame({"x": [0.0, 1.0], "y": [1.0, 2.0], "text": ["a", "b\0"]})
    line = trace("evil\x1b[2J\0", ("a", "r", "ms"), "line", data)
    text = svg(_figure(line).titled("a\0title"))
    assert "evil\\x1b[2J\\x00" in text
    assert "a\\x00title" in text


def test_the_numbers_are_json_with_every_trace_and_what_is_left_out(one: Recording) -> None:
    document = json.loads(numbers.json_text(picture(one, "ping")))
    assert document["plot"] == "ping"
    assert document["left_out"]["lost"] == 2
    names = {trace["series"] for panel in document["panels"] for trace in panel["traces"]}
    assert set(recordings.PINGS) <= names


def test_the_numbers_are_csv_with_a_row_for_each_point(one: Recording, tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text(numbers.csv_text(picture(one, "ping")))
    frame = pl.read_csv(path)
    icmp = frame.filter(pl.col("series") == "Ping (ms) ICMP")
    assert icmp.height == 70
    assert icmp["y"].to_list() == pytest.approx(one.samples("Ping (ms) ICMP")["value"].to_list())
