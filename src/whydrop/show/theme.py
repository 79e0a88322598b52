"""How each meaning looks, in print and on the page: colours of Okabe and Ito, which colour-blind readers distinguish.

Shapes and dashes differ as well, so that the charts stay legible in black and white. Source of the palette: M. Okabe
and K. Ito, "Color Universal Design" (2008), https://jfly.uni-koeln.de/color/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shape = Literal["dot", "cross", "plus", "triangle-up", "triangle-down", "square", "diamond", "ring"]

BLUE, SKY, ORANGE, VERMILLION, GREEN, PURPLE = (
    "#0072B2",
    "#56B4E9",
    "#E69F00",
    "#D55E00",
    "#009E73",
    "#CC79A7",
)
GREY, INK, PAPER = "#6b7280", "#1b1f24", "#e8eaed"

# By name, on light and on dark ground.
COLOURS = {
    "blue": (BLUE, SKY), "orange": (ORANGE, "#ffc24d"), "green": (GREEN, "#2fc79b"), "purple": (PURPLE, "#e3a5c7"),
    "sky": (SKY, "#a9dbf7"), "grey": (GREY, "#9aa4b2"), "vermillion": (VERMILLION, "#ff8a4c"), "ink": (INK, PAPER),
}  # fmt: skip
# In the order in which they are taken; the yellow of Okabe and Ito is not among them, as it is too pale on white.
# Vermillion is last: it is what is lost.
CYCLE = ("blue", "orange", "green", "purple", "sky", "grey", "vermillion")
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2), (9, 3, 2, 3), (12, 4))


@dataclass(frozen=True)
class Style:
    """Colours on light and dark ground, shape and size of points, width and dashes of lines (all in pixels)."""

    light: str
    dark: str
    shape: Shape = "dot"
    size: float = 3.0
    width: float = 1.5
    dash: tuple[int, ...] = ()
    opacity: float = 1.0
    filled: bool = True

    @property
    def hollow(self) -> bool:
        """True if points are outlines."""
        return not self.filled or self.shape in ("cross", "ring")


def cycled(number: int) -> tuple[str, str]:
    """The colours of the palette's next free place, which begins again at its end."""
    return COLOURS[CYCLE[number % len(CYCLE)]]


# The meanings that charts of explanations have in common.
STYLES: dict[str, Style] = {
    "segment": Style(BLUE, SKY, "dot", size=2.5, width=1.6),
    "level": Style(BLUE, SKY, "dot", width=1.0),
    "acknowledged": Style(GREEN, "#2fc79b", "dot", width=1.5),
    "arrived": Style(GREEN, "#2fc79b", "dot", width=1.8, dash=(7, 2)),
    "sack": Style(PURPLE, "#e3a5c7", "dot", width=1.4, dash=(2, 2), opacity=0.8),
    "gap": Style(VERMILLION, "#ff8a4c", "dot", width=0.7, opacity=0.6),
    "window": Style("#6b7280", "#9aa4b2", "dot", width=1.2, dash=(6, 3)),
    "limit": Style("#4b5563", "#b6beca", "dot", width=1.3, dash=(2, 3)),
    "lost": Style(VERMILLION, "#ff8a4c", "cross", size=7.0, width=2.0),
    "lost-bar": Style(VERMILLION, "#ff8a4c", "square", size=8.0, opacity=0.85),
    "few-bar": Style("#f3b48f", "#8a4a26", "square", size=8.0, dash=(1, 1)),
    "fast": Style(ORANGE, "#ffc24d", "triangle-up", size=6.0),
    "timeout": Style(INK, PAPER, "square", size=6.0),
    "probe": Style(PURPLE, "#e3a5c7", "triangle-down", size=6.0),
    "other": Style(ORANGE, "#ffc24d", "diamond", size=6.0),
    "spurious": Style(PURPLE, "#e3a5c7", "ring", size=9.0, width=1.6),
    "predicted": Style(ORANGE, "#ffc24d", "triangle-down", size=7.0),
    "on-the-way": Style("#8fb8d8", "#3f6f95", "dot", width=0.8, opacity=0.9),
    "lost-on-the-way": Style(VERMILLION, "#ff8a4c", "dot", width=1.2, dash=(3, 2)),
    "point-1": Style(BLUE, SKY, "dot", size=3.5),
    "point-2": Style(GREEN, "#2fc79b", "diamond", size=5.0),
    "missed": Style(INK, PAPER, "ring", size=8.0, width=1.6),
    "after-gap": Style(ORANGE, "#ffc24d", "triangle-up", size=6.0),
    "marked": Style(PURPLE, "#e3a5c7", "diamond", size=6.0),
    "count-bar": Style(BLUE, SKY, "square", size=8.0, opacity=0.75),
    "fastest": Style(INK, PAPER, "dot", width=1.6, dash=(2, 2)),
    "median": Style(INK, PAPER, "dot", width=1.8),
    "slow": Style(VERMILLION, "#ff8a4c", "dot", width=1.8, dash=(7, 3)),
    "fit": Style(VERMILLION, "#ff8a4c", "dot", width=1.8),
    "lane": Style(BLUE, SKY, "dot", width=9.0),
    "unpredicted": Style(INK, PAPER, "ring", size=8.0, width=1.6),
}
