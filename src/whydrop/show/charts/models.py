"""Fitted models replayed over the packets: what is in the bucket or the queue, drops, and times waited."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from whydrop.explaining import parameters
from whydrop.explaining.document import Model
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import (
    TIME,
    Scene,
    as_float,
    cut,
    heaviest,
    layer,
    marks,
    needed,
    over_time,
    present,
    readable,
    rule,
    window_of,
)
from whydrop.show.figure import Axis, Ends, Figure, NothingToDraw, Panel, padded
from whydrop.text import quantities

_DROPS = (
    "packets are dropped. A cross is a loss that this model predicts and the capture shows; rings and triangles are "
    "where the two disagree, so few of them means a good explanation."
)
SEE_BUCKET = (
    "The line is the number of tokens in the policer's bucket: each packet uses some, and time refills it. When the "
    f"bucket is empty, {_DROPS}"
)
SEE_QUEUE = f"The line is the amount of data in the queue. When it reaches the limit of the queue, {_DROPS}"
SEE = (
    "Both models were given the same packets. Above: the line is the content of the model's bucket or queue. A cross "
    "is a drop that it predicts and that happened; triangles and rings are wrong predictions. Below: the delay that "
    "the model predicts for each packet against its measured delay; on the dashed line both are equal. The right model "
    "has few triangles and rings, and its dots are near the line."
)

_STANDING = {"winner": "Won", "given": "Yours"}

# What the legend calls a drop that did not happen, a loss that is not predicted, and one that is.
_ALONE = ("drop predicted, packet arrived", "packet lost, not predicted", "drop predicted and packet lost")
_COMPARED = ("wrong: predicted, but arrived", "wrong: lost, not predicted", "right: predicted and lost")


def model(scene: Scene) -> Figure:
    """Draw the level of the winning model over time, with drops predicted and losses seen."""
    given = _given(scene)
    if scene.verdict is None or (scene.model.is_empty() and given is None):
        raise NothingToDraw(f"{scene.flow.flow}: no verdict with a model of the path concerns this flow")
    alone = scene.model.is_empty()
    policed = given.element == "policer" if alone and given is not None else scene.verdict.cause == "policer"
    named = ((name, scene.parameter(name)) for name in ("burst_bytes", "limit_bytes"))
    limit = next(((_limit(name, value), value) for name, value in named if value is not None), None)
    panels = [] if alone else [_level(scene.model, policed, _ALONE, limit)]
    if given is not None:
        panels.append(_of_model(scene.rival, given, _ALONE))
    title = "Your model" if alone else "The policer's bucket" if policed else "The queue"
    title += ", replayed"
    flows = scene.rival["flow"].n_unique() if alone else scene.verdict_flows
    if flows != 1:
        title += f" over {quantities.plural(flows, 'flow')}"
    first = panels[0]
    figure = over_time(scene, "model", title, first.y, first.layers, SEE_BUCKET if policed else SEE_QUEUE)
    return replace(figure, panels=(*figure.panels, *panels[1:]))


def model_close_up(scene: Scene) -> Figure:
    """Draw the level of the winning model around the most losses."""
    whole = model(scene)
    window = needed(heaviest(scene), scene.flow.flow)
    panels = tuple(cut(panel, window) for panel in whole.panels)
    return replace(whole, key="model-close-up", title=f"{whole.title}, close up", panels=panels)


def _given(scene: Scene) -> Model | None:
    """The first model of the user."""
    models = () if scene.verdict is None else scene.verdict.models
    return next((model for model in models if model.role == "given"), None)


def _limit(name: str, value: float) -> str:
    label, write = parameters.parameter_words(name)
    return f"{label}: {write(value)}"


def _level(
    rows: pl.DataFrame, policed: bool, outcomes: tuple[str, str, str], limit: tuple[str, float] | None, title: str = ""
) -> Panel:
    """The level of a model, with its limit (words and bytes), and where it is wrong and right about drops."""
    scale, unit = readable(rows["level_bytes"].max(), "bytes")
    level, predicted, seen = pl.col("level_bytes") / scale, pl.col("predicted_drop"), pl.col("seen_lost")
    kinds = zip(
        outcomes,
        ("predicted", "unpredicted", "lost"),
        (predicted & ~seen, ~predicted & seen, predicted & seen),
        strict=True,
    )
    layers = [
        marks("tokens in the bucket" if policed else "bytes queued", "level", "line", rows, level),
        *([] if limit is None else [rule(limit[0], "limit", limit[1] / scale)]),
        *(marks(name, style, "points", rows.filter(which), level, rare=True) for name, style, which in kinds),
    ]
    y = Axis(f"{'Bucket fill' if policed else 'Queue depth'} ({unit})", from_zero="always")
    return Panel(TIME, y, present(layers), zoom="time", title=title)


def compared(scene: PairScene) -> Figure:
    """Draw level, drops and waits of the winner on the left, of the best loser on the right."""
    one = scene.scene
    winner, rival = _roles(one)
    width = max(as_float(frame["t"].max()) for frame in (one.model, one.rival))
    levels = _same_axes([_of_model(one.model, winner), _of_model(one.rival, rival)], (0.0, width))
    waits = _waits(one, winner, rival)
    return Figure(
        key="models",
        title=_title(winner, rival),
        subtitle=one.flow.flow if one.verdict_flows == 1 else f"over {quantities.plural(one.verdict_flows, 'flow')}",
        see=SEE,
        panels=(*levels, *waits),
        columns=2,
    )


def compared_close_up(scene: PairScene) -> Figure:
    """Draw the same around the most losses; the waits are those of all packets."""
    one = scene.scene
    whole = compared(scene)
    lost = one.model.filter("seen_lost")["t"]
    window = needed(window_of(one.model, lost, one.flow.rtt_min_s), one.flow.flow)
    levels = [cut(panel, window) for panel in whole.panels[:2]]
    panels = (*_same_axes(levels, window), *whole.panels[2:])
    return replace(whole, key="models-close-up", title=f"{whole.title} (close up)", panels=panels)


def _roles(scene: Scene) -> tuple[Model, Model]:
    models = () if scene.verdict is None else scene.verdict.models
    winner = next((model for model in models if model.role == "winner"), None)
    rival = _given(scene) or next((model for model in models if model.role == "rival"), None)
    if winner is None or rival is None or scene.model.is_empty() or scene.rival.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no two models were replayed over its packets")
    return winner, rival


def _title(winner: Model, rival: Model) -> str:
    other = "yours" if rival.role == "given" else "the best loser"
    drops = (
        f"The winner drops {quantities.count(winner.hits)} of the {quantities.count(winner.lost)} lost packets and "
        f"{_others(winner)}, {other} {quantities.count(rival.hits)} and {_others(rival)}"
    )
    return f"{drops}{_holds(winner, rival)}"


def _others(model: Model) -> str:
    return quantities.plural(model.dropped - model.hits, "other")


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


def _of_model(rows: pl.DataFrame, model: Model, outcomes: tuple[str, str, str] = _COMPARED) -> Panel:
    size = model.limit_bytes
    limit = None if size is None else (f"limit: {quantities.size(size)}", size)
    title = f"{_STANDING.get(model.role, 'Ruled out')}: {model.title}"
    return _level(rows, model.element == "policer", outcomes, limit, title)


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
    longest = max(as_float(frame.select(pl.max_horizontal("wait_ns", "seen_wait_ns").max()).item()) for frame in frames)
    scale, unit = readable(longest or 1.0, "ns")
    top = (longest or 1.0) / scale
    # From a little below zero, so that dots on the axis are seen; equal axes, so that the eye compares both.
    ends = (-0.0315 * top, 1.05 * top)
    return [
        _wait(frame, model, top, scale, (Axis(f"Seen: longer than the fastest by ({unit})", ends=ends),
                                         Axis(f"Predicted ({unit})", ends=ends)))
        for frame, model in zip(frames, (winner, rival), strict=True)
    ]  # fmt: skip


def _wait(frame: pl.DataFrame, model: Model, top: float, scale: float, axes: tuple[Axis, Axis]) -> Panel:
    same = pl.DataFrame({"x": [0.0], "y": [0.0], "x2": [top], "y2": [top]})
    error = "" if model.wait_error_s is None else f"; median error {quantities.duration(model.wait_error_s)}"
    seen, predicted = pl.col("seen_wait_ns") / scale, pl.col("wait_ns") / scale
    layers = [
        layer("both the same", "limit", "slants", same, stretch=False),
        marks("packet", "segment", "points", frame.sort("seen_wait_ns"), predicted, seen),
    ]
    return Panel(*axes, present(layers), title=f"Predicted and seen waits{error}")
