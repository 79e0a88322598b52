"""Fitted models replayed over the packets: what is in the bucket or the queue, drops, and times waited."""

from __future__ import annotations

from collections.abc import Sequence
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
    with_level,
)
from whydrop.show.figure import Axis, Ends, Figure, Layer, NothingToDraw, Panel, padded
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
    "Both models were given the same packets. The line is the content of the model's bucket or queue. A cross is a "
    "drop that it predicts and that happened; triangles and rings are wrong predictions, so the right model has few of "
    "them."
)
SEE_WAITS = (
    " Below: the delay that the model predicts for each packet against its measured delay; on the dashed line both are "
    "equal. The dots of the right model are near the line."
)

_STANDING = {"winner": "Won", "fitted": "Fitted", "given": "Yours"}

# Elements with tokens or packets that a replay counts.
_WITH_LEVEL = ("line", "fifo", "shaper", "policer")

# A model, and the packets under it.
Replayed = tuple[Model, pl.DataFrame]

SINCE_FIRST = Axis("Time since the first packet (s)")
# Rare events beyond so many hide each other, and take long to draw.
_MOST_RARE = 2_000
# Losses of one burst are closer together than this part of a close-up, and a burst is no longer than it.
_PAUSE_OF = 20
# So few losses are seen in any window.
_MANY = 10

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
    panels = _side_by_side(((winner, one.model), (rival, one.rival)))
    return Figure(
        key="models",
        title=_title(winner, rival),
        subtitle=one.flow.flow if one.verdict_flows == 1 else f"over {quantities.plural(one.verdict_flows, 'flow')}",
        see=_see(panels),
        panels=panels,
        columns=2,
    )


def _see(panels: Sequence[Panel]) -> str:
    """The words below models side by side, and their waits where these are drawn."""
    return SEE + SEE_WAITS if len(panels) > 2 else SEE


def tried(given: Replayed, fitted: Replayed | None) -> Figure:
    """Draw a model that a reader tries, beside the fitted one where there is one.

    Drops are rare events for one who looks for a few; a model far from the truth drops most packets.
    """
    model, rows = given
    replayed = (given,) if fitted is None else (fitted, given)
    title = f"Your model drops {_drops(model)}" if fitted is None else _title(fitted[0], model)
    since_first = (pl.col("time_ns") - rows["time_ns"].min()) / 1e9
    drawn = [(one, _with_place(rows, one).with_columns(t=since_first)) for one, rows in replayed]
    panels = tuple(map(_bounded, _side_by_side(drawn, SINCE_FIRST)))
    flows = quantities.plural(rows["flow"].n_unique(), "flow")
    see = _see(panels) if fitted is not None else SEE_BUCKET if _shows_tokens(model) else SEE_QUEUE
    return Figure("your-model", title, f"over {flows}", panels, columns=2, see=see)


def _with_place(rows: pl.DataFrame, model: Model) -> pl.DataFrame:
    """The rows with a level for each, so that each drop is seen: elements without a bucket or queue queue nothing."""
    return with_level(rows, model).with_columns(pl.col("level_bytes").fill_null(0.0))


def _bounded(panel: Panel) -> Panel:
    """The panel with layers of many rare events thinned as any other, and drawn smaller."""
    return replace(panel, layers=tuple(map(_thinner, panel.layers)))


def _thinner(layer: Layer) -> Layer:
    if not layer.rare or layer.data.height <= _MOST_RARE:
        return layer
    return replace(layer, rare=False, style=replace(layer.style, size=layer.style.size / 2))


def _side_by_side(replayed: Sequence[Replayed], time: Axis = TIME) -> tuple[Panel, ...]:
    """The levels of models in one window of time; below them their waits."""
    width = max(as_float(rows["t"].max()) for _, rows in replayed)
    levels = [replace(_of_model(rows, model), x=time) for model, rows in replayed]
    return (*_same_axes(levels, (0.0, width)), *_waits(replayed))


def compared_close_up(scene: PairScene) -> Figure:
    """Draw the same around the most losses; the waits are those of all packets."""
    one = scene.scene
    whole = compared(scene)
    lost = one.model.filter("seen_lost")["t"]
    window = needed(window_of(one.model, lost, one.flow.rtt_min_s), one.flow.flow)
    window = _burst(lost, window)
    levels = [cut(panel, window) for panel in whole.panels[:2]]
    panels = (*_same_axes(levels, window), *whole.panels[2:])
    return replace(whole, key="models-close-up", title=f"{whole.title} (close up)", panels=panels)


def _burst(lost: pl.Series, window: Ends) -> Ends:
    """The burst of losses that has most of those of a window, with the time in which a bucket or queue gets there.

    Losses of several bursts would stand in as many columns of marks, each on top of the others.
    """
    times = lost.filter(lost.is_between(*window)).sort()
    apart = times.diff() > (window[1] - window[0]) / _PAUSE_OF
    bursts = times.to_frame("t").group_by(apart.fill_null(value=False).cum_sum().alias("burst"), maintain_order=True)
    first, last, count = bursts.agg(first=pl.min("t"), last=pl.max("t"), count=pl.len()).sort("count").row(-1)[1:]
    length = last - first
    if length <= 0 or length * _PAUSE_OF > window[1] - window[0] or count < _MANY:
        return window
    return max(0.0, first - length), last + length / 2


def _roles(scene: Scene) -> tuple[Model, Model]:
    models = () if scene.verdict is None else scene.verdict.models
    winner = next((model for model in models if model.role == "winner"), None)
    rival = _given(scene) or next((model for model in models if model.role == "rival"), None)
    if winner is None or rival is None or scene.model.is_empty() or scene.rival.is_empty():
        raise NothingToDraw(f"{scene.flow.flow}: no two models were replayed over its packets")
    return winner, rival


def _title(winner: Model, rival: Model) -> str:
    other = "yours" if rival.role == "given" else "the best loser"
    first = "The fitted model" if winner.role == "fitted" else "The winner"
    drops = f"{first} drops {_drops(winner)}, {other} {quantities.count(rival.hits)} and {_others(rival)}"
    return f"{drops}{_holds(winner, rival)}"


def _drops(model: Model) -> str:
    return f"{quantities.count(model.hits)} of the {quantities.count(model.lost)} lost packets and {_others(model)}"


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
    if longest == 0 and seen and winner.longest_wait_s:
        return f"; it delays nothing: the longest wait seen is {quantities.duration(seen)}"
    return ""


def _of_model(rows: pl.DataFrame, model: Model, outcomes: tuple[str, str, str] = _COMPARED) -> Panel:
    size = model.limit_bytes
    limit = None if size is None else (f"limit: {quantities.size(size)}", size)
    title = f"{_STANDING.get(model.role, 'Ruled out')}: {model.title}"
    return _level(rows, _shows_tokens(model), outcomes, limit, title)


def _shows_tokens(model: Model) -> bool:
    """True if the level of a model is that of a bucket: it is that of the first element that has one."""
    elements = [model.element] if model.path is None else [one["element"] for one in model.path["elements"]]
    return next((name for name in elements if name in _WITH_LEVEL), "") == "policer"


def _same_axes(both: list[Panel], window: Ends) -> list[Panel]:
    """The same window of time; the same height too where both are in one unit."""
    both = [replace(panel, x=replace(panel.x, ends=padded(window, 0.01))) for panel in both]
    unit = {panel.y.title.partition("(")[2] for panel in both}
    if len(unit) > 1:
        return both
    top = max(1.0, *(panel.y_ends()[1] for panel in both))
    return [replace(panel, y=replace(panel.y, ends=(0.0, top))) for panel in both]


def _waits(replayed: Sequence[Replayed]) -> list[Panel]:
    """Predicted waits against those seen; none where a model predicts none of a packet, or all of them no wait."""
    known = pl.col("wait_ns").is_not_null() & pl.col("seen_wait_ns").is_not_null()
    frames = [rows.filter(known) for _, rows in replayed]
    if any(frame.is_empty() for frame in frames) or not any((frame["wait_ns"] > 0).any() for frame in frames):
        return []
    longest = max(as_float(frame.select(pl.max_horizontal("wait_ns", "seen_wait_ns").max()).item()) for frame in frames)
    scale, unit = readable(longest or 1.0, "ns")
    top = (longest or 1.0) / scale
    # From a little below zero, so that dots on the axis are seen; equal axes, so that the eye compares both.
    ends = (-0.0315 * top, 1.05 * top)
    return [
        _wait(frame, model, top, scale, (Axis(f"Seen: longer than the fastest by ({unit})", ends=ends),
                                         Axis(f"Predicted ({unit})", ends=ends)))
        for frame, (model, _) in zip(frames, replayed, strict=True)
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
