"""How large the panels of a figure are, and how many stand beside each other."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from whydrop.show.figure import Figure, Layer

# Pixels.
WIDTH = 970
_BETWEEN, _AXIS = 16, 70
# Below this width axes have no room for their words.
_NARROWEST = 118
# The height of one panel by how many are below each other; none is higher than this share of its width.
_HEIGHTS = {1: 380, 2: 270, 3: 210}
_LOW, _LOWEST, _OF_WIDTH = 160, 110, 0.68
# Of boxes, bars and lanes, so that they can be distinguished.
_ROW, _FEWEST_ROWS = 26, 70

# Estimated from the font: the width of a legend's character, and of its symbol with the space around it.
_LETTER, _SYMBOL = 6.0, 38
LONGEST_NAME = 48


@dataclass(frozen=True)
class Layout:
    """Panels in so many columns, each so wide, and so high."""

    columns: int
    width: int
    heights: tuple[int, ...]

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return -(-len(self.heights) // self.columns)


def laid_out(figure: Figure, width: int = WIDTH, taller: float = 0.0) -> Layout:
    """The layout with which a figure is about so wide, axes and all.

    Args:
        figure: what is laid out.
        width: of the whole, in pixels.
        taller: than by itself each panel is to be, in pixels.
    """
    columns = _columns(figure, width)
    of_axes = _AXIS * (1 if figure.share in ("both", "y") else columns)
    each = max(60, int((width - of_axes - _BETWEEN * (columns - 1)) / columns))
    rows = -(-len(figure.panels) // columns)
    plain = max(_LOWEST, min(_HEIGHTS.get(rows, _LOW), each * _OF_WIDTH))
    heights = [
        max(_FEWEST_ROWS, _ROW * panel.y.rows + 20) if panel.y.rows and not taller else plain for panel in figure.panels
    ]
    return Layout(columns, each, tuple(max(60, round(height + taller)) for height in heights))


def _columns(figure: Figure, width: int) -> int:
    """Panels side by side: by their number, and no more than have room for their words."""
    count = len(figure.panels)
    narrowest = max(_NARROWEST, 0 if figure.one_legend else _longest_name(figure))
    room = max(1, int((width - _AXIS + _BETWEEN) / (narrowest + _BETWEEN)))
    wanted = figure.columns
    if wanted is None:
        wanted = next((n for most, n in ((1, 1), (2, 2), (3, 3), (4, 2), (9, 3), (12, 4), (30, 5)) if count <= most), 6)
    return max(1, min(wanted, count, room))


def below_each_other(panels: int) -> int:
    """Columns of panels over time, which stand below each other as long as they fit."""
    return 1 if panels <= 4 else 2 if panels <= 12 else 3


def _longest_name(figure: Figure) -> int:
    """The width of the widest entry of a legend: a panel that is narrower would be pulled apart by it."""
    names = [min(LONGEST_NAME, len(layer.name)) for panel in figure.panels for layer in panel.layers]
    return int(max(names, default=0) * 5.6 + 30)


def legend_columns(names: Sequence[str], width: float) -> int:
    """As many columns as there is room for in so many pixels: each is as wide as its longest entry."""
    widths = [len(name) * _LETTER + _SYMBOL for name in names]
    for columns in range(len(names), 1, -1):
        if sum(max(widths[column::columns]) for column in range(columns)) <= width:
            return columns
    return 1


def wrapped(text: str, width: float, letter: float = 5.9) -> list[str]:
    """Lines of text in so many pixels; a letter is about so wide."""
    return textwrap.wrap(text, max(20, int(width / letter)))


def listed(figure: Figure, number: int) -> list[Layer]:
    """The layers in the legend of a panel; one for all panels lists what any of them has."""
    if not figure.one_legend:
        return _once(figure.panels[number].listed())
    order = figure.panels[0].order
    every = _once([layer for panel in figure.panels for layer in panel.listed()])
    return sorted(every, key=lambda layer: order.index(layer.name) if layer.name in order else len(order))


def _once(layers: Sequence[Layer]) -> list[Layer]:
    found: dict[str, Layer] = {}
    for layer in layers:
        found.setdefault(layer.name, layer)
    return list(found.values())
