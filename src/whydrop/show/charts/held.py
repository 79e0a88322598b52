"""The limiter of a sender at each moment: a lane for each."""

from __future__ import annotations

import polars as pl

from whydrop.show.charts import losses
from whydrop.show.charts.scene import Scene, layer, points, present
from whydrop.show.figure import Axis, Figure, NothingToDraw, Panel
from whydrop.text import quantities

SEE = (
    "Each row is one limit of the sender, and its bars show when that limit applied. The limit that applied longest is "
    "on top. A bar in the row of the congestion window: the path sets the rate. A bar in any other row: the named "
    "limit sets it."
)

_SPANS = {"from": pl.Float64, "until": pl.Float64, "limiter": pl.String}


def figure(scene: Scene) -> Figure:
    """Draw the account of the flow's time."""
    scene.need_segments()
    limits = scene.flow.limits
    if not limits or not limits["spans"]:
        raise NothingToDraw(
            f"{scene.flow.flow}: the capture holds no acknowledgments, so the sender's limits are unknown"
        )
    shares: dict[str, float] = limits["shares"]
    lanes = {name: float(lane) for lane, name in enumerate(sorted(shares, key=lambda name: shares[name]))}
    spans = pl.DataFrame(limits["spans"], schema=_SPANS, orient="row").with_columns(
        pl.col("from", "until") - scene.origin_s,
        y=pl.col("limiter").replace_strict(lanes, default=None, return_dtype=pl.Float64),
    )
    bars = points(spans, pl.col("from"), pl.col("y"), x2=pl.col("until"), y2=pl.col("y"))
    return Figure(
        "held",
        "The limit of the sender, at each moment",
        scene.flow.flow,
        (
            Panel(
                Axis("Time since the flow's first packet (s), on the sender's clock"),
                Axis(
                    "Limiter (share of the time)",
                    ends=(-0.8, len(lanes) - 0.4),
                    words=tuple(
                        (lane, f"{name.replace('-', ' ')} {quantities.percent(shares[name])}")
                        for name, lane in lanes.items()
                    ),
                ),
                present([layer("limited by", "held", "slants", bars, rare=True), losses.rug(scene.segments, -0.5)]),
                zoom="time",
            ),
        ),
        see=SEE,
    )
