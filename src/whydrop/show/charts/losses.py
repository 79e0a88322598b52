"""Marks that several charts share: lost packets and retransmissions, which no chart may thin away."""

from __future__ import annotations

import polars as pl

from whydrop.show.charts.scene import layer, points
from whydrop.show.figure import Layer

# The kind in the segment table, the name in the legend, the style.
RETRANSMISSIONS = (
    ("fast", "fast retransmission", "fast"),
    ("timeout", "retransmission after a timeout", "timeout"),
    ("tail-loss-probe", "tail-loss probe", "probe"),
    ("other", "other retransmission", "other"),
)


def lost(frame: pl.DataFrame, y: pl.Expr) -> Layer:
    """A cross for each lost packet."""
    rows = frame.filter(pl.col("fate") == "lost")
    return layer("lost packet", "lost", "points", points(rows, pl.col("t"), y), rare=True)


def retransmissions(frame: pl.DataFrame, y: pl.Expr) -> list[Layer]:
    """A mark for each retransmission, by what started it; those of data that had arrived get one of their own."""
    layers = [
        layer(name, style, "points", points(frame.filter(pl.col("kind") == kind), pl.col("t"), y), rare=True)
        for kind, name, style in RETRANSMISSIONS
    ]
    spurious = points(frame.filter(pl.col("spurious")), pl.col("t"), y)
    layers.append(layer("needless (spurious) retransmission", "spurious", "points", spurious, rare=True))
    return layers


def rug(frame: pl.DataFrame, height: float) -> Layer:
    """A cross on the base line at the time of each lost packet, for charts without a y value of losses."""
    return lost(frame, pl.lit(height))
