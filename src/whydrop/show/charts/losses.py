"""Losses by what was sent just before them: in bursts, or in the last round trip."""

from __future__ import annotations

import polars as pl

from whydrop.explaining import bursts
from whydrop.show.charts.scene import Scene, as_float, layer, present, readable
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel
from whydrop.text import quantities

_BARS = 40
# Where one burst holds more than this share of the packets, the sender as good as never pauses.
_LARGEST_BURST = 0.25
# The share lost of fewer packets than this is chance.
_FEWEST_PACKETS = 10

_COLUMNS = ("x", "x2", "y", "y2")
_BYTES = pl.col("ip_bytes").cast(pl.Int64)

SEE_BURSTS = (
    "Packets are sent in bursts. Each bar covers packets at one place in their burst, counted in bytes sent "
    "before them, and shows how many of them were lost. A policer spares the start of a burst and drops what "
    "follows once its bucket is empty; a bad link drops anywhere."
)
SEE_ROUND_TRIP = (
    "Each bar covers the packets before which the same amount of data was sent in one round-trip time, and shows how "
    "many of them were lost. Losses only at the right: packets are lost only after much data, as in a full queue or a "
    "policer. Losses everywhere: a bad link."
)


def burst(scene: Scene) -> Figure:
    """Draw the share of packets lost by what was sent just before them."""
    scene.need_segments()
    if scene.lost.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: nothing was lost")
    gap_s = bursts.gap_s(scene.flow.rtt_min_s)
    every = bursts.numbered(scene.segments, gap_s)
    numbered = bursts.without_unplaced(every)
    unplaced = every.height - numbered.height
    if unplaced == scene.lost.height:
        raise NothingToDraw(f"{scene.flow.flow}: captured behind its losses, which lie between bursts")
    note = None
    if _largest(numbered) <= _LARGEST_BURST:
        placed = numbered.select(place=(_BYTES.cum_sum() - _BYTES).over("burst"), lost=pl.col("fate") == "lost")
        title, see = "Where in a burst packets were lost", SEE_BURSTS
        sent = "Sent before in the same burst ({}; a pause of " + quantities.duration(gap_s) + " ends a burst)"
        note = bursts.onset_in_words(bursts.each(numbered))
    else:
        span_s = max(scene.flow.rtt_min_s or 0.0, bursts.SHORTEST_GAP_S)
        placed = _in_round_trip(numbered, span_s)
        title, see = "How much was sent just before packets were lost", SEE_ROUND_TRIP
        sent = "Sent in the round-trip time (" + quantities.duration(span_s) + ") before the packet ({})"
    bars = _bars(placed)
    scale, unit = readable(bars["x2"].max(), "bytes")
    bars = bars.with_columns(pl.col("x", "x2") / scale)
    few = pl.col("sent") < _FEWEST_PACKETS
    layers = [
        layer(f"of fewer than {_FEWEST_PACKETS} packets", "few-bar", "bars", bars.filter(few).select(_COLUMNS)),
        layer("share of packets lost", "lost-bar", "bars", bars.filter(~few).select(_COLUMNS)),
    ]
    panel = Panel(Axis(sent.format(unit)), Axis("Packets lost (% of sent)", from_zero="always"), present(layers))
    pale = "" if bars.filter(few).is_empty() else " Pale bars are based on few packets."
    return Figure("burst", title, scene.flow.flow, (panel,), see=see + pale).noted(note).noted(_unplaced(unplaced))


def _unplaced(number: int) -> str | None:
    """Losses that are left out, since the capture lacks them and they lie between two bursts."""
    if not number:
        return None
    packets, either = quantities.plural(number, "lost packet"), "which is" if number == 1 else "which are"
    return (
        f"Captured behind the losses: {packets} between two bursts, {either} the end of the one or the start of the "
        "other, not counted here."
    )


def _largest(numbered: pl.DataFrame) -> float:
    """The share of the packets that the largest burst has: where it is large, the sender hardly pauses."""
    return as_float(numbered["burst"].value_counts()["count"].max()) / numbered.height


def _in_round_trip(segments: pl.DataFrame, rtt_s: float) -> pl.DataFrame:
    """``place``: bytes sent in the round-trip time before each packet."""
    total = segments.select("t", total=_BYTES.cum_sum(), own=_BYTES, lost=pl.col("fate") == "lost")
    start = total.select(t=pl.col("t") - rtt_s)
    until = start.join_asof(total.select("t", "total"), on="t")["total"].fill_null(0)
    return total.select(place=(pl.col("total") - pl.col("own") - until).clip(0), lost="lost")


def _bars(placed: pl.DataFrame) -> pl.DataFrame:
    """Equal bins up to the largest place; the share lost in each, in per cent."""
    width = max((as_float(placed["place"].max()) + 1) / _BARS, 1.0)
    bins = placed.group_by((pl.col("place") / width).floor().alias("bin")).agg(lost=pl.col("lost").sum(), sent=pl.len())
    return bins.sort("bin").select(
        x=pl.col("bin") * width,
        x2=(pl.col("bin") + 1) * width,
        y=pl.col("lost") / pl.col("sent") * 100,
        y2=0.0,
        sent=pl.col("sent"),
    )
