"""The style of all pictures by Vega-Lite: the font, the sizes of words, axes and legends."""

from __future__ import annotations

from typing import Any

from whydrop.show.theme import GREY, INK

SOFT = "#4b5563"

CONFIG: dict[str, Any] = {
    "font": "Liberation Sans, Helvetica Neue, Arial, DejaVu Sans, sans-serif",
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
        "anchor": "start",
        "fontSize": 18,
        "fontWeight": 600,
        "subtitleFontSize": 13,
        "subtitleColor": SOFT,
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
        "titleOrient": "left",
        "titleFontSize": 12.5,
        "titleFontWeight": "normal",
        "titlePadding": 12,
        "symbolSize": 110,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
        "columnPadding": 18,
        "rowPadding": 4,
        "labelOffset": 7,
        "labelColor": INK,
        "offset": 8,
    },
}

# The line below which only zeros are, on a logarithmic axis.
ZERO_LINE = {"type": "rule", "color": GREY, "strokeDash": [3, 3], "strokeWidth": 0.8}
