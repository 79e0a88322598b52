"""Thinning keeps what can be seen."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from whydrop import Explanation
from whydrop.show import charts
from whydrop.show.figure import Axis, Layer, Panel
from whydrop.show.theme import STYLES
from whydrop.show.thinning import thin


def panel_of(layer: Layer) -> Panel:
    return Panel(Axis("x"), Axis("y"), (layer,))


def layer_of(values: list[float], *, mark="line", rare: bool = False) -> Layer:
    data = pl.DataFrame({"x": [float(i) for i in range(len(values))], "y": values})
    return Layer("name", STYLES["segment"], mark, data, rare=rare)


samples = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=400)


@given(samples, st.integers(1, 50))
def test_a_thinned_line_keeps_its_lowest_and_highest_point_and_its_ends(values: list[float], columns: int):
    whole = layer_of(values)
    thinned = thin(whole, panel_of(whole), columns, 10).data
    assert thinned["y"].min() == min(values)
    assert thinned["y"].max() == max(values)
    assert thinned["x"][0] == 0.0
    assert thinned["x"][-1] == float(len(values) - 1)
    assert thinned["x"].is_sorted()


@given(samples, st.integers(1, 50))
def test_a_thinned_line_has_at_most_four_points_in_a_column(values: list[float], columns: int):
    whole = layer_of(values)
    assert thin(whole, panel_of(whole), columns, 10).data.height <= max(4 * (columns + 1), columns)


@given(st.lists(st.integers(0, 1), min_size=60, max_size=200))
def test_a_line_that_stays_as_high_as_it_is_keeps_only_the_ends_of_each_level(values: list[int]):
    whole = layer_of([float(value) for value in values])
    thinned = thin(whole, panel_of(whole), 50, 10).data
    y = thinned["y"].to_list()
    assert not any(before == here == after for before, here, after in zip(y, y[1:], y[2:], strict=False))
    assert thinned["x"][0] == 0.0
    assert thinned["x"][-1] == float(len(values) - 1)


@given(samples, st.integers(1, 50), st.integers(1, 50))
def test_thinned_points_leave_no_cell_of_the_picture_empty(values: list[float], columns: int, rows: int):
    whole = layer_of(values, mark="points")
    panel = panel_of(whole)
    (x_low, x_high), (y_low, y_high) = panel.x_ends(), panel.y_ends()

    def cells(data: pl.DataFrame) -> set[tuple[int, int]]:
        return {
            (int((x - x_low) / (x_high - x_low) * columns), int((y - y_low) / (y_high - y_low) * rows))
            for x, y in data.iter_rows()
        }

    kept = cells(thin(whole, panel, columns, rows).data)
    # A value on the border of two cells may be rounded into either.
    assert all(
        any((column + dx, row + dy) in kept for dx in (-1, 0, 1) for dy in (-1, 0, 1))
        for column, row in cells(whole.data)
    )


@given(samples)
def test_rare_events_are_never_thinned(values: list[float]):
    whole = layer_of(values, mark="points", rare=True)
    assert thin(whole, panel_of(whole), 1, 1) is whole


def test_every_lost_packet_of_a_flow_is_in_its_thinned_charts(synthetic: Explanation):
    lost = synthetic.flows[0].lost
    for figure in charts.figures(synthetic, 0):
        for panel, layer in ((one, layer) for one in figure.panels for layer in one.layers):
            if layer.name == "lost packet" and not figure.key.endswith("close-up"):
                assert thin(layer, panel, 2, 2).data.height == lost, figure.key
