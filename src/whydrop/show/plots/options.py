"""The options of a plot: those of `whydrop plot`, of `whydrop.plot`, and of pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whydrop.show.plots import Combiner
    from whydrop.show.plots.schema import PanelSpec, PlotSpec


@dataclass(frozen=True)
class PlotOptions:
    """The user's options, whatever the plot says; ``None`` is as the plot says.

    Attributes:
        filters: patterns of series' names; with ``!`` before them, of those to leave out.
        zoom: percentiles at the ends of the values' axis; an empty tuple: everything is shown.
        log: a logarithmic axis of values, whatever the plot says.
        cut: leave out the idle time around the load.
        smooth: steps of a moving average of every series.
        smooth_across_load: let moving averages run across the start and the end of the load.
        absolute_time: time of day instead of seconds since the start.
        paired: recordings side by side with the same axes, instead of in one.
        combine: how the recordings of a group are combined.
        reduce: what makes one number of a recording's series, where recordings are combined.
        group_by: metadata keys.
        panel_by: keys (also ``series`` and ``recording``) with values that make panels.
        figure_by: keys with values that make pictures.
    """

    filters: Sequence[str] = ()
    zoom: tuple[float, float] | tuple[()] | None = None
    log: bool = False
    cut: bool | None = None
    smooth: int | None = None
    smooth_across_load: bool = False
    absolute_time: bool = False
    paired: bool = False
    combine: Combiner | None = None
    reduce: str | None = None
    group_by: Sequence[str] = ()
    panel_by: Sequence[str] = ()
    figure_by: Sequence[str] = ()

    def on(self, plot: PlotSpec) -> PlotOptions:
        """The options with what the plot says in place of those that are not given."""
        return replace(
            self,
            cut=plot.cut if self.cut is None else self.cut,
            combine=self.combine or plot.combine,
            group_by=self.group_by or plot.group_by,
        )

    def takes(self, name: str) -> bool:
        """True if a name matches any of the patterns, and none of those with an exclamation mark before them."""
        refused = [pattern[1:] for pattern in self.filters if pattern.startswith("!")]
        accepted = [pattern for pattern in self.filters if not pattern.startswith("!")]
        if any(fnmatchcase(name, pattern) for pattern in refused):
            return False
        return not accepted or any(fnmatchcase(name, pattern) for pattern in accepted)

    def applied(self, panel: PanelSpec) -> PanelSpec:
        """A panel's specification with the options in it.

        Raises:
            UnknownReducer: there is no such reducer.
        """
        from whydrop.recording.metrics.reducing import normalised

        is_named = self.reduce is not None and not self.reduce.startswith("meta:")
        changes = {
            "smoothing": self.smooth,
            "smooth_across_load": self.smooth_across_load or None,
            "reduce": normalised(self.reduce) if is_named and self.reduce else self.reduce,
        }
        of_series = {key: value for key, value in changes.items() if value is not None}
        series = tuple(spec.model_copy(update=of_series) for spec in panel.series)
        zoom = panel.zoom if self.zoom is None else self.zoom or None
        return panel.model_copy(update={"zoom": zoom, "log": self.log or panel.log, "series": series})


AS_THE_PLOT_SAYS = PlotOptions()
