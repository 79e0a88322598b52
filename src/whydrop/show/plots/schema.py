"""The schema of a plot's file. The catalogue and the files of users are validated by the same models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

KINDS = ("time-series", "stacked", "cdf", "histogram", "box", "bar", "line", "ellipse", "qq", "scatter", "matrix")
Kind = Literal["time-series", "stacked", "cdf", "histogram", "box", "bar", "line", "ellipse", "qq", "scatter", "matrix"]

COMBINERS = (
    "groups",
    "groups-points",
    "groups-concat",
    "series",
    "both",
    "batch",
    "batch-concat",
    "batch-series",
)
Combiner = Literal[
    "groups", "groups-points", "groups-concat", "series", "both", "batch", "batch-concat", "batch-series"
]

Compute = Literal["mean", "sum", "fairness", "difference-from-min"]
Role = Literal["line", "emphasis", "points", "events"]


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _hyphens(value: Any) -> Any:
    """Flent's spelling of its own names is understood: ``groups_concat``."""
    return value.replace("_", "-") if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SeriesSpec(_Strict):
    """Which series of a recording are drawn in a panel, and how."""

    match: Names = Field(("*",), description="patterns (as of a shell, with case) that names of series match")
    exclude: Names = Field((), description="patterns of names that are left out")
    quantity: Names = Field((), description="what the series measure, such as goodput or rtt; none given: anything")
    kind: Names = Field((), description="kinds of flows, such as tcp, probe, icmp; or computed, counter")
    direction: Names = Field((), description="directions of flows: up, down, both")
    prefer: Names = Field((), description="names that are taken instead of all the others where a recording has them")
    compute: Compute | None = Field(None, description="one series made of all those that match, step by step")
    label: str | None = Field(None, description="in the legend; {name} is the part that distinguishes the series")
    role: Role = Field("line", description="emphasis: a thick line on top; events: marks that are never thinned")
    smoothing: int = Field(0, ge=0, le=10_000, description="window of a moving average around each step, in steps")
    smooth_across_load: bool = Field(
        False, description="whether a moving average runs across the start and the end of the load, as in Flent"
    )
    reduce: str | None = Field(None, description="what makes one number of a recording's series: mean, pct99, ...")
    increments: bool = Field(False, description="of a counter that only grows: how much it grew since the last sample")
    every_s: float = Field(0.0, ge=0, le=86_400, description="increments of so many seconds each, and not of samples")


class PanelSpec(_Strict):
    """One pair of axes."""

    title: str = Field("", description="above the panel")
    y: str = Field("", description="what the vertical axis shows; the unit is added")
    x: str = Field("", description="what the horizontal axis shows, where it is not the time")
    series: tuple[SeriesSpec, ...] = Field(..., min_length=1, description="what is drawn, from back to front")
    zoom: tuple[float, float] | None = Field(None, description="percentiles of the values at the axis's ends")
    from_zero: bool | None = Field(None, description="whether the vertical axis begins at zero where values allow it")
    log: bool = Field(False, description="whether the values' axis is logarithmic")
    limits: tuple[float, float] | None = Field(None, description="ends of the values' axis, in its units")
    lost: bool = Field(False, description="whether probes without an answer are marked")
    first_s: float | None = Field(None, gt=0, description="only so many seconds from the start; none where that is all")
    steps_with: Names = Field((), description="scatter: only steps in which the first counter that a flow has grew")
    steps_without: Names = Field((), description="scatter: only steps in which it did not")

    @model_validator(mode="after")
    def _ends_in_order(self) -> PanelSpec:
        for name, ends in (("zoom", self.zoom), ("limits", self.limits)):
            if ends is not None and not ends[0] < ends[1]:
                raise ValueError(f"{name}: {ends[0]:g} is not below {ends[1]:g}")
        if self.zoom is not None and not (self.zoom[0] >= 0 and self.zoom[1] <= 100):
            raise ValueError("zoom: percentiles are from 0 to 100")
        return self


class PlotSpec(_Strict):
    """One plot, with everything that it inherits filled in."""

    title: str = Field(..., min_length=1, description="what is seen, in a few words")
    description: str = Field("", description="for the list of plots: what one can see in it")
    kind: Annotated[Kind, BeforeValidator(_hyphens)] = Field(..., description="the form of the picture")
    parent: str | None = Field(None, description="the plot that fills in what is not said here")
    panels: tuple[PanelSpec, ...] = Field((), description="pairs of axes, from top to bottom")
    panels_of: Names = Field((), description="plots with panels that are stacked in this one")
    zoom: tuple[float, float] | None = Field(None, description="for panels that say nothing of their own")
    cut: bool = Field(False, description="whether the idle time before and after the load is left out")
    combine: Annotated[Combiner | None, BeforeValidator(_hyphens)] = Field(
        None, description="how several recordings become one: groups, series, batch, ..."
    )
    group_by: Names = Field((), description="metadata keys with values that make the groups")
    needs: Literal["any", "all"] = Field("any", description="whether a recording must have series for all panels")
    hidden: bool = Field(False, description="not in the list: another name for a plot that is in it")
    columns: int = Field(1, ge=1, le=6, description="panels side by side")
    report: bool = Field(False, description="whether the page of a recording shows it wherever it has data")
    lacks: str = Field("", description="why recordings may have nothing of it, for the message")
    order: int = Field(50, description="in the list, and in the search for a plot to draw by default; low first")

    @model_validator(mode="after")
    def _something_to_draw(self) -> PlotSpec:
        if not self.panels and not self.panels_of:
            raise ValueError("panels: none here and none inherited; expected at least one, or panels_of")
        return self
