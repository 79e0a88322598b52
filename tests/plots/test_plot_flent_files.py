"""Every plot that Flent's own files have can be drawn of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from whydrop.formats.importing import open_recording
from whydrop.show import figure_numbers as numbers
from whydrop.show import writing
from whydrop.show.plots.building import available, build, default

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT.parent / "shared" / "data" / "flent").glob("*.flent.gz"))

NAMES = {"http-1up", "rrul", "rrul_be-socket_stats", "rtt-fair", "tcp_nup", "voip-1up"}


def test_flents_files_are_there() -> None:
    if not FILES:
        pytest.skip("the six files of Flent are not beside this checkout (../shared/data/flent)")
    assert {path.name.removesuffix(".flent.gz").removeprefix("test-") for path in FILES} == NAMES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_plot_that_a_file_of_flents_has_is_built(path: Path) -> None:
    recording = open_recording(path)
    # The panels of the plot that Flent 2.3.0 draws first, whole.
    assert default([recording]) == "all"
    for name, plot in available([recording]).items():
        if plot.combine == "both":
            continue
        picture = build(name, plot, [recording])
        assert picture.panels, name
        assert 0 <= picture.left_out.share < 1, name
        assert numbers.frame(picture).height > 0 or all(
            trace.data.is_empty() for panel in picture.panels for trace in panel.layers
        ), name


# Drawing the others takes long, and they are built above.
DRAWN = [pytest.param(path, marks=() if "rrul" in path.name else pytest.mark.exhaustive) for path in FILES]


@pytest.mark.parametrize("path", DRAWN, ids=[path.name for path in FILES])
def test_the_default_plot_of_a_file_of_flents_is_drawn(path: Path) -> None:
    recording = open_recording(path)
    name = default([recording])
    assert len(writing.rendered(build(name, available([recording])[name], [recording]), "svg")) > 10_000
