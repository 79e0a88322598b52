"""The model that won beside the best one that lost, replayed over the same packets: drops, and times waited."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from whydrop.explaining.document import Model
from whydrop.show.charts import close_up
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import TIME, Scene, as_float, byte_unit, layer, points, present, rule
from whydrop.show.charts.transit import time_unit
from whydrop.show.figure import Axis, Ends, Figure, NothingToDraw, Panel, padded
from whydrop.text import quantities

SEE = (
    "Both models were given the same packets. Above: the line is the content of the model's bucket or queue. A cross "
    "is a drop that it predicts and that happened; triangles and rings are wrong predictions. Below: the delay that "
    "the model predicts for each packet against its measured delay; on the dashed line both are equal. The right model "
    "has few triangles and rings, and its dots are near the line."
)


def figure(scene: PairScene) -> Figure:
    """Draw level, drops and waits of the winner on the left, of the best loser on the right."""
    one = scene.scene
    winner, rival = _roles(one)
    width = max(as_float(frame["t"].max()) for frame in (one.model, one.rival))
    levels = _same_axes([_level(one.model, winner), _level(one.rival, rival)], (0.0, width))
    waits = _waits(one, winner, rival)
    return Figure(
        key="models",
        title=_title(winner, rival),
        subtitle=one.flow.flow if one.verdict_flows == 1 else f"over {one.verdict_flows} flows",
        see=SEE,
        panels=(*levels, *waits),
        columns=2,
    )


def close_up_figure(scene: PairScene) -> Figure:
    """Draw the same around the most losses; the waits are those of all packets."""
    one = scene.scene
    whole = figure(scene)
    lost = one.model.filter("seen_lost")["t"]
    window = close_up.window_of(one.model, lost, one.flow.rtt_min_s)
    if window is None:
        raise NothingToDraw(f"{one.flow.flow}: nothing was lost, or the whole flow is as short as a close-up")
    levels = [close_up.cut(panel, window) for panel in whole.panels[:2]]
    panels = (*_same_axes(levels, window), *whole.panels[2:])
    return replace(whole, key="models-close-up", title=f"{whole.title} (close up)", panels=panels)


def _roles(scene: Scene) -> tuple[Model, Model]:
    models = () if scene.verdict is None else scene.verdict.models
    winner = next((model for model in models if model.role == "winner"), None)
    rival = next((model for model in models if model.role == "rival"), None)
    if winner is None or rival is None or scene.model.is_empty() or scene.rival.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no two models were replayed over its packets")
    return winner, rival


def _title(winner: Model, rival: Model) -> str:
    drops = (
        f"The winner drops {quantities.count(winner.hits)} of the {quantities.count(winner.lost)} lost packets and "
        f"{_others(winner)}, the best loser {quantities.count(rival.hits)} and {_others(rival)}"
    )
    return f"{drops}{_holds(winner, rival)}"


def _others(model: Model) -> str:
    wrong = model.dropped - model.hits
    return f"{quantities.count(wrong)} others" if wrong != 1 else "1 other"


def _holds(winner: Model, rival: Model) -> str:
    """The error of the loser's waits, where they distinguish it."""
    longest, seen = rival.longest_wait_s, rival.seen_longest_wait_s
    if longest is not None and seen is not None and longest > 2 * seen:
        return (
            f"; it would hold packets for up to {quantities.duration(longest)}: the longest wait seen is "
            f"{quantities.duration(seen)}"
        )
    right, wrong = winner.wait_error_s, rival.wait_error_s
    if right is not None and wrong is not None and wrong > 2 * right:
        off, least = quantities.duration(wrong), quantities.duration(right)
        return f"; its waits are off by {off} (median), those of the winner by {least}"
    if longest == 0 and seen:
        return f"; it delays nothing: the longest wait seen is {quantities.duration(seen)}"
    return ""


def _level(rows: pl.DataFrame, model: Model) -> Panel:
    scale, unit = byte_unit(as_float(rows["level_bytes"].max()))
    level = pl.col("level_bytes") / scale
    predicted, seen = pl.col("predicted_drop"), pl.col("seen_lost")

    def where(condition: pl.Expr) -> pl.DataFrame:
        return points(rows.filter(condition), pl.col("t"), level)

    what = "tokens in the bucket" if model.element == "policer" else "bytes queued"
    layers = [
        layer(what, "level", "line", points(rows, pl.col("t"), level)),
        layer("wrong: predicted, but arrived", "predicted", "points", where(predicted & ~seen), rare=True),
        layer("wrong: lost, not predicted", "unpredicted", "points", where(~predicted & seen), rare=True),
        layer("right: predicted and lost", "lost", "points", where(predicted & seen), rare=True),
    ]
    if model.limit_bytes is not None:
        layers.insert(1, rule(f"limit: {quantities.size(model.limit_bytes)}", "limit", model.limit_bytes / scale))
    return Panel(
        TIME,
        Axis(f"{'Bucket fill' if model.element == 'policer' else 'Queue depth'} ({unit})", from_zero="always"),
        present(layers),
        zoom="time",
        title=_heading(model),
    )


def _heading(model: Model) -> str:
    return f"{'Won' if model.role == 'winner' else 'Ruled out'}: {model.title}"


def _same_axes(both: list[Panel], window: Ends) -> list[Panel]:
    """The same window of time; the same height too where both are in one unit."""
    both = [replace(panel, x=replace(panel.x, ends=padded(window, 0.01))) for panel in both]
    unit = {panel.y.title.partition("(")[2] for panel in both}
    if len(unit) > 1:
        return both
    top = max(1.0, *(panel.y_ends()[1] for panel in both))
    return [replace(panel, y=replace(panel.y, ends=(0.0, top))) for panel in both]


def _waits(scene: Scene, winner: Model, rival: Model) -> list[Panel]:
    """Predicted waits against those seen; none where either model predicts none."""
    known = pl.col("wait_ns").is_not_null() & pl.col("seen_wait_ns").is_not_null()
    frames = [frame.filter(known) for frame in (scene.model, scene.rival)]
    if any(frame.is_empty() for frame in frames):
        return []
    longest = max(_longest(frame) for frame in frames) or 1.0
    scale, unit = time_unit(longest / 1e9)
    panels = [
        _wait(frame, model, longest / scale, (scale, unit))
        for frame, model in zip(frames, (winner, rival), strict=True)
    ]
    top = longest / scale * 1.05
    # From a little below zero, so that dots on the axis are seen; equal axes, so that the eye compares both.
    span = (-0.03 * top, top)
    return [replace(panel, x=replace(panel.x, ends=span), y=replace(panel.y, ends=span)) for panel in panels]


def _wait(frame: pl.DataFrame, model: Model, top: float, in_unit: tuple[float, str]) -> Panel:
    scale, unit = in_unit
    held = points(frame.sort("seen_wait_ns"), pl.col("seen_wait_ns") / scale, pl.col("wait_ns") / scale)
    same = pl.DataFrame({"x": [0.0], "y": [0.0], "x2": [top], "y2": [top]})
    error = "" if model.wait_error_s is None else f"; median error {quantities.duration(model.wait_error_s)}"
    return Panel(
        Axis(f"Seen: longer than the fastest by ({unit})"),
        Axis(f"Predicted ({unit})", from_zero="always"),
        present(
            [
                layer("both the same", "limit", "slants", same, stretch=False),
                layer("packet", "segment", "points", held),
            ]
        ),
        title=f"Predicted and seen waits{error}",
    )


def _longest(frame: pl.DataFrame) -> float:
    return as_float(frame.select(pl.max_horizontal("wait_ns", "seen_wait_ns").max()).item())
