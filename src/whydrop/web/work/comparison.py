"""Recordings that stay open: their plots, alone, overlaid, side by side or combined, and their comparison in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from whydrop.show.document import Choice


class Comparison:
    """One recording or more."""

    def __init__(self, _emit: Callable[[Any], None], sources: Sequence[str]) -> None:
        """Open the recordings."""
        from whydrop.api.recordings import opened

        self._recordings = opened(sources)

    def close(self) -> None:
        """Nothing is to be kept."""

    def page(self) -> dict[str, Any]:
        """The comparison as HTML; of one recording, its statistics. And the plots that there are."""
        from whydrop.show import html

        return {"title": self._document.title, "html": html.inside(self._document), "plots": self._plots()}

    @cached_property
    def _document(self) -> Any:
        if len(self._recordings) == 1:
            from whydrop.recording.metrics.summary import Summary
            from whydrop.show import recordings

            return recordings.document(Summary(self._recordings[0]))
        import whydrop
        from whydrop.show import comparison

        return comparison.text(whydrop.compare(*self._recordings), with_metadata=True)

    def _plots(self) -> list[dict[str, Any]]:
        """Names and titles of the plots with something to draw, the usual one first."""
        from whydrop.show.plots import building

        found = building.available(self._recordings)
        usual = building.default(self._recordings)
        names = [usual, *(name for name in found if name != usual)]
        return [{"name": name, "title": found[name].title, "kind": found[name].kind} for name in names if name in found]

    def figures(self, plot: str, options: Mapping[str, Any], columns: int, window: tuple[float, float] | None) -> bytes:
        """The pictures of a plot as the page's script reads them (:func:`whydrop.show.embedding.binary`).

        Args:
            plot: its name.
            options: those of :class:`whydrop.show.plots.options.PlotOptions`.
            columns: the resolution of a panel.
            window: of time, in seconds.

        Raises:
            Error: there is no such plot, or nothing to draw.
        """
        from whydrop.show import embedding
        from whydrop.show.plots import building
        from whydrop.show.plots.options import PlotOptions

        found = building.figures(plot, self._recordings, PlotOptions(**options))
        return embedding.binary("plot", Choice(list(found)), columns, window)

    def picture(self, plot: str, options: Mapping[str, Any], kind: str) -> bytes:
        """A plot as a file: ``png``, ``svg``, ``pdf``, ``csv``, ``json`` or ``html``."""
        from whydrop.show.plots import building
        from whydrop.show.plots.options import PlotOptions
        from whydrop.show.writing import rendered

        (figure, *_) = building.figures(plot, self._recordings, PlotOptions(**options))
        return rendered(figure, kind)
