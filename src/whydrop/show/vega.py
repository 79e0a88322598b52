"""What all pictures by Vega-Lite share: the font, the sizes of words, the look of axes and legends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whydrop.show.charts.theme import INK

FONT = "Liberation Sans, Helvetica Neue, Arial, DejaVu Sans, sans-serif"
# So many characters of a title fit on a picture 900 pixels wide.
TITLE_CHARACTERS = 105
# Estimated from the font: the width of a legend's character, and of its symbol with the space around it.
LETTER_PIXELS, _SYMBOL_PIXELS = 6.6, 45

CONFIG: dict[str, Any] = {
    "font": FONT,
    "background": "white",
    "padding": 14,
    "view": {"stroke": "#9ca3af", "strokeWidth": 0.6},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "titlePadding": 9,
        "gridColor": "#e5e7eb",
        "labelColor": INK,
        "titleColor": INK,
        "tickCount": 8,
    },
    "title": {
        "fontSize": 18,
        "fontWeight": 600,
        "subtitleFontSize": 13,
        "subtitleColor": "#4b5563",
        "subtitlePadding": 5,
        "color": INK,
        "offset": 12,
    },
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "labelFontSize": 12.5,
        "labelLimit": 420,
        "title": None,
        "symbolSize": 110,
        "columnPadding": 18,
        "rowPadding": 4,
        "labelOffset": 7,
        "columns": 4,
        "labelColor": INK,
        "offset": 8,
    },
}


def legend_columns(names: Sequence[str], width: float) -> int:
    """As many columns as there is room for in so many pixels: each is as wide as its longest entry."""
    widths = [len(name) * LETTER_PIXELS + _SYMBOL_PIXELS for name in names]
    for columns in range(len(names), 1, -1):
        if sum(max(widths[column::columns]) for column in range(columns)) <= width:
            return columns
    return 1
