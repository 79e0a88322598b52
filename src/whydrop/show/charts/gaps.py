"""Gaps in the data that a receiver has: drawn over the packets that could have filled them, and the time that took."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl

from whydrop.show.charts.scene import (
    TIME,
    Scene,
    as_float,
    heaviest,
    layer,
    lost_packets,
    marks,
    over_time,
    readable,
    rule,
)
from whydrop.show.figure import Axis, Figure, Layer, NothingToDraw
from whydrop.text import quantities

SEE_RECEIVED = (
    "Acknowledgments are drawn early by the round trip from the capture point, over the packets that they speak of. "
    "Blue marks are packets of data, purple ones data that the receiver reported out of order (SACK), and the green "
    "line is what it has without a gap. A hatched area is data that it still missed; it ends where a retransmission or "
    "a late packet fills the gap."
)
SEE_GAP_TIME = (
    "Each dot is a gap in the data that the receiver had: when its first report came, and how long the gap remained. "
    "Neighbouring data that were filled at different times are several gaps. "
    "One retransmission fills a gap after about one round trip (the dotted line). Much sooner: packets only came out "
    "of order. Much longer: the retransmission was lost too, or the sender waited for a timeout. Meanwhile the "
    "application gets nothing beyond the gap."
)

Floats = npt.NDArray[np.float64]

# Hatching: so many lines across the part that is looked at, and at most so many in one gap.
_LINES_ACROSS = 110
_MOST_LINES = 60


def gaps(scene: Scene) -> pl.DataFrame:
    """Find the gaps in the data that a receiver reported with selective acknowledgments (RFC 2018).

    A gap begins with the first report of data above it. It ends when all of its data are reported, by whatever means.

    Returns:
        ``start``, ``end``: bytes, since the first of the flow; ``opened``, ``filled``: seconds since its first packet,
        when the acknowledgments were captured; ``filled`` is null where the capture ends before.
    """
    first = scene.segments.filter(pl.col("kind") == "new").unique("sequence", keep="first").sort("sequence")
    starts = first["sequence"].to_numpy()
    ends = starts + first["payload_bytes"].to_numpy()
    reported = np.minimum(_acknowledged_at(scene, ends), _selectively_acknowledged_at(scene, starts, ends))
    # The first report of anything above each segment.
    above = np.minimum.accumulate(np.append(reported, math.inf)[:0:-1])[::-1]
    rows = pl.DataFrame({"start": starts, "end": ends, "opened": above, "filled": reported})
    rows = rows.filter(pl.col("opened") < pl.col("filled"))
    own = pl.struct("opened", "filled")
    joins = (pl.col("start") == pl.col("end").shift(1)) & (own == own.shift(1))
    runs = rows.with_columns(run=(~joins.fill_null(False)).cum_sum())
    merged = runs.group_by("run", maintain_order=True).agg(
        pl.col("start").first(), pl.col("end").last(), pl.col("opened", "filled").first()
    )
    is_filled = pl.col("filled").is_finite()
    return merged.drop("run").with_columns(filled=pl.when(is_filled).then("filled")).sort("opened", "start")


def _acknowledged_at(scene: Scene, ends: npt.NDArray[np.int64]) -> Floats:
    """When the cumulative acknowledgment first covered each segment; infinite: never."""
    acks = scene.acks.sort("t")
    reach = acks["acknowledged"].cum_max().to_numpy()
    times = np.append(acks["t"].to_numpy(), math.inf)
    found: Floats = times[np.searchsorted(reach, ends, side="left")]
    return found


def _selectively_acknowledged_at(scene: Scene, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Floats:
    """When a SACK block first covered each segment; infinite: never."""
    sacks = scene.sacks.filter(~pl.col("duplicate")).sort("t", maintain_order=True)
    lows = np.searchsorted(starts, sacks["start"].to_numpy(), side="left")
    highs = np.searchsorted(ends, sacks["end"].to_numpy(), side="right")
    rows = pl.DataFrame({"low": lows, "high": highs, "t": sacks["t"]}).filter(pl.col("low") < pl.col("high"))
    # Blocks are repeated in later acknowledgments: only their first report counts.
    rows = rows.unique(("low", "high"), keep="first", maintain_order=True)
    found = np.full(len(starts), math.inf)
    # The next segment that no block covers yet, from each one on; paths are halved as in a disjoint-set forest.
    following = list(range(len(starts) + 1))
    for low, high, time in rows.iter_rows():
        place = _next(following, low)
        while place < high:
            found[place] = time
            following[place] = place + 1
            place = _next(following, place)
    return found


def _next(following: list[int], place: int) -> int:
    while following[place] != place:
        following[place] = following[following[place]]
        place = following[place]
    return place


def early(scene: Scene, times: pl.Series) -> pl.Series:
    """Move the times of acknowledgments one round trip back, by the round-trip time measured last before each.

    It is that from the capture point to the receiver, so it is short in a capture at the receiver.
    """
    timed = scene.segments.drop_nulls("rtt_ns").select(
        t=pl.col("t") + pl.col("rtt_ns") / 1e9, rtt=pl.col("rtt_ns") / 1e9
    )
    first = timed["rtt"].first()
    rows = times.rename("t").to_frame().with_row_index().sort("t")
    joined = rows.join_asof(timed.sort("t"), on="t", strategy="backward").sort("index")
    # Acknowledgments of nothing that was captured, as in a handshake, are not before the first packet.
    return (joined["t"] - joined["rtt"].fill_null(as_float(first))).clip(lower_bound=0.0)


def received(scene: Scene) -> Figure:
    """Draw what the receiver had at the time of each packet: acknowledgments one round trip early, and gaps hatched."""
    scene.need_segments()
    missing = gaps(scene)
    if scene.sacks.filter(~pl.col("duplicate")).is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: the receiver reported no data out of order (SACK)")
    segments = scene.segments
    end = pl.col("sequence") + pl.col("payload_bytes")
    scale, unit = readable(segments.select(end.max()).item(), "bytes")
    middle = (pl.col("sequence") + pl.col("payload_bytes") / 2) / scale
    acks = scene.acks.filter(pl.col("acknowledged") >= 0)
    acks = acks.with_columns(t=early(scene, acks["t"]))
    sacks = scene.sacks.filter(~pl.col("duplicate"))
    sacks = sacks.with_columns(t=early(scene, sacks["t"]))
    again = segments.filter(pl.col("kind") != "new")
    layers = [
        _hatched(scene, missing, scale),
        marks("received without a gap", "acknowledged", "step", acks, pl.col("acknowledged") / scale),
        marks("data sent", "segment", "spans", segments, pl.col("sequence") / scale, y2=end / scale),
        marks(
            "received out of order (SACK)", "sack", "spans", sacks, pl.col("start") / scale, y2=pl.col("end") / scale
        ),
        marks("retransmission", "fast", "points", again, middle, rare=True),
        lost_packets(segments, middle),
    ]
    y = Axis(f"Sequence number ({unit})", from_zero="whole")
    drawn = over_time(scene, "received", "Data that the receiver had, and missed", y, layers, SEE_RECEIVED)
    return drawn.noted(_in_words(missing))


def _hatched(scene: Scene, missing: pl.DataFrame, scale: float) -> Layer:
    """Slanted lines through each gap, from where it could be known at the receiver to where it was filled."""
    last = as_float(scene.segments["t"].max())
    from_s = early(scene, missing["opened"]).to_numpy()
    until = early(scene, missing["filled"].fill_null(math.inf)).to_numpy()
    until = np.where(np.isfinite(until), until, last)
    low, high = missing["start"].to_numpy() / scale, missing["end"].to_numpy() / scale
    step_s = _looked_at_s(scene) / _LINES_ACROSS
    lines = [
        line
        for left, right, bottom, top in zip(from_s, until, low, high, strict=True)
        if right > left
        for line in _lines(left, right, bottom, top, step_s)
    ]
    data = pl.DataFrame(lines, schema=dict.fromkeys(("x", "y", "x2", "y2"), pl.Float64), orient="row")
    return layer("missing at the receiver", "gap", "slants", data)


def _looked_at_s(scene: Scene) -> float:
    window = heaviest(scene)
    return window[1] - window[0] if window is not None else max(as_float(scene.segments["t"].max()), 1e-6)


def _lines(left: float, right: float, bottom: float, top: float, step_s: float) -> list[tuple[float, ...]]:
    """Lines of hatching in one rectangle: each rises from its bottom to its top over one step."""
    number = min(max(1, math.ceil((right - left) / step_s)), _MOST_LINES)
    width = (right - left) / number
    return [(left + width * place, bottom, left + width * (place + 1), top) for place in range(number)]


def gap_time(scene: Scene) -> Figure:
    """Draw how long each gap in the received data remained."""
    scene.need_segments()
    missing = gaps(scene)
    filled = missing.drop_nulls("filled")
    if filled.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no gap in the received data was reported (SACK) and filled")
    shortest = scene.flow.rtt_min_s
    layers = [
        marks(
            "gap", "point-1", "points", filled, (pl.col("filled") - pl.col("opened")) * 1e3, pl.col("opened"), rare=True
        ),
        *([] if shortest is None else [rule("shortest round-trip time", "limit", shortest * 1e3)]),
    ]
    y = Axis("Time until the gap was filled (ms)", from_zero="always")
    x = Axis(TIME.title)
    title = "How long data were missing at the receiver"
    return over_time(scene, "gap-time", title, y, layers, SEE_GAP_TIME, x=x).noted(_in_words(missing))


def _in_words(missing: pl.DataFrame) -> str:
    """The number of gaps, and how long they remained."""
    if missing.is_empty():
        return "The receiver missed no data while it had later data."
    taken = (missing["filled"] - missing["opened"]).drop_nulls()
    words = [f"{quantities.plural(missing.height, 'gap')} in the received data"]
    if len(taken):
        median, most = (quantities.duration(as_float(time)) for time in (taken.median(), taken.max()))
        words.append(f"filled after {most}" if len(taken) == 1 else f"filled after {median} (median), {most} at most")
    if open_ones := missing.height - len(taken):
        words.append(f"{quantities.count(open_ones)} not filled before the capture ends")
    return "; ".join(words) + "."
