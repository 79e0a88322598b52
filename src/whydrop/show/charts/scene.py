"""The rows of one flow, ready to draw, and what the charts have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from whydrop.explaining.document import Flow, Model, Verdict
from whydrop.explaining.explained import Explained
from whydrop.show.figure import Axis, Ends, Figure, Layer, Mark, NothingToDraw, Panel, span
from whydrop.show.theme import STYLES

TIME = Axis("Time since the flow's first packet (s)")
TIMES = pl.col("t")


@dataclass(frozen=True)
class Scene:
    """The rows of one flow, ready to draw: ``t`` is seconds since the flow's first packet in the capture.

    ``model`` holds the rows of the model that won, ``rival`` those of the best one that lost.
    """

    flow: Flow
    number: int
    origin_s: float
    segments: pl.DataFrame
    acks: pl.DataFrame
    sacks: pl.DataFrame
    model: pl.DataFrame
    rival: pl.DataFrame
    verdict: Verdict | None
    verdict_flows: int = field(default=1)

    @classmethod
    def of(cls, found: Explained, number: int) -> Scene:
        """Take the rows of flow ``number``, and of the first verdict that concerns it, out of the tables."""
        own = {
            name: found.table(name).filter(pl.col("flow") == number).sort("time_ns", maintain_order=True)
            for name in ("segments", "acks", "sacks")
        }
        flow = found.flows[number]
        verdicts = [position for position, verdict in enumerate(found.verdicts) if flow.flow in verdict.flows]
        model = found.table("model").filter(pl.col("verdict").is_in(verdicts[:1]))
        model = model.sort("time_ns", maintain_order=True)
        verdict = found.verdicts[verdicts[0]] if verdicts else None
        replayed = {
            "model": with_level(model.filter(~pl.col("rival")), _role(verdict, "winner")),
            "rival": with_level(model.filter("rival"), _role(verdict, "given", "rival")),
        }
        first = own["segments"]["time_ns"].min()
        origin = first if isinstance(first, int) else int(flow.start * 1e9)
        frames = {
            name: frame.with_columns(t=(pl.col("time_ns") - origin) / 1e9)
            for name, frame in {**own, **replayed}.items()
        }
        return cls(
            flow=flow,
            number=number,
            origin_s=origin / 1e9,
            verdict=verdict,
            verdict_flows=frames["model"]["flow"].n_unique(),
            **frames,
        )

    @cached_property
    def lost(self) -> pl.DataFrame:
        """The transmissions that never arrived."""
        return self.segments.filter(pl.col("fate") == "lost")

    def parameter(self, name: str) -> float | None:
        """A fitted value of the verdict, where it has one of this name."""
        if self.verdict is None or name not in self.verdict.parameters:
            return None
        return self.verdict.parameters[name].value

    @property
    def fitted_rate_bps(self) -> float | None:
        """The rate of the fitted model, where it has one."""
        rates = map(self.parameter, ("rate_bps", "drain_rate_bps"))
        return next((rate for rate in rates if rate is not None), None)

    def need_segments(self) -> None:
        """Stop with a reason where the capture holds no data packet of the flow."""
        if self.segments.is_empty():
            raise NothingToDraw(f"{self.flow.flow}: the capture holds no data packets of this flow")


def _role(verdict: Verdict | None, *roles: str) -> Model | None:
    """The model of a verdict in the first of these roles that any model has."""
    models = () if verdict is None else verdict.models
    return next((model for role in roles for model in models if model.role == role), None)


def with_level(rows: pl.DataFrame, model: Model | None) -> pl.DataFrame:
    """The rows of a model with what it holds; where the replay has only waits, the bytes that drain in that time."""
    held = None if model is None or model.rate_bps is None else pl.col("wait_ns") * model.rate_bps / 8e9
    level = pl.col("level_bytes").fill_nan(None)
    # A dropped packet does not wait, but meets the queue that the one before it met.
    return rows.with_columns(level_bytes=level if held is None else level.fill_null(held.forward_fill()))


def points(frame: pl.DataFrame, x: pl.Expr, y: pl.Expr, **more: pl.Expr) -> pl.DataFrame:
    """The ``x`` and ``y`` (and ``x2``, ``y2``) of a layer as floats, without rows where one is not known."""
    columns = {"x": x, "y": y, **more}
    return frame.select(**{name: value.cast(pl.Float64) for name, value in columns.items()}).drop_nulls()


def as_float(value: object, default: float = 0.0) -> float:
    """A number that polars found, such as a minimum; of no rows it finds none.

    >>> as_float(3), as_float(None)
    (3.0, 0.0)
    """
    return float(value) if isinstance(value, (int, float)) else default


_UNITS = {
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
    "bit/s": ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
}


def readable(largest: object, unit: str) -> tuple[float, str]:
    """The divisor and the unit in which numbers up to ``largest``, in one of these units, read well.

    >>> readable(12_000_000, "bytes"), readable(None, "ns")
    ((1000000.0, 'MB'), (1.0, 'ns'))
    """
    units = _UNITS[unit]
    return next((one for one in units if as_float(largest) >= 2 * one[0]), units[-1])


def layer(name: str, style: str, mark: Mark, data: pl.DataFrame, rare: bool = False, *, stretch: bool = True) -> Layer:
    """Marks of a meaning that `theme.STYLES` knows; of clouds one sees through the points."""
    own = STYLES[style]
    if mark == "points" and not rare:
        own = replace(own, opacity=0.6)
    if mark == "spans":
        own = replace(own, width=own.width * 1.5)
    return Layer(name, own, mark, data, rare, stretch)


def rule(name: str, style: str, height: float) -> Layer:
    """A line across the panel at one height."""
    return layer(name, style, "rule", pl.DataFrame({"y": [height]}))


def marks(
    name: str,
    style: str,
    mark: Mark,
    rows: pl.DataFrame,
    y: pl.Expr,
    x: pl.Expr = TIMES,
    *,
    rare: bool = False,
    stretch: bool = True,
    **ends: pl.Expr,
) -> Layer:
    """A mark for each row in which its places are known; ``x2`` and ``y2`` are further ``ends``."""
    return layer(name, style, mark, points(rows, x, y, **ends), rare, stretch=stretch)


def lost_packets(segments: pl.DataFrame, y: pl.Expr) -> Layer:
    """A cross for each lost packet, which no chart may thin away."""
    return marks("lost packet", "lost", "points", segments.filter(pl.col("fate") == "lost"), y, rare=True)


def over_time(
    scene: Scene, key: str, title: str, y: Axis, layers: Sequence[Layer], see: str, *, x: Axis = TIME
) -> Figure:
    """A chart of one flow over time."""
    return Figure(key, title, scene.flow.flow, (Panel(x, y, present(layers), zoom="time"),), see=see)


def present(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The layers that have anything to show; one that lies wholly above what the others span would only confuse."""
    filled = [layer for layer in layers if not layer.data.is_empty()]
    _, highest = span(layer.data["y"] for layer in filled if layer.stretch)
    return tuple(layer for layer in filled if layer.stretch or span([layer.data["y"]])[0] <= highest)


# Long enough for a loss, its detection and its repair, with a little before and after.
_ROUND_TRIPS = 8
_SHORTEST_S = 0.02
# Where the whole flow is no longer than this many times the window, the whole shows as much.
_WORTH_IT = 3.0


def cut(panel: Panel, window: Ends) -> Panel:
    """The part of a panel within a window of time; limits, which are at no time, stay."""
    within = pl.col("x").is_between(*window)
    layers = [
        layer if layer.mark == "rule" else replace(layer, data=layer.data.filter(within)) for layer in panel.layers
    ]
    return replace(panel, layers=present(layers))


def needed(window: Ends | None, flow: str) -> Ends:
    """The window, if there is use in one.

    Raises:
        NothingToDraw: there is none.
    """
    if window is None:
        raise NothingToDraw(f"{flow}: nothing was lost, or the whole flow is as short as a close-up")
    return window


def heaviest(scene: Scene) -> Ends | None:
    """Start and end (s) of the interval with most losses; ``None`` where there is no use in one."""
    return window_of(scene.segments, scene.lost["t"], scene.flow.rtt_min_s)


def window_of(packets: pl.DataFrame, lost_at: pl.Series, rtt_s: float | None) -> Ends | None:
    """The same of any packets with their times ``t``."""
    length = max((rtt_s or 0.0) * _ROUND_TRIPS, _SHORTEST_S)
    times = lost_at.sort()
    last = packets["t"].max()
    if times.is_empty() or not isinstance(last, float) or last < length * _WORTH_IT:
        return None
    # How many losses the inner half of an interval that begins just before this one holds.
    following = times.search_sorted(times + length / 2, side="right").cast(pl.Int64)
    held = following - pl.int_range(0, len(times), eager=True)
    best = held.arg_max() or 0
    start = max(0.0, float(times[best]) - length / 4)
    return start, start + length
