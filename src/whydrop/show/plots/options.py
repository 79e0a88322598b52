"""The options of a plot: those of `whydrop plot`, of `whydrop.plot`, and of pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording
    from whydrop.show.plots import Combiner
    from whydrop.show.plots.schema import PanelSpec, PlotSpec


@dataclass(frozen=True)
class Limits:
    """Ends of the axis of values, in its units; without ``unit``, of the only one that a plot has."""

    low: float
    high: float
    unit: str = ""


@dataclass(frozen=True)
class PlotOptions:
    """The user's options, whatever the plot says; ``None`` is as the plot says.

    Attributes:
        filters: patterns of series' names; with ``!`` before them, of those to leave out.
        zoom: percentiles at the ends of the values' axis; an empty tuple: everything is shown.
        limits: ends of axes of values, in their units.
        window: ends of the axis of time, in seconds since the start.
        from_zero: begin axes of values at zero where the values allow it, or not.
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
        scale: recordings that widen the axes and are not drawn.
        baseline: a recording of which the series are taken from those of the same name, step by step.
        ratio: divide by the series of the baseline instead.
    """

    filters: Sequence[str] = ()
    zoom: tuple[float, float] | tuple[()] | None = None
    limits: Sequence[Limits] = ()
    window: tuple[float, float] | None = None
    from_zero: bool | None = None
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
    scale: Sequence[Recording] = ()
    baseline: Recording | None = None
    ratio: bool = False

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
        from_zero = panel.from_zero if self.from_zero is None else self.from_zero
        asked: dict[str, object] = {
            "zoom": zoom,
            "log": self.log or panel.log,
            "from_zero": from_zero,
            "series": series,
        }
        if self.baseline is not None:
            # What a plot says of the axis is about the values themselves, and a difference may be below zero.
            asked |= {"limits": None, "log": False, "from_zero": False, "lost": False, "y": self._against(panel.y)}
        return panel.model_copy(update=asked)

    def _against(self, y: str) -> str:
        return f"{y or 'Value'}, {'divided by' if self.ratio else 'less'} the baseline's"


AS_THE_PLOT_SAYS = PlotOptions()
