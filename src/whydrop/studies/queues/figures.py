"""The study's pictures: distributions, goodput against latency, time to contain, cells, and delay over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import polars as pl

from whydrop.show import theme
from whydrop.show.figure import Figure, Layer, Panel
from whydrop.show.plots.comparing_pairs import ELLIPSE_NOTE, ellipse
from whydrop.show.plots.distributions import DARK, shade
from whydrop.show.plots.traces import INK, panel, trace
from whydrop.show.theme import Style
from whydrop.studies.queues.cells import line_key
from whydrop.studies.queues.families import sort_key
from whydrop.studies.queues.measures import CONTAIN, LATENCY
from whydrop.studies.queues.sentences import name
from whydrop.studies.queues.study import Results
from whydrop.text.quantities import plural, significant, with_unit

# Panels of a picture: more would be too small to read.
_MOST_PANELS = 12
# Below this no picture distinguishes delays: bins are as wide.
_LEAST_MS = 0.1
# A step is 100 ms: sooner ones are drawn there.
_LEAST_S = 0.1
_STEADY, _STARTING = "rrul", "transient"


def figures(results: Results) -> dict[str, Figure]:
    """Those for which there are rows."""
    queues = sorted(results.tables["runs"]["queue"].drop_nulls().unique(), key=sort_key)
    made = {}
    target = with_unit(f"{results.parameters.target_ms:g}", "ms")
    for key, (title, scene, table, draw, notes) in _FIGURES.items():
        frame = _run_values(results) if table == "run_values" else results.tables[table]
        # One more than is drawn: more conditions than that may be a variable of something else.
        panels = list(islice(_panels(results, frame, scene, queues, draw), _MOST_PANELS + 1))
        shown = panels[:_MOST_PANELS]
        if shown:
            more = ("Not drawn: further conditions, which the tables have.",) if len(panels) > len(shown) else ()
            subtitle = _subtitle(results, scene, frame)
            columns = 1 if len(shown) == 1 else 2
            below = (*(note.replace("{target}", target) for note in notes), *more)
            made[key] = Figure(key, title, subtitle, tuple(shown), columns, notes=below, one_legend=True)
    return made


@dataclass(frozen=True)
class _Scene:
    """Rows of a panel.

    Attributes:
        title: its conditions.
        rows: of one table, with ``queue``.
        queues: all of the study, in order: the place of one is its colour.
        target_ms: what counts as contained.
        whole: the rows of all panels.
        across: the condition across a heat map.
    """

    title: str
    rows: pl.DataFrame
    queues: list[str]
    target_ms: float
    whole: pl.DataFrame
    across: str = ""

    def parts(self) -> Iterator[tuple[int, str, pl.DataFrame]]:
        """The place, the name and the rows of each queue that has any."""
        for place, queue in enumerate(self.queues):
            own = self.rows.filter(pl.col("queue") == queue)
            if own.height:
                yield place, queue, own


def _scene(results: Results, frame: pl.DataFrame, wanted: str) -> str | None:
    """The scene that a picture is of: the wanted one, or else all flows at once, or else the first that there is."""
    if "scene" not in results.parameters.strata or frame.is_empty():
        return None
    scenes = sorted(frame["scene"].unique())
    return next(scene for scene in (wanted, _STEADY, scenes[0]) if scene in scenes)


def _subtitle(results: Results, wanted: str, frame: pl.DataFrame) -> str:
    scene = _scene(results, frame, wanted)
    own = frame if scene is None else frame.filter(pl.col("scene") == scene)
    queues = plural(own["queue"].n_unique(), "queue")
    return queues if scene is None else f"Scene {scene}, {queues}"


def _panels(
    results: Results, frame: pl.DataFrame, wanted: str, queues: list[str], draw: Callable[[_Scene], Panel | None]
) -> Iterator[Panel]:
    """A panel for each of the other conditions; of the heat map one for each but the line."""
    strata = list(results.parameters.strata)
    scene = _scene(results, frame, wanted)
    if scene is not None:
        frame = frame.filter(pl.col("scene") == scene)
        strata.remove("scene")
    across = ""
    if draw is _heat:
        # Lines are across.
        across = strata[0].capitalize() if strata else ""
        frame = frame.with_columns(across=pl.col(strata[0]) if strata else pl.lit(""))
        strata = strata[1:]
    if draw is _against:
        frame = _wide(frame, [*results.parameters.strata, "queue", "recording"])
    parts = frame.partition_by(*strata, as_dict=True) if strata else {(): frame}
    for key in sorted(parts, key=lambda key: [line_key(str(one)) for one in key]):
        title = ", ".join(f"{name} {value}" for name, value in zip(strata, key, strict=True))
        title = title[:1].upper() + title[1:]
        made = draw(_Scene(title, parts[key], queues, results.parameters.target_ms, frame, across))
        if made is not None:
            yield made


def _distribution(scene: _Scene) -> Panel | None:
    layers = []
    for place, queue, own in scene.parts():
        rows = own.sort("bin").select(x=pl.col("upper_ms").clip(_LEAST_MS), y=100 * pl.col("share"))
        # From where the first bin begins.
        rows = pl.concat([pl.DataFrame({"x": [rows["x"][0] / 1.2], "y": [0.0]}), rows])
        layers.append(trace(name(queue), (queue, "", "%"), "line", rows, place))
    if not layers:
        return None
    high = max(float(one.data["x"].max()) for one in layers)  # type: ignore[arg-type]
    return panel(
        scene.title, "Induced latency (ms)", "Probes with at most this latency (%)", layers, x_log=True,
        x_ends=(_LEAST_MS / 1.3, high * 1.2), y_ends=(0.0, 102.0),
    )  # fmt: skip


def _run_values(results: Results) -> pl.DataFrame:
    """The values of runs with the cell of each."""
    cell = results.tables["runs"].select("recording", *results.parameters.strata, "queue")
    return results.tables["values"].join(cell, on="recording")


def _wide(values: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """One row for each run with its latency and goodput."""
    own = values.filter(pl.col("metric").is_in([LATENCY, "goodput-down"]))
    wide = own.pivot("metric", index=names, values="value")
    columns = {LATENCY, "goodput-down"} <= set(wide.columns)
    return wide.drop_nulls([LATENCY, "goodput-down"]) if columns else wide.clear()


def _against(scene: _Scene) -> Panel | None:
    layers: list[Layer] = []
    for place, queue, own in scene.parts():
        logs = own[LATENCY].clip(_LEAST_MS).log10()
        x, y = own["goodput-down"], logs
        centre = pl.DataFrame({"x": [float(x.mean())], "y": [10 ** float(y.mean())]})  # type: ignore[arg-type]
        point = trace(name(queue), (queue, "", "Mbit/s, ms"), "points", centre, place, rare=True)
        layers.append(replace(point, style=replace(point.style, shape=_SHAPES[place // 7 % len(_SHAPES)])))
        curve = ellipse(x.to_numpy(), y.to_numpy())
        if curve is not None:
            curve = curve.with_columns(y=10 ** pl.col("y"))
            layers.append(trace("", (queue, "", "Mbit/s, ms"), "outline", curve, place))
    if not layers:
        return None
    ends = _padded([layer.data["x"] for layer in layers])
    low, high = _extent([layer.data["y"] for layer in layers])
    return panel(
        scene.title, "Goodput down (Mbit/s)", "Median induced latency (ms)", layers, x_ends=ends, y_log=True,
        y_ends=(low / 1.3, high * 1.3),
    )  # fmt: skip


_SHAPES: tuple[theme.Shape, ...] = ("dot", "diamond", "triangle-up")


def _contain(scene: _Scene) -> Panel | None:
    own = scene.rows.filter(pl.col("metric") == CONTAIN)
    queues = [queue for queue in scene.queues if queue in own["queue"]]
    if not queues:
        return None
    y = pl.col("queue").replace_strict({queue: -float(at) for at, queue in enumerate(queues)}, return_dtype=pl.Float64)
    longest = max(1.0, float(own.select(pl.max_horizontal("median", "high").max()).item() or 1.0)) * 1.3
    rows = own.with_columns(y=y, x=pl.col("median").clip(_LEAST_S))
    # An interval without an upper end goes to the edge.
    open_end = pl.col("low").is_not_null() & pl.col("high").is_null()
    rows = rows.with_columns(high=pl.when(open_end).then(longest).otherwise("high"))
    known = rows.drop_nulls(["low", "high"])
    spans = known.select(x=pl.col("low").clip(_LEAST_S), x2=pl.col("high").clip(_LEAST_S), y="y")
    layers = [trace("95 % interval", ("interval", "", "s"), "spans", spans, 5, helper=True)] if spans.height else []
    for censored, words, style in (
        (False, "median", Style(*theme.COLOURS["blue"], "dot", size=7.0)),
        (
            True,
            "lower bound of the median",
            Style(*theme.COLOURS["vermillion"], "ring", size=9.0, width=2.0),
        ),
    ):
        points = rows.filter(pl.col("censored") == censored).select("x", "y")
        if points.height:
            layers.append(replace(trace(words, (words, "", "s"), "points", points, 0, rare=True), style=style))
    return panel(
        scene.title, "Time to contain (s)", "", layers, x_log=True, x_ends=(_LEAST_S / 1.3, longest),
        y_ends=(0.5 - len(queues), 0.5), y_words=tuple((-float(at), name(one)) for at, one in enumerate(queues)),
    )  # fmt: skip


def _heat(scene: _Scene) -> Panel | None:
    own = scene.rows.filter(pl.col("metric") == LATENCY)
    queues = [queue for queue in scene.queues if queue in own["queue"]]
    if not queues:
        return None
    across = sorted(own["across"].unique(), key=line_key)
    logs = own["median"].clip(_LEAST_MS).log10()
    # One scale of colours for all panels.
    low, high = _extent([scene.whole.filter(pl.col("metric") == LATENCY)["median"].clip(_LEAST_MS).log10()])
    spread = high - low or 1.0
    layers = []
    for row, log in zip(own.iter_rows(named=True), logs, strict=True):
        x, y, share = float(across.index(row["across"])), -float(queues.index(row["queue"])), (log - low) / spread
        place = pl.DataFrame(
            {"x": [x - 0.5], "x2": [x + 0.5], "y": [y - 0.5], "y2": [y + 0.5], "value": [row["median"]]}
        )
        text = pl.DataFrame({"x": [x], "y": [y], "text": [significant(row["median"], 2)]})
        colour, ink = shade(share), "#ffffff" if share > DARK else theme.INK
        of = (row["queue"], row["across"], "ms")
        layers.append(replace(trace("", of, "cells", place, 0), style=Style(colour, colour)))
        layers.append(replace(trace("", of, "text", text, INK, helper=True), style=Style(ink, ink)))
    return panel(
        scene.title, scene.across, "", layers, x_ends=(-0.5, len(across) - 0.5), y_ends=(0.5 - len(queues), 0.5),
        x_words=tuple((float(at), one) for at, one in enumerate(across)),
        y_words=tuple((-float(at), name(one)) for at, one in enumerate(queues)),
    )  # fmt: skip


def _over_time(scene: _Scene) -> Panel | None:
    layers = []
    for place, queue, own in scene.parts():
        rows = own.sort("time_s").select(x="time_s", y=pl.col("median_ms").clip(_LEAST_MS))
        layers.append(trace(name(queue), (queue, "", "ms"), "line", rows, place))
    if not layers:
        return None
    low, high = _extent([layer.data["y"] for layer in layers])
    target = pl.DataFrame({"y": [scene.target_ms]})
    layers.append(
        Layer(f"target {scene.target_ms:g} ms", theme.STYLES["limit"], "rule", target, stretch=False, helper=True)
    )
    x_low, x_high = _extent([layer.data["x"] for layer in layers[:-1]])
    return panel(
        scene.title, "Time after the start of the last flow (s)", "Induced latency (ms)", layers,
        x_ends=(x_low, x_high + 0.1), y_log=True, y_ends=(low / 1.3, max(high, scene.target_ms) * 1.3),
    )  # fmt: skip


def _extent(columns: list[pl.Series]) -> tuple[float, float]:
    known = pl.concat([column.drop_nulls().cast(pl.Float64) for column in columns])
    return (float(known.min()), float(known.max())) if len(known) else (_LEAST_MS, 1.0)  # type: ignore[arg-type]


def _padded(columns: list[pl.Series]) -> tuple[float, float]:
    low, high = _extent(columns)
    room = 0.08 * (high - low) or max(0.05, 0.05 * abs(high))
    return max(0.0, low - room), high + room


# ``{target}`` in a note is the latency that counts as contained.
_FIGURES: dict[str, tuple[str, str, str, Callable[[_Scene], Panel | None], tuple[str, ...]]] = {
    "latency": (
        "Distribution of induced latency", _STEADY, "distributions", _distribution,
        (
            "Round-trip times of answered probes under load, less the median of the same probes before the load. Each "
            "run has the same weight. Resolution: 0.1 ms or 4 %, the larger.",
        ),
    ),
    "goodput": (
        "Goodput and induced latency", _STEADY, "run_values", _against,
        (
            "Lower and further right is better. Points: means over the runs, of latency the geometric mean. "
            f"{ELLIPSE_NOTE}",
        ),
    ),
    "contain": (
        "Time to contain induced latency after flows start", _STARTING, "medians", _contain,
        (
            "From the start of the last flow until induced latency is at most {target}, for 1 s without exception and "
            "for 95 % of the remaining time. Points: medians over the runs. At 0.1 s: 0.1 s or less. Lower bound: the "
            "load ended before.",
        ),
    ),
    "cells": (
        "Median induced latency (ms)", _STEADY, "medians", _heat,
        ("Medians over the runs. Darker: higher latency, on a logarithmic scale.",),
    ),
    "delays": (
        "Induced latency over time", _STARTING, "delays", _over_time,
        (
            "At 0 s the last flow starts; others start before. Medians over the runs, of medians of steps of 0.1 s. "
            "Below 0.1 ms: drawn at 0.1 ms. Gap: in half of the runs or more, all probes of the step were lost.",
        ),
    ),
}  # fmt: skip
