"""The catalogue of plots, and what a user's own file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from whydrop.recording.metrics.reducing import normalised
from whydrop.show.plots import catalogue
from whydrop.show.plots.catalogue import PlotError, read_file

# Plots of Flent 2.3.0 that its users know by name; the rest of its names are ours under another one (docs/plots.md).
FLENTS = (Path(__file__).parent / "flent-2.3.0-plots.txt").read_text().split()


def test_every_plot_of_the_package_is_valid_and_says_what_it_shows() -> None:
    for name, plot in catalogue.catalogue().items():
        assert plot.title, name
        assert plot.description, name
        assert catalogue.panels(plot), name


@pytest.mark.parametrize("name", FLENTS)
def test_a_plot_that_flents_users_know_is_there_under_its_name(name: str) -> None:
    assert name in catalogue.catalogue()


def test_every_reducer_that_the_catalogue_names_exists() -> None:
    for plot in catalogue.catalogue().values():
        for panel in catalogue.panels(plot):
            for series in panel.series:
                assert series.reduce is None or normalised(series.reduce)


def test_a_plot_inherits_what_it_does_not_say() -> None:
    scaled = catalogue.find("download_scaled")
    assert scaled.kind == "time-series"
    assert catalogue.panels(scaled)[0].zoom == (5, 95)
    assert catalogue.panels(catalogue.find("download"))[0].zoom is None


def test_stacked_plots_keep_the_zoom_of_each_of_them() -> None:
    assert [panel.zoom for panel in catalogue.panels(catalogue.find("all_scaled"))] == [(5, 95)] * 4
    assert [panel.zoom for panel in catalogue.panels(catalogue.find("all"))] == [None] * 4


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(PlotError, match="did you mean 'ping_cdf'"):
        catalogue.find("pingcdf")


def _file(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_users_file_may_build_on_the_catalogue(tmp_path: Path) -> None:
    plots = read_file(_file(tmp_path, '[mine]\nparent = "ping_cdf"\ntitle = "My latency"\n'))
    assert plots["mine"].title == "My latency"
    assert plots["mine"].kind == "cdf"
    assert plots["mine"].cut


def test_flents_spelling_of_kinds_and_combiners_is_understood(tmp_path: Path) -> None:
    text = '[mine]\ntitle = "x"\nkind = "time_series"\ncombine = "groups_points"\n[[mine.panels]]\nseries = [{}]\n'
    assert read_file(_file(tmp_path, text))["mine"].combine == "groups-points"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mine\n", "not TOML"),
        ("x = 1\n", "expected a table"),
        ("", "no plots in it"),
        ('[mine]\ntitle = "x"\nkind = "pie"\n[[mine.panels]]\nseries = [{}]\n', "mine.kind: .*'pie'"),
        ('[mine]\ntitle = "x"\nkind = "cdf"\n', "panels: none here"),
        ('[mine]\nparent = "pingg"\n', "mine.parent: no plot 'pingg' .did you mean"),
        ('[mine]\nparent = "mine"\n', "circle"),
        ('[mine]\nparent = "ping"\npanels_of = ["dwnload"]\n', "mine.panels_of: no plot 'dwnload'"),
        ('[mine]\nparent = "ping"\ncutt = true\n', "mine.cutt: no such key .did you mean 'cut'"),
        (
            '[mine]\ntitle = "x"\nkind = "cdf"\n[[mine.panels]]\nseries = [{ smoothing = "ten" }]\n',
            r"mine\.panels\[0\]\.series\[0\]\.smoothing: .*'ten'",
        ),
        ('[mine]\nparent = "ping"\n[[mine.panels]]\nzoom = [95, 5]\nseries = [{}]\n', "95 is not below 5"),
    ],
)
def test_a_mistake_in_a_file_is_named_with_the_file_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(PlotError, match=said) as raised:
        read_file(path)
    assert str(path) in str(raised.value)
