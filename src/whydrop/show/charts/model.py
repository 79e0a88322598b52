"""The fitted model replayed: how full its bucket or its queue was, which packets it drops, which were lost."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from whydrop.explaining import parameters
from whydrop.show.charts.scene import TIME, Scene, byte_unit, layer, points, present, rule
from whydrop.show.figure import Axis, Figure, Layer, NothingToDraw, Panel


@dataclass(frozen=True)
class _Kind:
    title: str
    level: str
    axis: str
    see: str


_BUCKET = _Kind(
    "The policer's bucket, replayed",
    "tokens in the bucket",
    "Bucket fill",
    "The line is the number of tokens in the policer's bucket: each packet uses some, and time refills it. When the "
    "bucket is empty, packets are dropped. A cross is a loss that this model predicts and the capture shows; rings "
    "and triangles are where the two disagree, so few of them means a good explanation.",
)
_QUEUE = _Kind(
    "The queue, replayed",
    "bytes queued",
    "Queue depth",
    "The line is the amount of data in the queue. When it reaches the limit of the queue, packets are dropped. A "
    "cross is a loss that this model predicts and the capture shows; rings and triangles are where the two disagree, "
    "so few of them means a good explanation.",
)


def figure(scene: Scene) -> Figure:
    """Draw the level of the winning model over time, with drops predicted and losses seen."""
    if scene.verdict is None or scene.model.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no verdict with a model of the path concerns this flow")
    kind = _BUCKET if scene.verdict.cause == "policer" else _QUEUE
    largest = scene.model["level_bytes"].max()
    scale, unit = byte_unit(float(largest) if isinstance(largest, float) else 0.0)
    level = pl.col("level_bytes") / scale
    predicted, seen = pl.col("predicted_drop"), pl.col("seen_lost")

    def where(condition: pl.Expr) -> pl.DataFrame:
        return points(scene.model.filter(condition), pl.col("t"), level)

    layers = [
        layer(kind.level, "level", "line", points(scene.model, pl.col("t"), level)),
        *_limit(scene, scale),
        layer("drop predicted, packet arrived", "predicted", "points", where(predicted & ~seen), rare=True),
        layer("packet lost, not predicted", "unpredicted", "points", where(~predicted & seen), rare=True),
        layer("drop predicted and packet lost", "lost", "points", where(predicted & seen), rare=True),
    ]
    return Figure(
        "model",
        kind.title if scene.verdict_flows == 1 else f"{kind.title} over {scene.verdict_flows} flows",
        scene.flow.flow,
        (Panel(TIME, Axis(f"{kind.axis} ({unit})", from_zero="always"), present(layers), zoom="time"),),
        see=kind.see,
    )


def _limit(scene: Scene, scale: float) -> list[Layer]:
    for name in ("burst_bytes", "limit_bytes"):
        value = scene.parameter(name)
        if value is not None:
            label, write = parameters.parameter_words(name)
            return [rule(f"{label}: {write(value)}", "limit", value / scale)]
    return []
