"""The study's figures: their numbers, their words, and what of them is not seen."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import date
from typing import Any

import polars as pl
import pytest

from studies.made_results import results
from whydrop.show.facets import building
from whydrop.show.figure import Counts, Figure, Layer
from whydrop.show.vega.drawing import specification
from whydrop.studies.discards import figures
from whydrop.studies.discards.changes_file import Noted
from whydrop.studies.discards.results import PLOT, TABLES

# Eight figures, of which the sixth is four.
NAMES = [
    "utilisation", "download_speed", "discard_ratio", "retransmission_ratio", "overlay", "client_speeds_max",
    "client_speeds_mean", "client_speeds_min", "client_speeds_cv", "contact_days", "discard_bins",
]  # fmt: skip
SPEEDS = results().tables["client_speeds"].to_dicts()
FEBRUARY_11, FEBRUARY_12 = 1518307200.0, 1518393600.0


def drawn(figure: Figure, panel: int = 0) -> list[Layer]:
    """The layers for the rows of each group, in the order of the legend."""
    own = figure.panels[panel]
    return sorted((one for one in own.layers if not one.helper), key=lambda one: own.order.index(one.name))


def rows(figure: str, definitions: str = "corrected", **tables: Any) -> list[tuple[Any, ...]]:
    frame = figures.plot_frame(results(definitions, **tables))
    return frame.filter(pl.col("figure") == figure).select("panel", "group", "x", "y").rows()


def test_the_frame_is_that_of_the_contract_with_every_figure_in_order() -> None:
    frame = figures.plot_frame(results())
    assert dict(frame.schema) == PLOT
    assert frame["figure"].unique(maintain_order=True).to_list() == NAMES


@pytest.mark.parametrize("definitions", ["corrected", "published"])
def test_days_are_their_midnights_and_values_are_in_the_axes_units(definitions: str) -> None:
    assert rows("utilisation", definitions) == [
        ("dfw", "dfw01", FEBRUARY_11, 1e6), ("dfw", "dfw01", FEBRUARY_12, 2e6),
    ]  # fmt: skip
    assert rows("download_speed", definitions)[0] == ("dfw", "dfw01", FEBRUARY_11, 20.0)
    assert rows("discard_ratio", definitions) == [
        ("dfw", "dfw01", FEBRUARY_11, 2e-4), ("dfw", "dfw01", FEBRUARY_12, 0.0), ("dfw", "dfw02", FEBRUARY_11, None),
    ]  # fmt: skip
    assert rows("retransmission_ratio", definitions) == [("dfw", "dfw01", FEBRUARY_11, 1e-2)]


def test_figure_5_is_figures_3_and_4_in_one() -> None:
    assert rows("overlay") == [
        ("dfw", "dfw01 discards", FEBRUARY_11, 2e-4),
        ("dfw", "dfw01 discards", FEBRUARY_12, 0.0),
        ("dfw", "dfw02 discards", FEBRUARY_11, None),
        ("dfw", "dfw01 retransmissions", FEBRUARY_11, 1e-2),
    ]


def test_figure_6_as_published_has_densities_of_logarithms_at_left_edges() -> None:
    # Of four clients (0, 0, 1 and 2 decades above 1 Mbit/s) two bins of one decade each.
    found = rows("client_speeds_max", "published")
    assert [(panel, group) for panel, group, _, _ in found] == [("dfw01", "before")] * 2 + [("dfw01", "after")] * 2
    assert [x for _, _, x, _ in found[:2]] == pytest.approx([1.0, 10.0])
    assert [y for _, _, _, y in found[:2]] == pytest.approx([0.5, 0.5])


def test_figure_6_as_corrected_has_densities_at_the_centres_of_shared_bins() -> None:
    found = rows("client_speeds_mean")
    assert [x for _, _, x, _ in found[:2]] == pytest.approx([0.5 * math.sqrt(10), 5 * math.sqrt(10)])
    assert [y for _, _, _, y in found] == pytest.approx([0.5] * 4)


def test_figure_6_shows_the_slowest_downloads_and_the_variation_with_medians_in_the_legend() -> None:
    made = figures.facets(results())
    assert [one.name for one in drawn(made["client_speeds_min"])] == [
        "before (n = 4, median 1.10\u00a0Mbit/s)", "after (n = 4, median 1.10\u00a0Mbit/s)",
    ]  # fmt: skip
    assert [one.name for one in drawn(made["client_speeds_cv"])] == [
        "before (n = 4, median 0.110)", "after (n = 4, median 0.110)",
    ]  # fmt: skip
    found = rows("client_speeds_cv")
    # Of 0.002 to 0.2 two bins of one decade each.
    assert [x for _, _, x, _ in found[:2]] == pytest.approx([0.002 * math.sqrt(10), 0.02 * math.sqrt(10)])
    assert [y for _, _, _, y in found] == pytest.approx([0.25, 0.75] * 2)


def test_clients_without_a_variation_above_zero_are_counted_below_the_figure() -> None:
    speeds = [row | {"cv": None if row["client"] == "192.0.2.0" else 0.2} for row in SPEEDS]
    words = figures.facets(results(client_speeds=speeds))["client_speeds_cv"].footnotes()[0]
    assert words.endswith("2 bins or clients have no coefficient of variation above 0.")


def test_figure_7_counts_tests_by_class() -> None:
    assert [(group, y) for _, group, _, y in rows("contact_days")] == [("zero", 90), ("non-zero", 6), ("unknown", 4)]
    assert [(group, y) for _, group, _, y in rows("contact_days", "published")] == [("zero", 90), ("non-zero", 6)]


def test_a_day_on_which_no_test_met_discards_is_a_zero_that_is_seen() -> None:
    quiet = [{"metro": "dfw", "site": "dfw01", "day": "2018-02-11", "class": "zero", "tests": 7}]
    assert [(group, y) for _, group, _, y in rows("contact_days", contact_days=quiet)] == [
        ("zero", 7), ("non-zero", 0), ("unknown", 0),
    ]  # fmt: skip
    assert figures.facets(results(contact_days=quiet))["contact_days"].left_out.zeros == 2


@pytest.mark.slow
@pytest.mark.parametrize("definitions", ["corrected", "published"])
def test_every_figure_says_its_title_and_its_axes_with_units(definitions: str) -> None:
    of_discards = {"corrected": "Discarded packets, share of all", "published": "Discards to unicast packets"}
    units = {
        "utilisation": "Rate (bit/s)",
        "download_speed": "Download speed (Mbit/s)",
        "discard_ratio": of_discards[definitions],
        "retransmission_ratio": "Retransmitted segments, share of all",
        "overlay": "Share of packets, or of segments",
        "client_speeds_max": "Density (per decade)",
        "client_speeds_mean": "Density (per decade)",
        "client_speeds_min": "Density (per decade)",
        "client_speeds_cv": "Density (per decade)",
        "contact_days": "Tests (per day)",
        "discard_bins": "Bins with discards, share of all",
    }  # fmt: skip
    for name, facets in figures.facets(results(definitions)).items():
        text = json.dumps(specification(facets), ensure_ascii=False)
        across = "Download speed (Mbit/s)" if name.startswith("client_speeds") else "Day (UTC)"
        across = "Coefficient of variation" if name == "client_speeds_cv" else across
        across = "Month (UTC)" if name == "discard_bins" else across
        for words in (f"Figure {dict(zip(NAMES, '12345666678', strict=True))[name]}", units[name], across, "Drawn: "):
            assert words in text, (name, words)
        assert figures.specs(definitions)[name].caption


def test_published_axes_are_the_published_ones() -> None:
    made = figures.facets(results("published"))
    ends = {name: building.seen(facets.panels[0].y) for name, facets in made.items()}
    assert ends["utilisation"] == (1e4, 1e9)
    assert ends["download_speed"] == (0.0, 50.0)
    assert ends["discard_ratio"] == ends["retransmission_ratio"] == ends["overlay"] == (1e-6, 1e-1)
    assert ends["contact_days"] == (-200.0, 30000.0)
    assert made["client_speeds_max"].panels[0].x.ends == (0.01, 1000.0)


def test_what_is_beyond_published_axes_is_within_corrected_ones() -> None:
    worst = {
        "metro": "dfw",
        "site": "dfw01",
        "day": "2018-02-11",
        "ratio": 0.4,
        "discards": 4.0,
        "packets": 10.0,
        "samples": 1,
    }
    published = figures.facets(results("published", discard_ratio=[worst]))["discard_ratio"]
    corrected = figures.facets(results(discard_ratio=[worst]))["discard_ratio"]
    assert published.left_out.beyond == 1
    assert "1 beyond the axes" in published.footnotes()[0]
    assert corrected.left_out.beyond == 0


def test_days_without_discards_and_without_packets_are_said() -> None:
    words = figures.facets(results())["discard_ratio"].footnotes()[0]
    assert words == ("Drawn: 2 of 3 points; 1 at 0, below the dashed line; 1 day has no packets, and so no ratio.")


def test_the_legend_of_figure_6_has_each_panels_own_p_value() -> None:
    made = figures.facets(results())
    assert [one.name for one in drawn(made["client_speeds_max"])] == [
        "before (n = 4)", "after (n = 4, p = 0.77, adjusted 1.0)",
    ]  # fmt: skip
    assert "p <\u00a00.0001" in drawn(made["client_speeds_mean"])[1].name
    published = figures.facets(results("published"))["client_speeds_max"]
    assert drawn(published)[1].name == "after (n = 4, p = 0.77)"


def test_a_metro_without_data_has_an_empty_panel() -> None:
    made = figures.facets(results())
    assert [panel.name for panel in made["utilisation"].panels] == ["dfw", "lga"]
    assert not made["utilisation"].panels[1].layers


def test_discards_are_distinguished_from_retransmissions_by_shape_as_corrected_and_not_as_published() -> None:
    for definitions, shapes in (("corrected", 2), ("published", 1)):
        overlay = drawn(figures.facets(results(definitions))["overlay"])
        assert {one.of["group"] for one in overlay} == {"dfw01 discards", "dfw01 retransmissions"}
        assert len({one.style.light for one in overlay}) == 1
        assert len({one.style.shape for one in overlay}) == shapes


def test_a_site_has_one_colour_in_figures_1_to_5() -> None:
    more = [{"metro": "dfw", "site": "dfw02", "day": "2018-02-11", "rate_bps": 1e6, "samples": 1, "coverage": 1.0}]
    made = figures.facets(results(utilisation=more))
    colours = {
        one.style.light
        for name in ("utilisation", "download_speed", "discard_ratio", "retransmission_ratio")
        for one in drawn(made[name])
        if one.of["group"] == "dfw01"
    }
    assert len(colours) == 1
    assert drawn(made["utilisation"])[0].style.light not in colours


def test_without_any_table_every_figure_is_there_and_empty() -> None:
    empty = results(**{name: [] for name in TABLES})
    assert figures.plot_frame(empty).is_empty()
    assert all(facets.left_out == Counts() for facets in figures.facets(empty).values())


@pytest.mark.slow
def test_a_chart_of_each_figure_can_be_had() -> None:
    charts = figures.charts(results())
    assert list(charts) == NAMES
    assert all("vconcat" in chart.to_dict() for chart in charts.values())


def test_changes_are_vertical_lines_in_the_panels_of_their_sites_and_named_below() -> None:
    noted = (
        Noted(date(2018, 2, 11), "flow control on", "dfw01"), Noted(date(2018, 2, 12), "elsewhere", "lga01"),
        Noted(date(2030, 1, 1), "long after", ""),
    )  # fmt: skip
    made = figures.facets(replace(results(), noted=noted))
    rules = {
        panel.name: [layer.data["x"].to_list() for layer in panel.layers if layer.mark == "rule"]
        for panel in made["discard_ratio"].panels
    }
    assert rules == {"dfw": [[FEBRUARY_11]], "lga": [[FEBRUARY_12]]}
    [note] = made["discard_ratio"].notes
    assert note == "Vertical lines: 2018-02-11 flow control on (dfw01); 2018-02-12 elsewhere (lga01)."
    of_sites = made["contact_days"].panels
    assert [panel.name for panel in of_sites if any(layer.mark == "rule" for layer in panel.layers)] == ["dfw01"]
    # Figure 6 is not over time.
    assert not any(layer.mark == "rule" for panel in made["client_speeds_max"].panels for layer in panel.layers)
