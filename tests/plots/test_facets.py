"""Grids of panels: what a catalogue may say, where rows are drawn, and that none is lost silently."""

from __future__ import annotations

import math
import re
import struct
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whydrop.show import figure, ticks
from whydrop.show import figure_numbers as numbers
from whydrop.show.facets import building, marks, schema, tables
from whydrop.show.facets.schema import Axis, FacetSpec, Group, Rows
from whydrop.show.figure import Figure, Layer
from whydrop.show.vega import drawing
from whydrop.show.writing import rendered

DAY_S = 86_400.0


def frame(*rows: tuple[Any, ...]) -> pl.DataFrame:
    schema = {"panel": pl.String, "group": pl.String, "x": pl.Float64, "y": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def spec(**changes: Any) -> FacetSpec:
    return FacetSpec(**{"title": "Ratios", "y": Axis(title="Ratio", scale="log", limits=(1e-6, 1e-1)), **changes})


def svg(built: Figure, **options: Any) -> str:
    return rendered(built, "svg", **options).decode()


def groups(built: Figure, panel: int = 0) -> list[Layer]:
    """The layers for the rows of each group, in the order of the legend."""
    own = built.panels[panel]
    return sorted((one for one in own.layers if not one.helper), key=lambda one: own.order.index(one.name))


# --- the catalogue ---


def test_an_heir_changes_one_limit_and_keeps_the_rest_of_the_axis() -> None:
    found = schema.read(
        "[a]\ntitle = 'x'\ny = { title = 'Ratio', scale = 'log', cover = [1.0, 2.0] }\n"
        "[b]\nparent = 'a'\ny = { limits = [1.0, 3.0] }\n"
    )
    assert found["b"].y == Axis(title="Ratio", scale="log", limits=(1.0, 3.0))
    assert found["a"].y.cover == (1.0, 2.0)


# --- rows of tables ---


def test_days_become_seconds_and_columns_become_panels_and_groups() -> None:
    table = pl.DataFrame(
        {"metro": ["dfw", None], "site": ["dfw01", "dfw02"], "day": ["1970-01-02", "not"], "n": [3, 4]}
    )
    rows = Rows(table="t", x="day", y="n", y_factor=0.5, panel="{metro}", group="{site} tests")
    found = tables.frame({"f": spec(rows=(rows,))}, {"t": table})
    assert found.rows() == [
        ("f", "dfw", "dfw01 tests", DAY_S, 1.5, None, None),
        ("f", "unknown", "dfw02 tests", None, 2.0, None, None),
    ]


def test_a_table_or_column_that_is_not_there_is_named() -> None:
    rows = Rows(table="t", x="day", y="n", panel="{metro}", group="g")
    with pytest.raises(KeyError, match="there is no table t"):
        tables.frame({"f": spec(rows=(rows,))}, {})
    with pytest.raises(KeyError, match="no column metro"):
        tables.frame({"f": spec(rows=(rows,))}, {"t": pl.DataFrame({"day": ["1970-01-02"], "n": [1]})})


def density(kind: str, values: dict[str, list[float | None]]) -> dict[str, tuple[list[float], list[float]]]:
    table = pl.DataFrame(
        [("dfw01", group, value) for group, own in values.items() for value in own],
        schema={"site": pl.String, "period": pl.String, "v": pl.Float64}, orient="row",
    )  # fmt: skip
    rows = Rows(table="t", x="v", panel="{site}", group="{period}", density=kind)  # type: ignore[arg-type]
    made = tables.frame({"f": spec(rows=(rows,))}, {"t": table})
    known = made.drop_nulls(["x", "y"])
    return {group: (own["x"].to_list(), own["y"].to_list()) for (group,), own in known.group_by("group")}


def test_a_published_density_has_its_bins_values_at_their_left_edges() -> None:
    # Logarithms 0, 0, 1, 2: two bins of one decade.
    assert density("left-edges", {"before": [1.0, 1.0, 10.0, 100.0]})["before"] == (
        pytest.approx([1.0, 10.0]), pytest.approx([0.5, 0.5]),
    )  # fmt: skip


def test_a_corrected_density_shares_bins_between_groups_and_has_values_at_their_centres() -> None:
    found = density("centres", {"before": [1.0, 1.0, 1.0, 10.0], "after": [100.0]})
    assert found["before"] == (pytest.approx([10**0.5, 10**1.5]), pytest.approx([0.75, 0.25]))
    assert found["after"] == (pytest.approx([10**0.5, 10**1.5]), pytest.approx([0.0, 1.0]))


def test_clients_without_a_speed_are_rows_of_a_density_that_are_counted() -> None:
    table = pl.DataFrame({"s": ["a"] * 4, "g": ["b"] * 4, "v": [10.0, 0.0, None, -1.0]})
    rows = Rows(table="t", x="v", panel="{s}", group="{g}", density="centres")
    made = tables.frame({"f": spec(rows=(rows,))}, {"t": table})
    assert made["x"].null_count() == 3


positive = st.floats(1e-3, 1e6)


@given(st.lists(positive, min_size=1, max_size=80), st.lists(positive, min_size=1, max_size=80))
@settings(max_examples=60, deadline=None)
def test_every_density_has_an_area_of_one(before: list[float], after: list[float]) -> None:
    found = density("centres", {"before": list(before), "after": list(after)})
    x, _ = found["before"]
    if len(x) > 1:
        width = math.log10(x[1]) - math.log10(x[0])
        for _, heights in found.values():
            assert sum(heights) * width == pytest.approx(1.0, rel=1e-6)


# --- where rows are drawn ---


def test_zeros_on_a_logarithmic_axis_stand_below_it_and_are_counted() -> None:
    built = building.build("k", spec(), frame(("p", "a", 0.0, 0.0), ("p", "a", 1.0, 1e-3)))
    assert built.left_out == figure.Counts(rows=2, zeros=1)
    drawn = built.panels[0].layers[0].data["y"].to_list()
    assert built.panels[0].y_ends()[0] < drawn[0] < 1e-6
    assert numbers.frame(built)["y"].to_list() == [0.0, 1e-3]
    assert "1 at 0, below the dashed line" in built.footnotes()[0]


def test_zeros_of_different_groups_do_not_hide_each_other() -> None:
    rows = frame(*(("p", f"s{number:02d}", 0.0, 0.0) for number in range(10)), ("p", "s00", 1.0, 1e-3))
    panel = building.build("k", spec(), rows).panels[0]
    zeros = {drawn.name: drawn.data.filter(pl.col("x") == 0)["y"].to_list() for drawn in panel.layers}
    assert len({tuple(place) for place in zeros.values()}) == 10


def test_rows_that_cannot_be_drawn_are_counted_by_why() -> None:
    rows = frame(
        ("p", "a", 0.0, 1e-3), ("p", "a", 1.0, 0.5), ("p", "a", 2.0, -1.0), ("p", "a", 3.0, None),
        ("p", "a", 4.0, math.nan), ("p", "a", None, 1e-3), ("p", "a", 5.0, math.inf),
    )  # fmt: skip
    built = building.build("k", spec(missing="days have no ratio"), rows)
    assert built.left_out == figure.Counts(rows=7, beyond=1, negative=1, missing=4)
    assert built.footnotes()[0] == (
        "Drawn: 1 of 7 points; 1 beyond the axes; 1 below 0, where a logarithmic axis has no place; "
        "4 days have no ratio."
    )


anything = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.just(0.0))


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("abc"), anything, anything), max_size=40),
    st.sampled_from([
        Axis(scale="log"), Axis(scale="log", limits=(1e-6, 1e-1)), Axis(scale="log", cover=(1e-6, 1e-1)), Axis(),
        Axis(limits=(0.0, 50.0)), Axis(scale="time"),
    ]),
    st.sampled_from(["both", "x", "y", "none"]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_every_row_is_drawn_or_counted(rows: list[Any], axis: Axis, share: str) -> None:
    built = building.build("k", spec(y=axis, share=share), frame(*rows))
    drawn = sum(group.data.height for panel in built.panels for group in panel.layers)
    counts = built.left_out
    assert counts.rows == len(rows)
    assert drawn + counts.beyond + counts.negative + counts.missing == len(rows)
    for panel in built.panels:
        low, high = panel.y_ends()
        assert low < high
        for group in panel.layers:
            assert group.data["y"].is_between(low, high).all()


def test_an_axis_covers_at_least_what_the_catalogue_says_and_all_that_is_there() -> None:
    axis = Axis(scale="log", cover=(1e-6, 1e-1))
    inside = building.build("k", spec(y=axis), frame(("p", "a", 0.0, 1e-3)))
    assert building.seen(inside.panels[0].y) == (1e-6, 1e-1)
    outside = building.build("k", spec(y=axis), frame(("p", "a", 0.0, 0.6)))
    assert building.seen(outside.panels[0].y) == (1e-6, 1.0)
    assert outside.left_out.beyond == 0


def test_axes_that_are_not_shared_are_each_panels_own() -> None:
    rows = frame(("p", "a", 0.0, 1.0), ("p", "a", 1.0, 2.0), ("q", "a", 0.0, 1000.0), ("q", "a", 1.0, 3000.0))
    free = building.build("k", spec(y=Axis(), share="x"), rows)
    assert free.panels[0].y.ends[1] < 3 < free.panels[1].y.ends[1]
    shared = building.build("k", spec(y=Axis()), rows)
    assert shared.panels[0].y == shared.panels[1].y


@pytest.mark.slow
def test_a_panel_without_rows_is_there_and_says_so() -> None:
    built = building.build("k", spec(), frame(("dfw", "a", 0.0, 1e-3)), building.Words(panels=("lga", "dfw")))
    assert [panel.name for panel in built.panels] == ["lga", "dfw"]
    assert "no data" in svg(built)


@pytest.mark.slow
def test_nothing_at_all_is_a_picture_that_says_so() -> None:
    built = building.build("k", spec(), frame())
    assert "no data" in svg(built)
    assert built.footnotes() == ["Nothing to draw: there are no rows."]


# --- looks ---


@pytest.mark.parametrize("count", [1, 6, 12, 40])
def test_groups_of_a_panel_differ_in_colour_and_shape_together(count: int) -> None:
    rows = frame(*(("p", f"s{number}", 0.0, 1e-3) for number in range(count)))
    built = building.build("k", spec(), rows)
    assert sum(len(panel.layers) for panel in built.panels) == count
    for panel in built.panels:
        assert len(panel.layers) <= 12
        assert len({(drawn.style.light, drawn.style.shape) for drawn in panel.layers}) == len(panel.layers)
    assert {panel.y for panel in built.panels} == {built.panels[0].y}


def test_a_group_in_several_panels_looks_the_same_in_all_and_has_one_legend() -> None:
    built = building.build("k", spec(), frame(("p", "b", 0.0, 1e-3), ("q", "a", 0.0, 1e-3), ("q", "b", 0.0, 1e-3)))
    assert built.one_legend
    assert len({drawn.style for panel in built.panels for drawn in panel.layers if drawn.name == "b"}) == 1


def test_a_site_looks_the_same_whether_or_not_its_neighbour_has_rows() -> None:
    words = building.Words(groups={"dfw": ["dfw01", "dfw02"]})
    both = building.build("k", spec(), frame(("dfw", "dfw01", 0.0, 1e-3), ("dfw", "dfw02", 0.0, 1e-3)), words)
    alone = building.build("k", spec(), frame(("dfw", "dfw02", 0.0, 1e-3)), words)
    assert groups(both)[1].style == groups(alone)[0].style
    assert [drawn.name for drawn in groups(alone)] == ["dfw02"]


def test_what_is_measured_has_a_shape_and_a_filling_and_the_site_a_colour() -> None:
    found = marks.looks(spec(look="parts"), ["dfw01 discards", "dfw01 retransmissions", "dfw02 discards"])
    one, other, third = found.values()
    assert one.light == other.light != third.light
    assert (one.shape, one.filled) == (third.shape, third.filled) != (other.shape, other.filled)
    overlaid = marks.looks(spec(look="overlay"), list(found))
    assert overlaid["dfw01 discards"] == overlaid["dfw01 retransmissions"]


@pytest.mark.slow
def test_rare_events_are_in_front_and_never_thinned() -> None:
    rows = frame(
        *(("p", "all", float(n), 1e-3) for n in range(9)), *(("p", "rare", n / 1e5, 1e-3) for n in range(5000))
    )
    fixed = (Group(name="all"), Group(name="rare", front=True))
    built = building.build("k", spec(groups=fixed), rows)
    assert [drawn.name for drawn in built.panels[0].layers] == ["all", "rare"]
    plain = building.build("k", spec(), rows)
    assert _points(svg(built)) >= 5009
    assert _points(svg(plain)) < 2009


def _points(svg: str) -> int:
    return sum(
        1 for element in ET.fromstring(svg).iter() if element.tag.endswith("path") and "transform" in element.attrib
    )


# --- thinning, ticks, drawing ---


def test_lines_break_where_nothing_was_measured_for_more_than_five_steps() -> None:
    x = [0.0, 1.0, 2.0, 3.0, 9.0, 10.0]
    broken = building.build("k", spec(kind="line", breaks=True), frame(*(("p", "a", at, 1e-3) for at in x)))
    assert [value and 1.0 for value in groups(broken)[0].data["y"]] == [1.0, 1.0, 1.0, 1.0, None, 1.0, 1.0]


def test_steps_begin_and_end_on_the_axis_at_the_edges_of_their_bins() -> None:
    rows = pl.DataFrame({"x_place": [10**0.5, 10**1.5], "y_place": [0.75, 0.25]})
    steps = marks.closed_steps(rows, figure.Axis(scale="log", ends=(1.0, 100.0)))
    assert steps["x"].to_list() == pytest.approx([1, 1, 10, 10, 100, 100])
    assert steps["y"].to_list() == [0.0, 0.75, 0.75, 0.25, 0.25, 0.0]


def test_bars_stand_beside_each_other_within_the_axis() -> None:
    rows = frame(*(("p", group, x, 2.0) for group in "abc" for x in (1.0, 2.0, 3.0)))
    panel = building.build("k", spec(kind="bars", y=Axis()), rows).panels[0]
    placed = [layer.data for layer in panel.layers]
    edges = sorted((row["x"], row["x2"]) for part in placed for row in part.to_dicts())
    assert len(edges) == 9
    assert all(right <= left + 1e-9 for (_, right), (left, _) in pairwise(edges))
    assert panel.x.ends[0] <= edges[0][0]
    assert edges[-1][1] <= panel.x.ends[1]
    assert {row["y2"] for part in placed for row in part.to_dicts()} == {0.0}


@pytest.mark.parametrize(
    ("ends", "most", "words"),
    [
        ((0.0, 3 * DAY_S), 4, ["1970-01-01", "1970-01-02", "1970-01-03", "1970-01-04"]),
        ((1464739200.0, 1533081600.0), 5, ["2016-07", "2017-01", "2017-07", "2018-01", "2018-07"]),
        ((0.0, 40.0), 5, ["00:00:00", "00:00:10", "00:00:20", "00:00:30", "00:00:40"]),
    ],
)
def test_times_stand_at_round_places(ends: tuple[float, float], most: int, words: list[str]) -> None:
    assert [word for _, word in ticks.times(ends, most)] == words


@given(st.floats(-1e12, 1e13), st.floats(1e-3, 1e12), st.integers(2, 12))
def test_times_of_clocks_that_jump_have_words_too(low: float, span: float, most: int) -> None:
    found = ticks.times((low, low + span), most)
    assert all(low <= place <= low + span for place, _ in found)
    assert len(found) <= 3 * most + 3


@given(st.floats(1e-12, 1e12), st.floats(1.01, 1e9), st.integers(2, 12))
def test_decades_lie_within_their_axis(low: float, factor: float, most: int) -> None:
    for place, word in ticks.decades((low, low * factor), most):
        assert low * 0.999 <= place <= low * factor * 1.001
        assert word


@pytest.mark.slow
def test_a_picture_has_its_title_its_units_and_what_is_left_out() -> None:
    axis = Axis(title="Download speed", unit="Mbit/s")
    built = building.build(
        "k", spec(y=axis, x=Axis(title="Day", unit="UTC", scale="time")), frame(("dfw", "dfw01", 0.0, 3.0))
    )
    text = svg(built)
    for words in ("Ratios", "Download speed (Mbit/s)", "Day (UTC)", "dfw01", "Drawn: 1 point."):
        assert words in text


@pytest.mark.parametrize(
    ("panels", "width"), [(1, 350), (1, 900), (6, 350), (6, 900), pytest.param(40, 900, marks=pytest.mark.slow)]
)
def test_a_picture_is_as_wide_as_was_asked_for(panels: int, width: int) -> None:
    rows = frame(*((f"p{number}", group, 0.0, 1e-3) for number in range(panels) for group in ("before", "after")))
    labels = {(f"p{number}", "after"): "after (n = 60, p = 0.51, adjusted 1.00)" for number in range(panels)}
    built = building.build("k", spec(), rows, building.Words(labels=labels))
    found = re.search(r'<svg[^>]*? width="(\d+)', drawing.svg(drawing.specification(built, width)))
    assert found is not None
    assert int(found[1]) <= width + 60


@pytest.mark.slow
def test_a_picture_has_the_size_that_was_asked_for() -> None:
    size = (1200, 800)
    rows = frame(*((panel, "a", 0.0, 1e-3) for panel in ("p", "q", "r")))
    built = building.build("k", spec(wide=True), rows)
    width, height = struct.unpack(">II", rendered(built, "png", size=size)[16:24])
    assert (width / 2, height / 2) == pytest.approx(size, abs=4)


@pytest.mark.slow
def test_every_format_is_what_its_name_says() -> None:
    built = building.build("k", spec(), frame(("p", "a", 0.0, 1e-3)))
    for kind, magic in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg", "html": b"<!doctype html>"}.items():
        assert rendered(built, kind).startswith(magic)


@pytest.mark.parametrize("kind", ["points", "line", "density", "bars"])
def test_every_kind_draws_intervals_and_single_points(kind: str) -> None:
    rows = frame(("p", "a", 1.0, 2.0), ("p", "a", 2.0, 3.0), ("p", "b", 2.0, 1.0)).with_columns(
        low=pl.col("y") - 0.5, high=pl.col("y") + 0.5
    )
    built = building.build("k", spec(kind=kind, y=Axis()), rows)
    assert "<svg" in svg(built)
    assert built.panels[0].y.ends[1] >= 3.5


# --- in a page ---


@pytest.mark.needs_browser
def test_a_page_draws_itself_without_a_network_and_complains_of_nothing(tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "picture.html"
    built = building.build("k", spec(), frame(("p", "a", 0.0, 0.0), ("q", "a", 1.0, 1e-3)))
    path.write_bytes(rendered(built, "html"))
    context = browser.new_context(offline=True)
    opened = context.new_page()
    asked, wrong = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: wrong.append(message.text))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.goto(path.as_uri())
    opened.wait_for_selector("canvas")
    context.close()
    assert wrong == []
    assert asked == [path.as_uri()]
