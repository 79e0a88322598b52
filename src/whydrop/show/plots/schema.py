"""The schema of a plot's file. The catalogue and the files of users are validated by the same models."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from whydrop.show.plots import Combiner

Kind = Literal["time-series", "stacked", "cdf", "histogram", "box", "bar", "line", "ellipse", "qq", "scatter", "matrix"]
KINDS: tuple[str, ...] = get_args(Kind)
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

    match: Names = Field(("*",), description="shell patterns, case-sensitive, for names of series")
    exclude: Names = Field((), description="shell patterns for names of series to leave out")
    quantity: Names = Field((), description="measured quantities, such as goodput or rtt; default: all")
    kind: Names = Field((), description="kinds of flows, such as tcp, probe, icmp; or computed, counter")
    direction: Names = Field((), description="directions of flows: up, down, both")
    prefer: Names = Field((), description="names to draw instead of all others, if the recording has them")
    compute: Compute | None = Field(None, description="one series, computed at each step from all matching series")
    label: str | None = Field(None, description="label in the legend; {name} is the part that distinguishes the series")
    role: Role = Field("line", description="emphasis: a thick line on top; events: marks that are never thinned")
    smoothing: int = Field(0, ge=0, le=10_000, description="window of a centred moving average, in steps")
    smooth_across_load: bool = Field(
        False, description="whether a moving average runs across the start and the end of the load, as in Flent"
    )
    reduce: str | None = Field(None, description="reduces a series of a recording to one number: mean, pct99, ...")
    increments: bool = Field(False, description="draw the growth of a counter since the last sample")
    every_s: float = Field(
        0.0, ge=0, le=86_400, description="draw the growth of a counter in intervals of this many seconds"
    )


class PanelSpec(_Strict):
    """One pair of axes."""

    title: str = Field("", description="title above the panel")
    y: str = Field("", description="label of the vertical axis; the unit is added")
    x: str = Field("", description="label of the horizontal axis, if it is not time")
    series: tuple[SeriesSpec, ...] = Field(..., min_length=1, description="series to draw, from back to front")
    zoom: tuple[float, float] | None = Field(None, description="percentiles at the ends of the value axis")
    from_zero: bool | None = Field(None, description="start the value axis at zero, if the values allow it")
    log: bool = Field(False, description="draw a logarithmic value axis")
    limits: tuple[float, float] | None = Field(None, description="ends of the value axis, in its units")
    limits_of: dict[str, tuple[float, float]] = Field(
        default_factory=dict, description="ends of the value axis by its unit, instead of limits: {ms = [0, 100]}"
    )
    lost: bool = Field(False, description="mark lost probes")
    first_s: float | None = Field(None, gt=0, description="draw only this many seconds from the start; default: all")
    steps_with: Names = Field((), description="scatter: only steps in which the first available counter of a flow grew")
    steps_without: Names = Field((), description="scatter: only steps in which that counter did not grow")

    @model_validator(mode="after")
    def _ends_in_order(self) -> PanelSpec:
        of_units = ((f"limits_of.{unit}", ends) for unit, ends in self.limits_of.items())
        for name, ends in (("zoom", self.zoom), ("limits", self.limits), *of_units):
            if ends is not None and not ends[0] < ends[1]:
                raise ValueError(f"{name}: {ends[0]:g} is not below {ends[1]:g}")
        if self.zoom is not None and not (self.zoom[0] >= 0 and self.zoom[1] <= 100):
            raise ValueError("zoom: percentiles are from 0 to 100")
        return self


class PlotSpec(_Strict):
    """One plot, with everything that it inherits filled in."""

    title: str = Field(..., min_length=1, description="title of the picture")
    description: str = Field("", description="one line for the list of plots")
    kind: Annotated[Kind, BeforeValidator(_hyphens)] = Field(..., description="kind of plot")
    parent: str | None = Field(None, description="plot that provides the missing keys")
    panels: tuple[PanelSpec, ...] = Field((), description="panels, from top to bottom")
    panels_of: Names = Field((), description="plots with panels to stack in this one")
    zoom: tuple[float, float] | None = Field(None, description="zoom of panels without a zoom of their own")
    cut: bool = Field(False, description="leave out the idle time before and after the load")
    combine: Annotated[Combiner | None, BeforeValidator(_hyphens)] = Field(
        None, description="how recordings are combined: groups, series, batch, ..."
    )
    group_by: Names = Field((), description="metadata keys to group by")
    needs: Literal["any", "all"] = Field("any", description="any or all: panels that a recording must have series for")
    hidden: bool = Field(False, description="leave out of the list, for a second name of a listed plot")
    columns: int = Field(1, ge=1, le=6, description="number of panels side by side")
    report: bool = Field(False, description="show on the page of every recording with data for it")
    lacks: str = Field("", description="message for recordings without data: the possible reason")
    order: int = Field(50, description="position in the list and in the search for a default plot; low first")

    @model_validator(mode="after")
    def _something_to_draw(self) -> PlotSpec:
        if not self.panels and not self.panels_of:
            raise ValueError("panels: none here and none inherited; expected at least one, or panels_of")
        return self
