"""A picture as data: panels of traces in plain units. It is drawn, or written as numbers; both from here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from whydrop import units
from whydrop.recording.metrics.together import listed
from whydrop.show.printable import printable as visible

Mark = Literal["line", "points", "crosses", "ticks", "spans", "bars", "cells", "outline", "text"]
Weight = Literal["pale", "normal", "heavy"]

# The colour of ink: for what summarises the others.
INK = -1
VERMILLION_EVENTS = -2


class NothingToDraw(ValueError):  # noqa: N818 (it is an answer, not a fault)
    """The recordings hold nothing for this plot; the message says why."""


@dataclass(frozen=True)
class Trace:
    """Marks of one meaning.

    ``data`` holds ``x`` and ``y``; spans and bars reach to ``x2`` or ``y2`` where it has them; cells have ``value``,
    text has ``text``. Lines break where ``y`` is null.

    Attributes:
        label: in the legend; empty: not there.
        series: the series that it is of, for the numbers.
        recording: the recording or group that it is of.
        colour: a slot of the palette, or ``INK``.
        dash: a slot of the dashes.
        rare: never thinned, and drawn on top.
        width: of bars and spans, as a share of the distance of two categories.
    """

    label: str
    series: str
    recording: str
    units: str
    mark: Mark
    data: pl.DataFrame
    colour: int = 0
    dash: int = 0
    weight: Weight = "normal"
    rare: bool = False
    helper: bool = False  # repeats numbers that another trace has: not written among them
    width: float = 0.0


@dataclass(frozen=True)
class LeftOut:
    """Samples that belong to what is drawn, and why some are not seen."""

    samples: int = 0
    cut: int = 0  # outside the time under load
    beyond: int = 0  # outside the axes
    lost: int = 0  # probes without an answer: they have no value
    silent: tuple[str, ...] = ()  # series that a sum or a mean lacks, as they have no values

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(
            self.samples + other.samples,
            self.cut + other.cut,
            self.beyond + other.beyond,
            self.lost + other.lost,
            tuple(dict.fromkeys((*self.silent, *other.silent))),
        )

    @property
    def share(self) -> float:
        """Of all samples, those that are not seen."""
        return (self.cut + self.beyond + self.lost) / self.samples if self.samples else 0.0

    def words(self) -> str:
        """One sentence for people."""
        if not self.samples:
            return "No samples."
        parts = [
            f"{_percent(count / self.samples)} {why}"
            for count, why in (
                (self.cut, "outside the time under load"),
                (self.beyond, "beyond the axes"),
                (self.lost, "lost probes, which have no value"),
            )
            if count
        ]
        reasons = f" ({', '.join(parts)})" if parts else ""
        lacking = f" Sums and means lack {listed(self.silent)}, which yielded no data." if self.silent else ""
        return f"Left out: {_percent(self.share)} of {units.count(self.samples)} samples{reasons}.{lacking}"


def _percent(share: float) -> str:
    """A share in per cent; what is not zero never reads as zero.

    >>> _percent(0.0), _percent(0.00001), _percent(0.123)
    ('0 %', '< 0.1 %', '12.3 %')
    """
    if share == 0:
        return "0 %"
    return "< 0.1 %" if share < 0.001 else f"{share * 100:.1f} %"


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    ``x_words`` and ``y_words`` are words at places of an axis of categories; ends of axes are ``None`` where the data
    decide.
    """

    title: str
    x_title: str
    y_title: str
    traces: tuple[Trace, ...]
    x_ends: tuple[float, float] | None = None
    y_ends: tuple[float, float] | None = None
    x_log: bool = False
    y_log: bool = False
    x_time: bool = False  # x is milliseconds since the epoch, shown as time of day
    x_words: tuple[tuple[float, str], ...] = ()
    y_words: tuple[tuple[float, str], ...] = ()
    legend: str = ""


@dataclass(frozen=True)
class Picture:
    """Everything that is seen: its panels, the words around them, and what is not seen."""

    key: str
    title: str
    subtitle: str
    panels: tuple[Panel, ...]
    columns: int = 1
    notes: tuple[str, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)

    def footnotes(self) -> list[str]:
        """The words below: what is left out always, then what else one must know."""
        return [self.left_out.words(), *self.notes]

    def titled(self, title: str | None) -> Picture:
        """The same with another title."""
        return self if title is None else replace(self, title=title)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Everything that is drawn as numbers, one row a mark, before any thinning."""
        for number, panel in enumerate(self.panels, start=1):
            words = {"x": dict(panel.x_words), "y": dict(panel.y_words)}
            for trace in panel.traces:
                if trace.helper:
                    continue
                head = {
                    "panel": panel.title or number,
                    "recording": trace.recording,
                    "series": trace.series,
                    "units": trace.units,
                    "mark": trace.mark,
                }
                for row in trace.data.iter_rows(named=True):
                    yield {**head, **_in_words(row, words)}

    def frame(self) -> pl.DataFrame:
        """The rows as a frame."""
        rows = list(self.rows())
        return pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame()


def _in_words(row: dict[str, Any], words: dict[str, dict[float, str]]) -> dict[str, Any]:
    """Places on an axis of categories mean nothing outside the picture: the category itself does."""
    found = {}
    for name, value in row.items():
        categories = words.get(name, {})
        if categories and isinstance(value, (int, float)):
            nearest = min(categories, key=lambda place: abs(place - value))
            found[name] = categories[nearest]
        elif not (categories_of(name, words) and name in ("x2", "y2")):
            found[name] = value
    return found


def categories_of(name: str, words: dict[str, dict[float, str]]) -> bool:
    """Whether column ``x2`` or ``y2`` lies on an axis of categories."""
    return bool(words.get(name[0], {}))


def count(traces: Sequence[Trace]) -> int:
    """How many of the traces a legend would list."""
    return sum(1 for trace in traces if trace.label)


def printable(picture: Picture) -> Picture:
    """The same with control characters made visible in all words that are drawn: they come from files."""
    return replace(
        picture,
        title=visible(picture.title),
        subtitle=visible(picture.subtitle),
        notes=tuple(map(visible, picture.notes)),
        panels=tuple(map(_printable_panel, picture.panels)),
    )


def _printable_panel(panel: Panel) -> Panel:
    traces = [replace(trace, label=visible(trace.label), data=_printable_text(trace.data)) for trace in panel.traces]
    return replace(
        panel,
        title=visible(panel.title),
        x_title=visible(panel.x_title),
        y_title=visible(panel.y_title),
        legend=visible(panel.legend),
        x_words=tuple((place, visible(word)) for place, word in panel.x_words),
        y_words=tuple((place, visible(word)) for place, word in panel.y_words),
        traces=tuple(traces),
    )


def _printable_text(data: pl.DataFrame) -> pl.DataFrame:
    if data.schema.get("text") != pl.String():
        return data
    return data.with_columns(pl.Series("text", [word and visible(word) for word in data["text"]], pl.String))
