"""Recordings that stay open: their plots, alone, overlaid, side by side or combined, and their comparison in words."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from whydrop.errors import Mistake
from whydrop.show.document import Choice
from whydrop.show.figure import Figure
from whydrop.show.plots.options import PlotOptions


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

    def figures(
        self,
        plot: str,
        options: Mapping[str, Any],
        words: Mapping[str, Any],
        columns: int,
        window: tuple[float, float] | None,
    ) -> bytes:
        """The pictures of a plot as the page's script reads them (:func:`whydrop.show.embedding.binary`).

        Args:
            plot: its name.
            options: those of :class:`whydrop.show.plots.options.PlotOptions`, with places of recordings in ``scale``
                and ``baseline``.
            words: ``title`` and ``note`` of the reader.
            columns: the resolution of a panel.
            window: of time, in seconds.

        Raises:
            Error: there is no such plot, or nothing to draw.
        """
        from whydrop.show import embedding

        return embedding.binary("plot", Choice(self._drawn(plot, options, words)), columns, window)

    def picture(self, plot: str, options: Mapping[str, Any], words: Mapping[str, Any], kind: str) -> tuple[str, bytes]:
        """A plot as a file: ``png``, ``svg``, ``pdf``, ``csv``, ``json`` or ``html``; a ZIP file of several pictures.

        Args:
            plot: its name.
            options: as of :meth:`figures`.
            words: ``title`` and ``note`` of the reader, and whether there is a ``legend``.
            kind: the format.

        Returns:
            The name of the file, and its content.
        """
        from whydrop.show import html
        from whydrop.show.writing import rendered

        figures, legend = self._drawn(plot, options, words), words["legend"]
        if len(figures) == 1:
            return f"{plot}.{kind}", rendered(figures[0], kind, legend=legend)
        if kind == "html":
            return f"{plot}.html", html.page_of_figures(figures, legend=legend).encode()
        return f"{plot}.zip", _zipped([(one.key, rendered(one, kind, legend=legend)) for one in figures], kind)

    def _drawn(self, plot: str, options: Mapping[str, Any], words: Mapping[str, Any]) -> list[Figure]:
        """The pictures of a plot, of all recordings but those for the axes only."""
        from whydrop.show.plots import building

        asked = dict(options)
        scale: Sequence[int] = asked.pop("scale", ())
        baseline = asked.pop("baseline", None)
        drawn = [one for place, one in enumerate(self._recordings) if place not in scale]
        count = len(self._recordings)
        if wrong := [place for place in (*scale, *([] if baseline is None else [baseline])) if place >= count]:
            raise Mistake(f"recording {wrong[0] + 1} is not there: this comparison has {count}")
        if not drawn:
            raise Mistake("every recording is there for the axes only: choose one to be drawn")
        read = PlotOptions(
            **asked,
            scale=[self._recordings[place] for place in scale],
            baseline=None if baseline is None else self._recordings[baseline],
        )
        return [one.titled(words.get("title")).noted(words.get("note")) for one in building.figures(plot, drawn, read)]


def _zipped(contents: Sequence[tuple[str, bytes]], kind: str) -> bytes:
    """Files in a ZIP file; keys are words from recordings, and no paths."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (key, content) in enumerate(contents, 1):
            name = re.sub(r"[^\w.-]+", "-", key).strip("-.")[:80]
            archive.writestr(f"{number:02}-{name}.{kind}", content)
    return made.getvalue()
