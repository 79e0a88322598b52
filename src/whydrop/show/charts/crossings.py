"""Packets between one capture and the other: those of one flow by their bytes, and a burst line by line."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from whydrop.show.charts.pair_scene import PairScene, lost, matched, offloaded
from whydrop.show.charts.scene import as_float, marks, present, readable
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel
from whydrop.text import quantities

SEE = (
    "Each packet is a dot where it passed the first point and a diamond where it passed the second; the thin line "
    "between them is its transit time. Lines that grow longer show a queue that fills; lines of constant length "
    "show that nothing queues. A cross is a packet that never came to the second point."
)
SEE_BURST = (
    "Each line is one packet from one capture (upper edge) to the other (lower edge); a steep line is a "
    "fast one. A cross is a packet that never arrived. Lines that lean more and more show a queue that fills before "
    "packets are lost; lines that stay parallel show that nothing queued, as with a policer."
)

# So many lines can be distinguished on a page, with some before and after the losses for comparison.
_PACKETS = 72
_AROUND = 16
# Where the shortest transit is longer than this share of the picture, all lines would lie nearly flat.
_FLAT = 0.3
_VANISHED_AT = 0.45


def crossings(scene: PairScene) -> Figure:
    """Draw sequence number against time at both points."""
    if scene.own.is_empty():
        raise NothingToDraw(f"{scene.scene.flow.flow}: no data of this flow passed both captures")
    return _crossings(scene, scene.own)


def crossings_close_up(scene: PairScene) -> Figure:
    """Draw sequence number against time at both points around the most losses."""
    if lost(scene.own).is_empty():
        raise NothingToDraw(f"{scene.scene.flow.flow}: nothing was lost between the captures")
    whole = _crossings(scene, heaviest(scene.own))
    panels = tuple(replace(panel, y=replace(panel.y, from_zero="never")) for panel in whole.panels)
    return replace(whole, key="crossings-close-up", title=f"{whole.title}: the heaviest loss", panels=panels)


def _crossings(scene: PairScene, rows: pl.DataFrame) -> Figure:
    backwards = rows["direction"].eq("2-to-1").sum() * 2 > rows.height
    start, end = scene.ends("2-to-1" if backwards else "1-to-2")
    last = rows.select((pl.col("sequence") + pl.col("payload_bytes")).max()).item()
    scale, unit = readable(last, "bytes")
    middle = (pl.col("sequence") + pl.col("payload_bytes") / 2) / scale
    arrival = pl.col("t") + pl.col("transit_ns") / 1e9
    both = matched(rows)
    missed = rows.filter(pl.col("crossing").is_in(["missed-downstream", "missed-upstream"]))
    layers = [
        marks("in transit", "on-the-way", "slants", both, middle, x2=arrival, y2=middle),
        # The smaller dots on the larger diamonds: seen from far both lie at one place.
        marks(f"at {end}", "point-2", "points", both.sort(arrival), middle, arrival),
        marks(f"at {start}", "point-1", "points", rows, middle),
        marks("retransmitted", "after-gap", "points", rows.filter("retransmission"), middle, rare=True),
        marks("missed by one capture only", "missed", "points", missed, middle, rare=True),
        marks("lost packet", "lost", "points", lost(rows), middle, rare=True),
    ]
    x = Axis("Time since the flow's first data packet (s)")
    y = Axis(f"Sequence number ({unit})", from_zero="always")
    return Figure(
        "crossings",
        f"{_lost_of(lost(scene.own).height, scene.own.height)} between {start} and {end}",
        scene.scene.flow.flow,
        (Panel(x, y, present(layers), zoom="time"),),
        see=SEE + offloaded(rows),
    )


def _lost_of(gone: int, sent: int) -> str:
    if not gone:
        return f"None of {quantities.count(sent)} packets was lost"
    verb = "was" if gone == 1 else "were"
    return f"{quantities.count(gone)} of {quantities.count(sent)} packets {verb} lost"


def loss_burst(scene: PairScene) -> Figure:
    """Draw the packets around the most losses as lines from point to point."""
    rows = scene.going(scene.lossy).filter(pl.col("crossing").is_in(["matched", "lost"]))
    if lost(rows).is_empty():
        raise NothingToDraw("no packet was lost between the captures")
    start, end = scene.ends(scene.lossy)
    burst = heaviest(rows)
    begin = burst["sent_ns"][0]
    shift_ns, note = _shift(burst)
    at = (pl.col("sent_ns") - begin) / 1e6
    arrival = at + (pl.col("transit_ns") - shift_ns) / 1e6
    here, there, stop = pl.lit(1.0), pl.lit(0.0), pl.lit(1.0 - _VANISHED_AT)
    arrived, gone = matched(burst), lost(burst)
    layers = [
        marks("packet that arrived", "point-1", "slants", arrived, here, at, x2=arrival, y2=there),
        marks("lost between the captures", "lost-on-the-way", "slants", gone, here, at, x2=at, y2=stop),
        marks("lost packet", "lost", "points", gone, stop, at, rare=True),
    ]
    x = Axis(f"Time since the first packet shown (ms{note})")
    y = Axis("", ends=(-0.06, 1.06), words=((1.0, start), (0.0, end)))
    since = quantities.clock((begin - scene.rows["sent_ns"][0]) / 1e9)
    return Figure(
        "loss-burst",
        f"The heaviest burst of losses from {start} to {end}: {quantities.count(gone.height)} of "
        f"{quantities.plural(burst.height, 'packet')}",
        f"from {since} on; {scene.path}",
        (Panel(x, y, present(layers)),),
        see=SEE_BURST + offloaded(burst),
    ).noted(_lengths_in_words(arrived, start, end))


def _lengths_in_words(arrived: pl.DataFrame, start: str, end: str) -> str | None:
    """How long the packets that arrived took to pass each point, from the first to the last."""
    if arrived.height < 2:
        return None
    times = {start: arrived["sent_ns"], end: arrived["sent_ns"] + arrived["transit_ns"]}
    lengths = {point: (as_float(at.max()) - as_float(at.min())) / 1e9 for point, at in times.items()}
    one, other = (f"{quantities.duration(length)} at {point}" for point, length in lengths.items())
    return f"The {quantities.plural(arrived.height, 'packet')} that arrived took {one} and {other}, first to last."


def heaviest(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows from the first to the last loss of the densest interval, and as long again before and after."""
    is_lost = (rows["crossing"] == "lost").cast(pl.Int64)
    held = is_lost.rolling_sum(_PACKETS, min_samples=1)
    last = held.arg_max() or 0
    inside = rows.slice(max(0, last - _PACKETS + 1), min(_PACKETS, last + 1))
    times = lost(inside)["sent_ns"]
    first_lost, last_lost = times[0], times[-1]
    room = max(last_lost - first_lost, 1_000_000)
    before = rows.filter(pl.col("sent_ns").is_between(first_lost - room, first_lost, closed="left")).tail(_AROUND)
    during = rows.filter(pl.col("sent_ns").is_between(first_lost, last_lost))
    after = rows.filter(pl.col("sent_ns").is_between(last_lost, last_lost + room, closed="right")).head(_AROUND)
    return pl.concat([before, during, after])


def _shift(burst: pl.DataFrame) -> tuple[int, str]:
    """The time to subtract from each transit, and how the axis says so."""
    fastest = as_float(matched(burst)["transit_ns"].min())
    length = as_float((burst["sent_ns"] - burst["sent_ns"][0]).max())
    if fastest < _FLAT * length:
        return 0, ""
    # A tenth of the picture is left, so that the lines lean at all.
    shift = int(fastest - length * 0.1)
    return shift, f"; all arrivals are drawn {quantities.duration(shift / 1e9)} early"
