"""A figure as a chart of Altair, for notebooks."""

from __future__ import annotations

import altair

from whydrop.show.figure import Figure
from whydrop.show.layout import WIDTH
from whydrop.show.vega.drawing import specification


def chart(figure: Figure, width: int = WIDTH) -> altair.VConcatChart:
    """A figure as a chart of so many pixels."""
    drawn: altair.VConcatChart = altair.VConcatChart.from_dict(specification(figure, width))
    return drawn
