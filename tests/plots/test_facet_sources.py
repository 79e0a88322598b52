"""Grids of panels of recordings and of stores, as a user of ``whydrop plot`` gets them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import recordings
from whydrop.formats.importing import open_recording
from whydrop.show import figure_numbers as numbers
from whydrop.show.facets import of_store
from whydrop.show.figure import Figure, NothingToDraw
from whydrop.show.plots.building import figures
from whydrop.show.plots.catalogue import PlotError
from whydrop.show.plots.options import PlotOptions
from whydrop.store.engines import Backend, open_backend
from whydrop.store.store import Store
from whydrop.store.tables import conform

Run = Callable[..., subprocess.CompletedProcess[str]]

S = 1_000_000_000
START_NS = 1_518_307_200 * S  # 2018-02-11
SAMPLES = 8_640


def counters() -> pl.DataFrame:
    """A day of two sites: discards that are mostly 0, once 5000; octets that grow; one reset."""
    parts = []
    for site in ("dfw01", "lga_1"):
        for counter in ("discards.tx", "octets.tx"):
            values = [float(n % 7 if counter.startswith("octets") else n % 100 == 0) + 0.0 for n in range(SAMPLES)]
            values[4321] = 5000.0
            parts.append(
                pl.DataFrame({
                    "end_ns": [START_NS + n * 10 * S for n in range(SAMPLES)], "span_ns": 10 * S, "metro": site[:3],
                    "site": site, "switch": f"s1.{site}", "machine": "mlab1", "port": "uplink", "counter": counter,
                    "value": [None if n == 17 else value for n, value in enumerate(values)], "quality": "ok",
                })
            )  # fmt: skip
    return conform("counters", pl.concat(parts))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("facets") / "fleet.store"
    Store.create(folder).add("counters", counters())
    return folder


@pytest.fixture(scope="module")
def backend(store: Path) -> Iterator[Backend]:
    with open_backend(str(store)) as opened:
        yield opened


@pytest.mark.slow
def test_what_the_engine_thinned_has_the_counts_of_all_rows_and_every_rare_value(backend: Backend) -> None:
    options = of_store.Options("counters", "value", panel_by=("site",), filters=("counter=discards.tx",), log=True)
    (made,) = of_store.facets(backend, options)
    own = counters().filter(pl.col("counter") == "discards.tx")
    assert made.left_out.rows == own.height == 2 * SAMPLES
    assert made.left_out.missing == 2
    assert made.left_out.zeros == own.filter(pl.col("value") == 0).height
    drawn = numbers.frame(made)
    assert drawn.height < own.height
    assert set(drawn["y"].unique()) == set(own["value"].drop_nulls().unique())
    assert [panel.name for panel in made.panels] == ["dfw01", "lga_1"]
    assert made.panels[0].y.title == "discards.tx in each sample"


@pytest.mark.parametrize("kind", ["points", "line"])
def test_what_the_engine_thinned_are_rows_of_the_table(backend: Backend, kind: str) -> None:
    options = of_store.Options("counters", "value", group_by=("counter",), filters=("site=dfw*",), kind=kind)  # type: ignore[arg-type]
    (made,) = of_store.facets(backend, options)
    true = counters().filter(pl.col("site") == "dfw01").select("counter", x=pl.col("end_ns") / S, y="value")
    drawn = numbers.frame(made).select(counter="group", x="x", y="y")
    assert drawn.join(true, on=["counter", "x", "y"], how="anti").is_empty()
    assert drawn.filter(pl.col("y") == 5000).height == 2


# --- distributions of a store ---


def shares(made: Figure) -> dict[str, list[tuple[float, float]]]:
    """The drawn x and y of each panel, in order."""
    drawn = numbers.frame(made)
    return {str(panel): own.select("x", "y").rows() for (panel,), own in drawn.group_by("panel", maintain_order=True)}


def test_a_cumulative_distribution_is_that_of_all_rows_at_each_of_its_steps(backend: Backend) -> None:
    options = of_store.Options("counters", "value", panel_by=("site",), filters=("counter=octets.tx",), kind="cdf")
    (made,) = of_store.facets(backend, options)
    values = counters().filter(pl.col("counter").eq("octets.tx") & pl.col("site").eq("dfw01"))["value"].drop_nulls()
    for steps in shares(made).values():
        upper = dict(steps)  # of two points of one x the later one is the upper end of the step
        # The values are 0 to 6, and 5000: a cell of the axis, 1/900 of it, holds 0 to 5 together.
        assert upper == {x: pytest.approx(100 * (values <= x).mean()) for x in (5.0, 6.0, 5000.0)}
        assert steps[0] == (5.0, 0.0)
    assert (made.left_out.rows, made.left_out.missing) == (2 * SAMPLES, 2)


def test_a_cumulative_distribution_of_few_values_has_each_of_them(backend: Backend) -> None:
    filters = ("counter=octets.tx", "site=dfw01", "value<100")
    (made,) = of_store.facets(backend, of_store.Options("counters", "value", filters=filters, kind="cdf"))
    values = counters().filter(pl.col("counter").eq("octets.tx") & pl.col("site").eq("dfw01"))["value"].drop_nulls()
    values = values.filter(values < 100)
    (steps,) = shares(made).values()
    assert dict(steps) == {float(value): pytest.approx(100 * (values <= value).mean()) for value in range(7)}
    assert [x for x, _ in steps] == [float(value) for value in range(7) for _ in range(2)]
    assert [y for _, y in steps] == sorted(y for _, y in steps)


def test_zeros_left_of_a_logarithmic_axis_are_part_of_the_cumulative_distribution(backend: Backend) -> None:
    filters = ("counter=discards.tx", "site=dfw01")
    (made,) = of_store.facets(backend, of_store.Options("counters", "value", filters=filters, kind="cdf", log=True))
    values = counters().filter(pl.col("counter").eq("discards.tx") & pl.col("site").eq("dfw01"))["value"].drop_nulls()
    (steps,) = shares(made).values()
    zeros = 100 * (values == 0).sum() / len(values)
    assert steps[0] == (1.0, pytest.approx(zeros))
    assert steps[-1] == (5000.0, 100.0)
    assert made.notes == (
        "8\u00a0551 of these are 0 or below, where a logarithmic axis has no place: curves begin at their share.",
    )


def test_a_group_that_has_only_zeros_is_a_line_at_all_of_its_rows(backend: Backend) -> None:
    filters = ("site=dfw01", "end_ns>2018-02-11", "end_ns<2018-02-11T00:01")
    options = of_store.Options("counters", "value", group_by=("counter",), filters=filters, kind="cdf", log=True)
    (made,) = of_store.facets(backend, options)
    drawn = numbers.frame(made)
    assert drawn.filter(group="discards.tx").select("x", "y").rows() == [(1.0, 100.0), (5.0, 100.0)]
    assert drawn.filter(group="octets.tx")["y"].to_list() == [
        0.0,
        20.0,
        20.0,
        40.0,
        40.0,
        60.0,
        60.0,
        80.0,
        80.0,
        100.0,
    ]


def test_a_logarithmic_distribution_of_zeros_alone_is_refused(backend: Backend) -> None:
    options = of_store.Options("counters", "value", filters=("value=0",), kind="cdf", log=True)
    with pytest.raises(NothingToDraw, match="no row has value above 0, which --log needs"):
        of_store.facets(backend, options)


def test_a_histogram_has_the_shares_of_all_rows_and_no_comb_of_whole_numbers(backend: Backend) -> None:
    filters = ("counter=octets.tx", "site=dfw01", "value<100")
    (made,) = of_store.facets(backend, of_store.Options("counters", "value", filters=filters, kind="histogram"))
    values = counters().filter(pl.col("counter").eq("octets.tx") & pl.col("site").eq("dfw01"))["value"].drop_nulls()
    values = values.filter(values < 100)
    (bins,) = shares(made).values()
    assert bins == [(float(value), pytest.approx(100 * (values == value).mean())) for value in range(7)]
    assert made.notes == ("7 bins of a width of 1.00.",)


def test_panels_share_the_bins_and_a_logarithmic_histogram_has_no_zeros(backend: Backend) -> None:
    options = of_store.Options(
        "counters", "value", panel_by=("site",), filters=("counter=octets.tx",), kind="histogram", log=True
    )
    (made,) = of_store.facets(backend, options)
    first, second = shares(made).values()
    assert first == second
    assert len(first) == 92  # the square root of 8639
    assert [x for x, y in first if y] == sorted(x for x, y in first if y)
    positive = counters().filter(pl.col("counter").eq("octets.tx") & (pl.col("value") > 0)).height
    assert sum(y for _, y in first) == pytest.approx(100 * positive / 2 / (SAMPLES - 1))
    assert made.left_out.missing == 2 * SAMPLES - positive
    assert "or 0 or below, where a logarithmic axis has no place" in made.footnotes()[0]


def test_panels_by_counter_have_bins_of_their_own(backend: Backend) -> None:
    filters = ("site=dfw01", "value<5000")
    options = of_store.Options("counters", "value", panel_by=("counter",), filters=filters, kind="histogram")
    (made,) = of_store.facets(backend, options)
    assert {panel: [x for x, _ in bins] for panel, bins in shares(made).items()} == {
        "discards.tx": [0.0, 1.0], "octets.tx": [float(value) for value in range(7)],
    }  # fmt: skip
    assert made.notes == ("Each panel has its own bins.",)


def test_equal_values_are_one_bin(backend: Backend) -> None:
    for log in (False, True):
        (made,) = of_store.facets(
            backend, of_store.Options("counters", "value", filters=("value=5000",), kind="histogram", log=log)
        )
        (bins,) = shares(made).values()
        assert bins == [(pytest.approx(5000.0), 100.0)]


def test_small_tables_are_drawn_whole(backend: Backend) -> None:
    filters = ("counter=discards.tx", "site=dfw01", "value>0")
    (made,) = of_store.facets(backend, of_store.Options("counters", "value", filters=filters))
    true = counters().filter(pl.col("counter").eq("discards.tx") & pl.col("site").eq("dfw01") & (pl.col("value") > 0))
    assert numbers.frame(made)["y"].sort().to_list() == true["value"].sort().to_list()
    assert made.notes == ()


def test_a_rate_is_growth_over_its_span_and_octets_are_bits(backend: Backend) -> None:
    filters = ("counter=octets.tx", "site=dfw01")
    (made,) = of_store.facets(backend, of_store.Options("counters", "rate", filters=filters, kind="line"))
    assert numbers.frame(made)["y"].max() == pytest.approx(5000 * 8 / 10)
    assert made.panels[0].y.unit == "bit/s"


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        (("site=lga_1",), 2 * SAMPLES),
        (("site=lga_*",), 2 * SAMPLES),  # the underscore is itself, not any letter
        (("site!=lga*",), 2 * SAMPLES),
        (("site=d?w01", "counter=octets.tx"), SAMPLES),
        (("end_ns>=2018-02-11T12:00", "site=dfw01", "counter=octets.tx"), SAMPLES // 2),
        (("day=2018-02-11", "value=5000"), 4),
        (("value=null",), 4),
        (("day>=2018-02-11", "day<=2018-02-12", "value!=null", "value>=5000"), 4),
    ],
)
def test_filters_choose_rows(backend: Backend, filters: tuple[str, ...], rows: int) -> None:
    (made,) = of_store.facets(backend, of_store.Options("counters", "end_ns", filters=filters))
    assert made.left_out.rows == rows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (of_store.Options("counter", "value"), "a store has no table 'counter'; it has counters"),
        (of_store.Options("counters", "values"), "--y: table counters has no column 'values' (did you mean 'value'?)"),
        (of_store.Options("counters", "site"), "--y: site is text"),
        (of_store.Options("counters", "site", kind="cdf"), "--y: site is text"),
        (of_store.Options("counters", "value", "end_ns", kind="cdf"), "--x: a cdf has the values of --y on its"),
        (of_store.Options("counters", "value", filters=("dfw01",)), "expected a column, ="),
        (of_store.Options("counters", "value", filters=("value>many",)), "value: expected a number, got 'many'"),
        (of_store.Options("counters", "value", filters=("end_ns>noon",)), "expected a time such as 2018-02-11"),
    ],
)
def test_wrong_options_are_refused_with_what_there_is(backend: Backend, options: of_store.Options, said: str) -> None:
    with pytest.raises(PlotError) as raised:
        of_store.facets(backend, options)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (of_store.Options("counters", "value", filters=("site=zzz",)), "no rows that --filter site=zzz leaves"),
        (of_store.Options("counters", "value", filters=("day>2018-03-01", "day<2018-02-01")), "no day is from"),
        (of_store.Options("counters", "total"), "without end_ns or total"),
        (of_store.Options("counters", "value", group_by=("end_ns",)), "more than 60; leave some out with --filter"),
        (of_store.Options("ndt", "acked_bytes"), "no rows in this store"),
    ],
)
def test_nothing_to_draw_is_said_with_why(backend: Backend, options: of_store.Options, said: str) -> None:
    with pytest.raises(NothingToDraw) as raised:
        of_store.facets(backend, options)
    assert said in str(raised.value)


def test_a_column_may_make_pictures(backend: Backend) -> None:
    options = of_store.Options("counters", "value", figure_by=("counter",), panel_by=("site",))
    made = of_store.facets(backend, options)
    assert [one.key for one in made] == ["discards.tx", "octets.tx"]


# --- recordings ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for name, title, scale in (("a", "codel 1", 1.0), ("b", "codel 2", 1.5), ("c", "pie 1", 2.0)):
        recordings.rrul(folder / f"{name}.recording", title=title, scale=scale)
    return folder


def built(folder: Path, plot: str, **keys: tuple[str, ...]) -> list[Figure]:
    opened = [open_recording(path) for path in sorted(folder.glob("*.recording"))]
    return figures(plot, opened, PlotOptions(**keys))  # type: ignore[arg-type]


def test_recordings_stand_in_panels_by_their_metadata(folder: Path) -> None:
    (made,) = built(folder, "ping", panel_by=("title",), group_by=("series",))
    assert [panel.title for panel in made.panels] == ["codel", "pie"]
    assert {drawn.of["recording"] for drawn in made.panels[0].layers} >= {"ICMP", "UDP BE"}
    # Both runs, each a line of its own.
    assert len([drawn for drawn in made.panels[0].layers if drawn.name == "ICMP"]) == 2
    assert "lost probes" in made.footnotes()[0]


def test_distributions_stand_in_panels_by_series_and_begin_at_zero(folder: Path) -> None:
    (made,) = built(folder, "ping_cdf", panel_by=("series",), group_by=("title",))
    assert [panel.title for panel in made.panels] == ["ICMP", "UDP BE"]
    for panel in made.panels:
        for drawn in panel.layers:
            assert (drawn.data["y"].min(), drawn.data["y"].max()) == (0.0, 100.0)


def test_a_plot_without_x_and_y_is_refused(folder: Path) -> None:
    with pytest.raises(NothingToDraw, match="of the kind box"):
        built(folder, "box_ping", panel_by=("title",))


# --- the program ---


@pytest.mark.slow
def test_the_program_draws_a_store_and_says_what_is_not_seen(store: Path, run: Run, tmp_path: Path) -> None:
    done = run(
        "plot", store, "--table", "counters", "--panel-by", "site", "--filter", "counter=discards.tx", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "discards.tx: fleet-counters.html\n"
    assert "2 without end_ns or value" in done.stderr
    assert "<script" in (tmp_path / "fleet-counters.html").read_text()


def test_every_picture_gets_a_file_of_its_own(folder: Path, run_here: Run, tmp_path: Path) -> None:
    paths = sorted(folder.glob("*.recording"))
    done = run_here(
        "plot", *paths, "-p", "all_scaled", "--figure-by", "title", "--format", "csv", "-o", "x.csv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(list(tmp_path.glob("x-*.csv"))) == 6


def test_what_is_drawn_of_a_store_goes_to_standard_output_as_json(store: Path, run_here: Run) -> None:
    done = run_here("plot", store, "--table", "counters", "--filter", "value=5000", "--format", "json", "-o", "-")
    document = json.loads(done.stdout)
    assert document["left_out"]["rows"] == 4
    (panel,) = document["panels"]
    assert {value for trace in panel["traces"] for value in trace["columns"]["y"]} == {5000.0}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "is a store: give --table"),
        (["--table", "ndt"], 2, "--y: which column of ndt?"),
        (["--table", "counters", "--combine", "groups"], 2, "--combine does not go with a store"),
        (["--table", "counters", "--filter", "site=none"], 1, "no rows that --filter site=none leaves"),
    ],
)
def test_what_cannot_be_drawn_of_a_store_is_said(
    store: Path, run_here: Run, arguments: list[str], status: int, said: str
) -> None:
    done = run_here("plot", store, *arguments)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
