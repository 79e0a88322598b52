"""The heaviest burst of losses, packet by packet: each a line from one point of the path to the other."""

from __future__ import annotations

import polars as pl

from whydrop.show.charts.pair_scene import PairScene, lost, matched, offloaded
from whydrop.show.charts.scene import as_float, layer, points, present
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel
from whydrop.text import quantities

# So many lines can be distinguished on a page, with some before and after the losses for comparison.
_PACKETS = 72
_AROUND = 16
# Where the shortest transit is longer than this share of the picture, all lines would lie nearly flat.
_FLAT = 0.3
_VANISHED_AT = 0.45

SEE = (
    "Each line is one packet from one capture (upper edge) to the other (lower edge); a steep line is a "
    "fast one. A cross is a packet that never arrived. Lines that lean more and more show a queue that fills before "
    "packets are lost; lines that stay parallel show that nothing queued, as with a policer."
)


def figure(scene: PairScene) -> Figure:
    """Draw the packets around the most losses as lines from point to point."""
    going = scene.going(scene.lossy)
    rows = going.filter(pl.col("crossing").is_in(["matched", "lost"]))
    if lost(rows).is_empty():
        raise NothingToDraw("no packet was lost between the captures")
    start, end = scene.ends(scene.lossy)
    burst = heaviest(rows)
    begin = burst["sent_ns"][0]
    shift_ns, note = _shift(burst)
    at = (pl.col("sent_ns") - begin) / 1e6
    arrival = at + (pl.col("transit_ns") - shift_ns) / 1e6
    here, there = pl.lit(1.0), pl.lit(0.0)
    stop = pl.lit(1.0 - _VANISHED_AT)
    arrived, gone = matched(burst), lost(burst)
    layers = [
        layer("packet that arrived", "point-1", "slants", points(arrived, at, here, x2=arrival, y2=there)),
        layer("lost between the captures", "lost-on-the-way", "slants", points(gone, at, here, x2=at, y2=stop)),
        layer("lost packet", "lost", "points", points(gone, at, stop), rare=True),
    ]
    return Figure(
        "loss-burst",
        f"The heaviest burst of losses from {start} to {end}: {quantities.count(gone.height)} of "
        f"{quantities.count(burst.height)} packets",
        f"from {_clock(scene, begin)}",
        (
            Panel(
                Axis(f"Time since the first packet shown (ms{note})"),
                Axis("", ends=(-0.06, 1.06), words=((1.0, start), (0.0, end))),
                present(layers),
            ),
        ),
        see=SEE + offloaded(burst),
    )


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


def _clock(scene: PairScene, begin_ns: int) -> str:
    return f"{(begin_ns - scene.rows['sent_ns'][0]) / 1e9:.6f} s on; {scene.path}"
