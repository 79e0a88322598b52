"""A figure as the bytes of a file: by Vega-Lite for print, as a page for a browser, or its numbers."""

from __future__ import annotations

from whydrop.errors import Mistake
from whydrop.show import pictures
from whydrop.show.figure import Figure

FORMATS = (*pictures.FORMATS, "html", "csv", "json")


def rendered(figure: Figure, kind: str, *, legend: bool = True, size: tuple[int, int] | None = None) -> bytes:
    """A figure in one of FORMATS.

    Args:
        figure: what is drawn.
        kind: the format.
        legend: whether there are legends.
        size: of the whole, in pixels; a PNG has twice as many in each direction, a page is as wide as its window.

    Raises:
        ValueError: there is no such format.
        MissingExtraError: it is a format of print, and the packages that draw it are not installed.
    """
    if kind not in FORMATS:
        raise Mistake(f"no format {kind!r}; expected one of {', '.join(FORMATS)}")
    if kind in ("csv", "json"):
        from whydrop.show import figure_numbers

        text = figure_numbers.csv_text(figure) if kind == "csv" else figure_numbers.json_text(figure)
        return text.encode()
    if kind == "html":
        from whydrop.show import html

        return html.page_of_figures([figure], legend=legend).encode()
    from whydrop.show.vega import drawing

    return drawing.rendered(figure, kind, legend=legend, size=size)
