"""Pictures as files: their formats, their sizes, and what is in them."""

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
from whydrop.show.plots import catalogue, drawing, numbers
from whydrop.show.plots.building import build
from whydrop.show.plots.picture import Panel, Picture, Trace

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recordings.rrul(tmp_path_factory.mktemp("one") / "a.recording")


def picture(one: Recording, name: str = "all_scaled") -> Picture:
    return build(name, catalogue.find(name), [one])


def svg(of: Picture, folder: Path, **options: Any) -> str:
    path = folder / "picture.svg"
    drawing.write(of, path, "svg", **options)
    return path.read_text()


def test_a_picture_says_its_title_units_and_what_is_left_out(one: Recording, tmp_path: Path) -> None:
    text = svg(picture(one), tmp_path)
    for words in ("Goodput and latency", "Goodput (Mbit/s)", "Round-trip time (ms)", "Time (s)", "Left out: "):
        assert words in text


def test_without_a_legend_no_name_is_in_the_picture(one: Recording, tmp_path: Path) -> None:
    assert "ICMP" in svg(picture(one, "ping_cdf"), tmp_path)
    assert "ICMP" not in svg(picture(one, "ping_cdf"), tmp_path, legend=False)


def test_categories_stand_at_their_rows(one: Recording, tmp_path: Path) -> None:
    text = svg(picture(one, "box_ping"), tmp_path)
    assert "UDP BE" in text
    assert "mean of all pings" in text


def test_every_one_of_many_bars_is_named(tmp_path: Path) -> None:
    names = [f"flow number {number}" for number in range(40)]
    rows = [float(-place) for place in range(len(names))]
    data = pl.DataFrame({"x": 0.0, "x2": 1.0, "y": [row - 0.4 for row in rows], "y2": [row + 0.4 for row in rows]})
    trace = Trace("", "s", "r", "Mbit/s", "bars", data)
    panel = Panel("", "x", "", (trace,), y_words=tuple(zip(rows, names, strict=True)))
    drawn = svg(Picture("k", "t", "", (panel,)), tmp_path)
    assert [name for name in names if f">{name}<" not in drawn] == []


@pytest.mark.parametrize("size", [(800, 900), (1400, 1000)])
def test_a_picture_has_the_size_that_was_asked_for(one: Recording, tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "sized.png"
    drawing.write(picture(one), path, "png", size=size)
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    assert (width / 2, height / 2) == pytest.approx(size, abs=4)


def test_every_format_is_what_its_name_says(one: Recording, tmp_path: Path) -> None:
    begins = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg", "html": b"<!DOCTYPE html>"}
    for kind, magic in begins.items():
        path = tmp_path / f"picture.{kind}"
        drawing.write(picture(one, "totals"), path, kind)
        assert path.read_bytes().lstrip().startswith(magic), kind


def test_a_page_loads_nothing_from_anywhere(one: Recording, tmp_path: Path) -> None:
    path = tmp_path / "picture.html"
    drawing.write(picture(one, "totals"), path, "html")
    assert not re.search(r'(src|href)="https?:', path.read_text())


@pytest.mark.needs_browser
def test_a_page_draws_itself_without_a_network(one: Recording, tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "picture.html"
    drawing.write(picture(one), path, "html")
    page = browser.new_context(offline=True).new_page()
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("canvas")
    assert not wrong
    assert asked == [path.as_uri()]
    assert page.title() == "Goodput and latency"


def _panel(trace: Trace) -> Picture:
    panel = Panel("", "Time (s)", "Delay (ms)", (trace,), x_ends=(0.0, 1.0), y_ends=(0.0, 100.0))
    return Picture("key", "Title", "", (panel,))


def test_thinning_keeps_every_extreme_and_every_rare_event() -> None:
    n = 200_000
    values = [1.0] * n
    values[123_456] = 99.0
    data = pl.DataFrame({"x": [i / n for i in range(n)], "y": values})
    line = Trace("a", "a", "r", "ms", "line", data)
    thinned = drawing._thinned(line, 900, 380)
    assert thinned.height < 8_000
    assert 99.0 in thinned["y"]
    events = Trace("lost", "a", "r", "", "crosses", data, rare=True)
    assert drawing._thinned(events, 900, 380).height == n


def test_thinning_keeps_gaps() -> None:
    n = 100_000
    data = pl.DataFrame(
        {"x": [float(i) for i in range(n)], "y": [float(i % 7) if i != 50_000 else None for i in range(n)]}
    )
    thinned = drawing._thinned(Trace("a", "a", "r", "ms", "line", data), 900, 380)
    assert thinned["y"].null_count() == 1
    assert thinned["x"].is_sorted()


def test_names_that_are_markup_do_no_harm(tmp_path: Path) -> None:
    data = pl.DataFrame({"x": [0.0, 1.0], "y": [1.0, 2.0]})
    trace = Trace("<script>alert(1)</script>", "a", "r", "ms", "line", data)
    page = tmp_path / "page.html"
    drawing.write(_panel(trace).titled("</title><script>alert(2)</script>"), page, "html")
    text = page.read_text()
    assert "<script>alert(2)" not in text.split("</head>")[0]
    assert "<script>alert(1)</script>" not in text


def test_control_characters_in_names_are_made_visible(tmp_path: Path) -> None:
    data = pl.DataFrame({"x": [0.0, 1.0], "y": [1.0, 2.0], "text": ["a", "b\0"]})
    trace = Trace("evil\x1b[2J\0", "a", "r", "ms", "line", data)
    text = svg(_panel(trace).titled("a\0title"), tmp_path)
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
