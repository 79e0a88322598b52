"""A figure as data: panels with axes, layers of marks in plain units, and the words around them.

Charts of explanations, plots of recordings and grids of panels all make figures; `vega` draws them for print, `page`
for a browser. Nothing here knows of either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from whydrop.errors import Error
from whydrop.show.theme import Style
from whydrop.text import quantities
from whydrop.text.phrases import listed
from whydrop.text.printable import printable as visible

if TYPE_CHECKING:
    import polars as pl

Ends = tuple[float, float]
Mark = Literal["points", "line", "outline", "step", "spans", "slants", "bars", "band", "rule", "text"]

# The room that an axis without ends of its own leaves beside the data, as a share of their range.
_BESIDE, _ABOVE = 0.01, 0.05


class NothingToDraw(Error, ValueError):  # noqa: N818 (it is an answer, not a fault)
    """The data hold nothing for this figure; the message says why."""


@dataclass(frozen=True)
class Layer:
    """Marks of one meaning.

    ``data`` holds ``x`` and ``y``, and further ends by mark. A ``line`` breaks where ``y`` is null, and so does an
    ``outline``, which joins its rows in their order and not by ``x``; a ``step`` keeps its height until the next one.
    ``spans`` go upwards from ``y`` to ``y2``, ``slants`` from ``x``, ``y`` to ``x2``, ``y2``; ``bars`` are rectangles
    with these corners, a ``band`` is the area between ``y`` and ``y2``. A ``rule`` goes across the panel at its only
    ``y``, or up it at its only ``x``. ``text`` has words in ``text``.

    Attributes:
        name: in the legend; empty: not there.
        style: its colours, shape and dashes.
        mark: as above.
        data: one row a mark, in the units of the axes.
        rare: never thinned, drawn above the others, and whole at the edge of the panel.
        stretch: whether it widens axes that have no ends of their own; else it is clipped.
        of: what its numbers are of, such as the series.
        helper: whether it repeats numbers of another layer, and so is not exported.
        numbers: what is exported instead of ``data``, where that is only a place in the picture.
    """

    name: str
    style: Style
    mark: Mark
    data: pl.DataFrame
    rare: bool = False
    stretch: bool = True
    of: Mapping[str, str] = field(default_factory=dict)
    helper: bool = False
    numbers: pl.DataFrame | None = None


@dataclass(frozen=True)
class Axis:
    """One axis: what it shows, and where it ends.

    Attributes:
        title: what it shows; the unit may be in it.
        unit: added to the title.
        scale: ``time`` is seconds since the Unix epoch, shown as UTC.
        ends: where they are not those of the data.
        from_zero: whether it begins at 0 where the data decide; ``whole``: only as long as all of x is seen.
        words: at places of the axis, where numbers would mean nothing.
        rows: how many rows of marks stand on it, each of which needs some height.
        zeros: where the number 0 stands below a logarithmic axis, and the line below which only zeros are.
    """

    title: str = ""
    unit: str = ""
    scale: Literal["linear", "log", "time"] = "linear"
    ends: Ends | None = None
    from_zero: Literal["never", "whole", "always"] = "never"
    words: tuple[tuple[float, str], ...] = ()
    rows: int = 0
    zeros: Ends | None = None


@dataclass(frozen=True)
class Counts:
    """Rows or samples of a figure, and why some of them are not where their numbers say, or not seen at all.

    ``silent`` are series that a sum or a mean lacks, as they have no values. ``because`` says why rows have no value,
    ``what`` is what they are drawn as.
    """

    rows: int = 0
    cut: int = 0  # outside the time under load: not drawn
    lost: int = 0  # probes without an answer, which have no value: not drawn
    zeros: int = 0  # drawn on the line marked 0 of a logarithmic axis
    beyond: int = 0  # of the axes: not drawn
    negative: int = 0  # on a logarithmic axis: not drawn
    missing: int = 0  # without a value: not drawn
    silent: tuple[str, ...] = ()
    because: str = field(default="without a value", compare=False)
    what: str = field(default="points", compare=False)

    def __add__(self, other: Counts) -> Counts:
        numbers = {name: value + getattr(other, name) for name, value in self.numbers().items()}
        return replace(self, **numbers, silent=tuple(dict.fromkeys((*self.silent, *other.silent))))

    def numbers(self) -> dict[str, int]:
        """The counts by name."""
        names = ("rows", "cut", "lost", "zeros", "beyond", "negative", "missing")
        return {name: getattr(self, name) for name in names}

    @property
    def hidden(self) -> int:
        """Those that are not drawn."""
        return self.cut + self.lost + self.beyond + self.negative + self.missing

    @property
    def share(self) -> float:
        """Of all rows, those that are not drawn."""
        return self.hidden / self.rows if self.rows else 0.0

    def words(self) -> str:
        """One sentence, or two: how many are drawn, and why the others are not at their place."""
        if not self.rows:
            return f"Nothing to draw: there are no {'samples' if self.what == 'samples' else 'rows'}."
        share = f" of {quantities.count(self.rows)}" if self.hidden else ""
        what = self.what if self.rows != 1 else self.what.removesuffix("s")
        because = re.sub(r"^(\w+)s have\b", r"\1 has", self.because) if self.missing == 1 else self.because
        lost = "lost probes, which have no value" if self.lost != 1 else "lost probe, which has no value"
        reasons = (
            (self.cut, "outside the time under load"),
            (self.lost, lost),
            (self.zeros, "at 0, below the dashed line"),
            (self.beyond, "beyond the axes"),
            (self.negative, "below 0, where a logarithmic axis has no place"),
            (self.missing, because),
        )
        parts = [f"{quantities.count(number)} {why}" for number, why in reasons if number]
        drawn = "; ".join([f"Drawn: {quantities.count(max(0, self.rows - self.hidden))}{share} {what}", *parts])
        lacking = f" Sums and means lack {listed(self.silent)}, which yielded no data." if self.silent else ""
        return f"{drawn}.{lacking}"


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its layers, from back to front.

    Attributes:
        x: the horizontal axis.
        y: the vertical axis.
        layers: from back to front; rare ones are drawn above the others all the same.
        title: above it.
        name: in exported numbers, where it differs from the title.
        zoom: panels in which this is the same are zoomed together; empty: this one alone.
        legend: what the names in the legend share.
        order: names in the order of the legend; those that are not in it come by importance.
        left_out: the counts of its rows, where these are counted.
        notes: what else must be known of it.
    """

    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    title: str = ""
    name: str = ""
    zoom: str = ""
    legend: str = ""
    order: tuple[str, ...] = ()
    left_out: Counts = Counts()
    notes: tuple[str, ...] = ()

    def listed(self) -> list[Layer]:
        """The layers that a legend lists: rare events first, then what lies in front, limits last.

        Of one name the first is what stands for it; what only repeats its numbers comes after it.
        """
        places = {name: place for place, name in enumerate(self.order)}

        def importance(layer: Layer) -> tuple[int, bool, bool, bool]:
            return places.get(layer.name, len(places)), layer.mark == "rule", layer.helper, not layer.rare

        return sorted((layer for layer in self.layers[::-1] if layer.name), key=importance)

    def x_ends(self) -> Ends:
        """The ends of the horizontal axis as it is drawn."""
        if self.x.ends is not None:
            return self.x.ends
        low, high = span(layer.data[name] for layer in self._stretching() for name in ("x", "x2") if name in layer.data)
        return (low / 1.05, high * 1.05) if self.x.scale == "log" and low > 0 else padded((low, high), _BESIDE)

    def y_ends(self) -> Ends:
        """The ends of the vertical axis as it is drawn; zero included where it belongs."""
        if self.y.ends is not None:
            return self.y.ends
        low, high = span(layer.data[name] for layer in self._stretching() for name in ("y", "y2") if name in layer.data)
        if self.y.from_zero == "never":
            return padded((low, high), _ABOVE)
        below, above = padded((min(0.0, low), high), _ABOVE)
        return (0.0 if low >= 0 else below), above

    def _stretching(self) -> Iterable[Layer]:
        return (layer for layer in self.layers if layer.stretch)


@dataclass(frozen=True)
class Figure:
    """Everything that is seen: its panels and the words around them.

    Attributes:
        key: its name, as of a file.
        title: what is seen, in a few words.
        subtitle: of what.
        panels: pairs of axes, row by row.
        columns: panels beside each other; ``None``: as many as have room.
        see: what a newcomer should see in it.
        left_out: what is not seen of the data, where that is counted.
        notes: what else must be known of it.
        share: which axes all panels have in common, so that only the outer ones need numbers.
        one_legend: whether one legend serves all panels.
    """

    key: str
    title: str
    subtitle: str
    panels: tuple[Panel, ...]
    columns: int | None = 1
    see: str = ""
    left_out: Counts | None = None
    notes: tuple[str, ...] = ()
    share: Literal["both", "x", "y", "none"] = "none"
    one_legend: bool = False

    def footnotes(self) -> list[str]:
        """The words below: what is left out first, then what else one must know."""
        return [*([] if self.left_out is None else [self.left_out.words()]), *self.notes]

    def titled(self, title: str | None) -> Figure:
        """The same with another title."""
        return self if title is None else replace(self, title=title)

    def noted(self, note: str | None) -> Figure:
        """The same with a note of the reader before the others."""
        return replace(self, notes=(note, *self.notes)) if note else self

    def printable(self) -> Figure:
        """The same with control characters made visible in all words: they come from files.

        They would command terminals, and end the writer of SVG and this process with it.
        """
        made: Figure = _visible(self)
        return made


def _visible(thing: Any) -> Any:
    """A figure, or a part of one, with control characters made visible."""
    match thing:
        case str():
            return visible(thing)
        case tuple():
            return tuple(map(_visible, thing))
        case Layer() if "text" in thing.data.columns:
            import polars as pl

            words = pl.Series("text", [word and visible(word) for word in thing.data["text"]], pl.String)
            return replace(thing, name=visible(thing.name), data=thing.data.with_columns(words))
        case Figure() | Panel() | Axis() | Layer():
            return replace(thing, **{one.name: _visible(getattr(thing, one.name)) for one in fields(thing)})
        case _:
            return thing


def span(columns: Iterable[pl.Series]) -> Ends:
    """The least and the greatest number of all columns, never the same; 0 to 1 of none."""
    ends = [float(end) for column in columns for end in (column.min(), column.max()) if isinstance(end, (int, float))]
    if not ends:
        return 0.0, 1.0
    low, high = min(ends), max(ends)
    return (low, high) if high > low else (low, low + 1.0)


def padded(ends: Ends, share: float) -> Ends:
    """Ends with some room beside them, as a share of what is between."""
    low, high = ends
    room = (high - low) * share
    return low - room, high + room


def ordered(layers: Sequence[Layer]) -> list[Layer]:
    """Layers as they are drawn: rare events above the others."""
    return sorted(layers, key=lambda layer: layer.rare)
