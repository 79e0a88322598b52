"""Pages in a browser: each figure of recordings and of the study is drawn, can be zoomed, has its CSV's numbers."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import recordings
import small_stores
import whydrop
from in_browser import Opened, changed
from studies.made_results import results
from whydrop.formats.importing import open_recording
from whydrop.recording.recording import Recording
from whydrop.show import figure_numbers as numbers
from whydrop.show.facets import of_store
from whydrop.show.figure import Figure
from whydrop.show.html import page_of_figures
from whydrop.show.plots import building, catalogue
from whydrop.show.plots.options import PlotOptions
from whydrop.store.engines import open_backend
from whydrop.studies.discards import document as study_document
from whydrop.studies.discards import figures as study_figures

pytestmark = [pytest.mark.slow, pytest.mark.needs_browser]

# The figures as the page's own script reads them: by key, each panel with its axes and its layers.
READ = """
() => Object.fromEntries(Object.values(JSON.parse(document.getElementById("chart-data").textContent).parts).flat()
  .flatMap((choice) => whydrop.decode(choice).figures)
  .map((figure) => [figure.key, figure.panels.map((panel) => ({ x: panel.x, y: panel.y,
    layers: panel.layers.map((layer) => ({ mark: layer.mark, x: [...(layer.x ?? [])], y: [...(layer.y ?? [])] })) }))]))
"""

Place = tuple[float | str | None, float | str | None]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def place(axis: dict[str, Any], value: float | None) -> float | str | None:
    """The meaning of a number of a page: a word of an axis of words, 0 where zeros stand."""
    if value is None or value != value:
        return None
    if axis["words"]:
        return min(axis["words"], key=lambda word: abs(word[0] - value))[1]
    return 0.0 if axis["zeros"] and value < axis["zeros"][1] else value


def in_page(panels: list[dict[str, Any]]) -> Counter[Place]:
    """Every place of every mark of a figure in a page."""
    return Counter(
        (place(panel["x"], x), place(panel["y"], y))
        for panel in panels
        for layer in panel["layers"]
        for x, y in zip(layer["x"], layer["y"], strict=False)
    )


def in_csv(text: str, panels: list[dict[str, Any]]) -> Counter[Place]:
    """The same as an export has it."""
    frame = pl.read_csv(io.StringIO(text), infer_schema_length=None) if text.strip() else pl.DataFrame()
    words = [any(panel[axis]["words"] for panel in panels) for axis in ("x", "y")]
    columns = [
        [value if value is None else str(value) if of_words else float(value) for value in frame[name]]
        for name, of_words in zip(("x", "y"), words, strict=True)
    ] if frame.width else [[], []]  # fmt: skip
    return Counter(zip(*columns, strict=True))


def drag(opened: Opened, key: str) -> None:
    """Drag over the middle of a figure, as a reader who wants to see that part of it."""
    plot = opened.page.locator(f"#figure-{key} .u-over").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    middle = box["y"] + box["height"] / 2
    opened.page.mouse.move(box["x"] + box["width"] * 0.3, middle)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] * 0.7, middle, steps=3)
    opened.page.mouse.up()


def zoom_each(opened: Opened) -> set[str]:
    """Zoom in with the button, and where that moves nothing by a drag; returns the figures that look otherwise then."""
    before = opened.pictures()
    opened.page.locator("[data-zoom=in]").first.click()
    opened.page.wait_for_timeout(100)
    zoomed = changed(before, opened.pictures())
    # a busy browser loses an event of the mouse: then a reader drags again
    for _ in range(3):
        for key in set(before) - zoomed:
            drag(opened, key)
        opened.page.mouse.move(0, 0)
        zoomed |= drawn_anew(opened, before)
    return zoomed


def drawn_anew(opened: Opened, before: dict[str, str]) -> set[str]:
    """The figures that look otherwise, once all do or two seconds have passed: a busy machine draws later."""
    zoomed: set[str] = set()
    for _ in range(20):
        opened.page.wait_for_timeout(100)
        zoomed = changed(before, opened.pictures())
        if zoomed == set(before):
            break
    return zoomed


def check_plots(browser: Any, folder: Path, of: list[Recording], names: list[str], **options: Any) -> None:
    """Plots in one page: drawn, zoomed, and with the numbers of their CSV."""
    asked = PlotOptions(**options)
    figures = [building.build(name, catalogue.find(name), of, asked) for name in names]
    opened = Opened(browser, written(folder, "plots.html", page_of_figures(figures)))
    seen = opened.page.evaluate(READ)
    assert list(seen) == names
    for figure in figures:
        expected = in_csv(numbers.csv_text(figure), seen[figure.key])
        assert expected, figure.key
        assert expected <= in_page(seen[figure.key]), figure.key
    assert zoom_each(opened) == set(names)
    assert opened.trouble == []
    assert len(opened.requests) == 1


def check_grids(browser: Any, folder: Path, made: list[Figure]) -> None:
    """Grids of two panels in one page: drawn, zoomed, and with the numbers of their CSV."""
    opened = Opened(browser, written(folder, "grids.html", page_of_figures(made)))
    seen = opened.page.evaluate(READ)
    assert made
    for grid in made:
        panels = seen[grid.key]
        assert len(panels) == 2
        expected = in_csv(numbers.csv_text(grid), panels)
        assert expected, grid.key
        assert expected <= in_page(panels), grid.key
    assert zoom_each(opened) == set(seen)
    assert opened.trouble == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    recordings.rrul(folder / "a.recording", title="fifo run 1")
    recordings.rrul(folder / "b.recording", title="fq run 1", scale=2.0)
    return folder


def test_every_plot_of_a_recording_is_drawn_zoomed_and_has_the_numbers_of_its_csv(browser: Any, folder: Path) -> None:
    one = open_recording(folder / "a.recording")
    names = [name for name, plot in building.available([one]).items() if plot.combine != "both"]
    assert len(names) > 30
    check_plots(browser, folder, [one], names)


@pytest.mark.exhaustive
def test_every_plot_of_two_recordings_has_the_numbers_of_its_csv(browser: Any, folder: Path) -> None:
    two = [open_recording(folder / name) for name in ("a.recording", "b.recording")]
    names = [name for name, plot in building.available(two).items() if plot.combine != "both"]
    check_plots(browser, folder, two, names)


def test_recordings_combined_by_two_keys_are_drawn_zoomed_and_have_the_numbers_of_their_csv(
    browser: Any, tmp_path: Path
) -> None:
    for queue, flows, scale in (("pfifo", 1, 1.0), ("pfifo", 4, 1.2), ("fq_codel", 1, 1.5), ("fq_codel", 4, 1.9)):
        test = {**recordings.metadata()["test"], "parameters": {"qdisc": queue, "flows": flows}}
        recordings.rrul(tmp_path / f"{queue}-{flows}.recording", scale=scale, test=test)
    runs = [open_recording(path) for path in sorted(tmp_path.glob("*.recording"))]
    keys = ("test.parameters.flows", "test.parameters.qdisc")
    check_plots(browser, tmp_path, runs, ["box_ping_combine", "line_combine"], group_by=keys, combine="both")


def test_grids_of_a_store_are_drawn_zoomed_and_have_the_numbers_of_their_csv(browser: Any, tmp_path: Path) -> None:
    rows = [
        row
        for site, most in (("dfw01", 7), ("lga01", 11))
        for counter, by in (("octets.tx", 3), ("discards.tx", 5))
        for row in small_stores.series(counter, [float(n * by % most) for n in range(90)], site=site)
    ]
    store = small_stores.write(tmp_path / "fleet.store", counters=rows)
    options = of_store.Options("counters", "value", panel_by=("site",), group_by=("counter",), kind="line")
    with open_backend(str(store)) as backend:
        check_grids(browser, tmp_path, of_store.facets(backend, options))


def test_grids_of_recordings_are_drawn_zoomed_and_have_the_numbers_of_their_csv(browser: Any, folder: Path) -> None:
    two = [open_recording(folder / name) for name in ("a.recording", "b.recording")]
    asked = PlotOptions(panel_by=("title",), group_by=("series",))
    made = [grid for name in ("ping", "ping_cdf") for grid in building.figures(name, two, asked)]
    check_grids(browser, folder, made)


@pytest.mark.parametrize("definitions", ["corrected", pytest.param("published", marks=pytest.mark.exhaustive)])
def test_every_figure_of_the_study_is_drawn_zoomed_and_has_the_numbers_of_its_csv(
    browser: Any, tmp_path: Path, definitions: str
) -> None:
    study_document.write(results(definitions), tmp_path, ["html", "csv"])
    opened = Opened(browser, tmp_path / "report.html")
    seen = opened.page.evaluate(READ)
    assert list(seen) == list(study_figures.specs(definitions))
    exported = pl.read_csv(tmp_path / "tables" / "plot.csv").drop_nulls(["x", "y"])
    for name, panels in seen.items():
        own = exported.filter(pl.col("figure") == name)
        drawn = in_page(panels)
        if name.startswith("client_speeds"):
            # Of a density the page has the corners of its steps: their heights are the exported ones.
            heights = {y for _, y in drawn}
            assert heights - {0.0} == set(own["y"]) - {0.0}, name
        else:
            assert own.height
            assert Counter(zip(own["x"], own["y"], strict=True)) == drawn, name
    assert zoom_each(opened) == set(seen)
    assert opened.trouble == []


def test_the_report_of_a_recording_has_its_verdict_and_plots_that_can_be_zoomed(
    browser: Any, folder: Path, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    done = run_here("report", folder / "a.recording", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Report: a.html\n"
    opened = Opened(browser, tmp_path / "a.html")
    one = open_recording(folder / "a.recording")
    seen = opened.page.evaluate(READ)
    assert list(seen) == building.usual(one)
    assert list(seen)[:2] == ["all", "ping_cdf"]
    for name, panels in seen.items():
        figure = building.build(name, catalogue.find(name), [one])
        assert in_csv(numbers.csv_text(figure), panels) <= in_page(panels), name
    assert zoom_each(opened) == set(seen)
    assert opened.trouble == []
    assert opened.requests == [(tmp_path / "a.html").as_uri()]
    text = opened.page.inner_text("main")
    assert opened.page.inner_text("h1") == whydrop.explain(folder / "a.recording").verdicts[0].sentence
    for words in ("Ping (ms) ICMP", "Induced latency", "Test and hosts", "client.example", "probe"):
        assert words in text, words


def test_the_report_of_two_recordings_is_two_pages(folder: Path, tmp_path: Path, run_here: Callable[..., Any]) -> None:
    both = (folder / "a.recording", folder / "b.recording")
    assert run_here("report", *both, cwd=tmp_path).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"a.html", "b.html"}
    refused = run_here("report", *both, "-o", "x.html", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--output names one page" in refused.stderr
