"""One flow at both points: which byte passed where and when, and which packets vanished between."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from whydrop.show.charts import loss_burst
from whydrop.show.charts.pair_scene import Direction, PairScene, lost, matched, offloaded
from whydrop.show.charts.scene import byte_unit, layer, points, present
from whydrop.show.figure import Axis, Figure, Layer, NothingToDraw, Panel
from whydrop.text import quantities

SEE = (
    "Each packet is a dot where it passed the first point and a diamond where it passed the second; the thin line "
    "between them is its transit time. Lines that grow longer show a queue that fills; lines of constant length "
    "show that nothing queues. A cross is a packet that never came to the second point."
)


def figure(scene: PairScene) -> Figure:
    """Draw sequence number against time at both points."""
    if scene.own.is_empty():
        raise NothingToDraw(f"{scene.scene.flow.flow}: no data of this flow passed both captures")
    return _figure(scene, scene.own)


def close_up_figure(scene: PairScene) -> Figure:
    """Draw sequence number against time at both points around the most losses."""
    if lost(scene.own).is_empty():
        raise NothingToDraw(f"{scene.scene.flow.flow}: nothing was lost between the captures")
    whole = _figure(scene, loss_burst.heaviest(scene.own))
    panels = tuple(replace(panel, y=replace(panel.y, from_zero="never")) for panel in whole.panels)
    return replace(whole, key="crossings-close-up", title=f"{whole.title}: the heaviest loss", panels=panels)


def _figure(scene: PairScene, rows: pl.DataFrame) -> Figure:
    start, end = scene.ends(_direction(rows))
    last = rows.select((pl.col("sequence") + pl.col("payload_bytes")).max()).item()
    scale, unit = byte_unit(float(last))
    middle = (pl.col("sequence") + pl.col("payload_bytes") / 2) / scale
    arrival = pl.col("t") + pl.col("transit_ns") / 1e9
    both = matched(rows)
    repeated = rows.filter(pl.col("retransmission"))
    layers = [
        layer("in transit", "on-the-way", "slants", points(both, pl.col("t"), middle, x2=arrival, y2=middle)),
        # The smaller dots on the larger diamonds: seen from far both lie at one place.
        layer(f"at {end}", "point-2", "points", points(both.sort(arrival), arrival, middle)),
        layer(f"at {start}", "point-1", "points", points(rows, pl.col("t"), middle)),
        layer("retransmitted", "after-gap", "points", points(repeated, pl.col("t"), middle), rare=True),
        *_missed(rows, middle),
        layer("lost packet", "lost", "points", points(lost(rows), pl.col("t"), middle), rare=True),
    ]
    return Figure(
        "crossings",
        f"{_lost_of(lost(scene.own).height, scene.own.height)} between {start} and {end}",
        scene.scene.flow.flow,
        (
            Panel(
                Axis("Time since the flow's first data packet (s)"),
                Axis(f"Sequence number ({unit})", from_zero="always"),
                present(layers),
                zoom="time",
            ),
        ),
        see=SEE + offloaded(rows),
    )


def _direction(rows: pl.DataFrame) -> Direction:
    return "2-to-1" if rows["direction"].eq("2-to-1").sum() * 2 > rows.height else "1-to-2"


def _missed(rows: pl.DataFrame, y: pl.Expr) -> list[Layer]:
    missed = rows.filter(pl.col("crossing").is_in(["missed-downstream", "missed-upstream"]))
    return [layer("missed by one capture only", "missed", "points", points(missed, pl.col("t"), y), rare=True)]


def _lost_of(gone: int, sent: int) -> str:
    if not gone:
        return f"None of {quantities.count(sent)} packets was lost"
    verb = "was" if gone == 1 else "were"
    return f"{quantities.count(gone)} of {quantities.count(sent)} packets {verb} lost"
