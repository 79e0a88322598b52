"""The options of ``whydrop plot``, translated for the catalogue of plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whydrop.show.plots.building import PlotOptions


def plot_options(given: dict[str, Any]) -> PlotOptions:
    """The options given on the command line, as plots have them."""
    from whydrop.recording.metrics.reducing import normalised
    from whydrop.show.plots.building import PlotOptions

    reduce = given["reduce"]
    if reduce is not None and not reduce.startswith("meta:"):
        reduce = normalised(reduce)
    return PlotOptions(
        filters=given["filters"],
        zoom=given["zoom"],
        cut=given["cut"],
        log=True if given["log"] else None,
        absolute_time=given["absolute_time"],
        group_by=given["keys"],
        combine=given["combine"],
        reduce=reduce,
        smoothing=given["smooth"],
        smooth_across_load=given["smooth_across_load"] or None,
        paired=given["paired"],
    )
