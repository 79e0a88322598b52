"""An explanation that stays open: its document as a page, its figures when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from whydrop.show.document import Choice, Figures
from whydrop.show.levels import Levels
from whydrop.web.work.models import Models
from whydrop.web.work.pages import Pages
from whydrop.web.work.predictions import Predictions
from whydrop.web.work.seldom import seldom

if TYPE_CHECKING:
    import polars

    from whydrop.explaining.document import Flow

Window = tuple[float, float]

# The figures of a path that a reader tries.
MODEL = "model"

# Sets of charts of flows that a reader chose; the charts of a flow hold its packets again.
_MOST_CHOSEN = 8


class Analysis:
    """Captures, a recording, or both, explained."""

    def __init__(self, emit: Callable[[Any], None], sources: Sequence[str], selection: Mapping[str, Any]) -> None:
        """Explain the sources; :func:`whydrop.explain` describes them, and the selection of their packets."""
        import whydrop
        from whydrop.show import cells

        self._filter: str | None = selection.get("filter")
        self._opening = cells.explained(sources, **selection)
        self._chosen: dict[str, Choice] = {}
        self._levels = Levels()
        report = seldom(emit)
        self._explained = whydrop.explain(
            *sources, progress=lambda done, of: report(done_bytes=done, of_bytes=of), **selection
        )
        self._models = Models(self._explained, sources, selection)
        self._predictions = Predictions(self._explained, sources, is_part=bool(selection))

    def close(self) -> None:
        """Nothing is to be kept."""

    def document(self, kind: str) -> bytes:
        """All of it as a file: ``json`` as ``whydrop explain --json`` prints it, ``html`` as its report."""
        if kind == "json":
            return self._explained.json(pretty=True).encode()
        from whydrop.show import report

        return report.of_explained(self._explained, recorded=self._recordings).encode()

    def page(self) -> dict[str, Any]:
        """The document as the page shows it (:meth:`Pages.page`), and what can be looked at beside it."""
        files = [one.path for one in self._explained.captures]
        packets = "crossings" if self._explained.pair is not None else "packets" if len(files) == 1 else ""
        return {**self._pages.page(), "packets": packets}

    def figures(
        self, part: str, choice: int, columns: int, window: Window | None, flows: Sequence[str], model: str
    ) -> bytes:
        """The figures of a section of the page as its script reads them (:func:`whydrop.show.embedding.binary`).

        Args:
            part: the section.
            choice: a set of its figures.
            columns: the resolution of a panel.
            window: of time, in seconds.
            flows: names of flows; the sets of ``charts`` are then those of these flows.
            model: of the part ``model``, a path that is replayed; the choice is then a verdict.
        """
        from whydrop.show import embedding

        if part == MODEL:
            # Two panels side by side have half of the width each. A figure that is drawn once needs no coarse copies.
            return embedding.binary(part, self._models.choice(choice, model), columns // 2, window)
        return embedding.binary(part, self._choice(part, choice, flows), columns, window, self._levels)

    def models(self) -> dict[str, Any]:
        """Elements of paths, and the verdicts over which paths are replayed: see :meth:`Models.offered`."""
        return self._models.offered()

    def replay(self, verdict: int, model: str) -> dict[str, Any]:
        """A path over the packets of a verdict: see :meth:`Models.replayed`."""
        return self._models.replayed(verdict, model)

    def prediction(self, changes: Sequence[str]) -> dict[str, Any]:
        """A prediction of changes: see :meth:`Predictions.of`."""
        return self._predictions.of(changes)

    def picture(
        self, part: str, choice: int, key: str, kind: str, window: Window | None, flows: Sequence[str], model: str
    ) -> bytes:
        """A figure as a file: one of ``whydrop.show.writing.FORMATS``.

        Raises:
            ValueError: there is no such figure.
        """
        from whydrop.show import embedding
        from whydrop.show.writing import rendered

        shown = self._models.choice(choice, model) if part == MODEL else self._choice(part, choice, flows)
        figures = {one.key: one for one in shown.figures}
        if key not in figures:
            raise ValueError(f"no figure {key!r}; there are {', '.join(figures)}")
        figure = figures[key]
        return rendered(figure if window is None else embedding.within(figure, window), kind)

    def choices(self, flows: Sequence[str]) -> dict[str, Any]:
        """The names of the sets of figures of some flows, and the display filter of their connections."""
        from whydrop.explaining import windows
        from whydrop.show import report

        choices = [report.name_of_flow(self._flow(flow)) for flow in flows]
        return {"choices": choices, "filter": windows.filter_of(flows) or ""}

    def packets(self, begin: float, end: float, flows: Sequence[str], most: int) -> dict[str, Any]:
        """The packets of a window of time with their fates (:func:`whydrop.explaining.windows.seen`)."""
        from whydrop.explaining import windows

        (capture,) = self._explained.captures
        begin_ns, end_ns = _nanoseconds(begin), _nanoseconds(end)
        rows, has_more = windows.seen(
            self._explained, capture.path, begin_ns, end_ns, flows=flows, filter=self._filter, most=most
        )
        command = windows.tshark(capture.path, begin_ns, end_ns, flows, self._filter)
        return {"rows": _plain(rows), "has_more": has_more, "commands": [command]}

    def crossings(self, begin: float, end: float, flows: Sequence[str], lost: bool, most: int) -> dict[str, Any]:
        """The packets between two captures in a window of time (:func:`whydrop.explaining.windows.crossed`)."""
        from whydrop.explaining import windows

        begin_ns, end_ns = _nanoseconds(begin), _nanoseconds(end)
        rows, has_more = windows.crossed(self._explained, begin_ns, end_ns, flows=flows, lost=lost, most=most)
        segments = self._explained.path_segments
        commands = []
        points = [segments[0].first, segments[0].second] if len(segments) == 1 else []
        for number, point in enumerate(points, start=1):
            # Each capture has its own clock.
            times = rows[f"time_{number}_ns"].drop_nulls().to_list()
            if times:
                path = self._explained.captures[point].path
                commands.append(windows.tshark(path, min(times), max(times), flows))
        return {"rows": _plain(rows), "has_more": has_more, "commands": commands}

    @cached_property
    def _recordings(self) -> list[Any]:
        from whydrop.formats.importing import open_recording

        return [open_recording(one["path"]) for one in self._explained.recordings]

    @cached_property
    def _pages(self) -> Pages:
        from whydrop.recording.metrics.summary import Summary
        from whydrop.show import explanation, recordings

        plots = [recordings.plots(recording) for recording in self._recordings]
        statistics = [part for one in self._recordings for part in recordings.statistics(Summary(one))]
        return Pages(explanation.document(self._explained, self._figures_of_packets, plots, statistics))

    @cached_property
    def _figures_of_packets(self) -> dict[str, Figures]:
        from whydrop.show import report

        return report.figures(self._explained, None, self._opening)

    def _choice(self, part: str, choice: int, flows: Sequence[str]) -> Choice:
        if part == "charts" and choice < len(flows):
            return self._of_flow(flows[choice])
        return self._pages.choice(part, choice)

    def _of_flow(self, name: str) -> Choice:
        """The charts of a flow, which need not be among those that the page shows first."""
        from whydrop.show import report

        if name not in self._chosen:
            number = self._explained.flows.index(self._flow(name))
            while len(self._chosen) >= _MOST_CHOSEN:
                del self._chosen[next(iter(self._chosen))]
            self._chosen[name] = report.of_flow(self._explained, number, self._opening)
        return self._chosen[name]

    def _flow(self, name: str) -> Flow:
        found = next((flow for flow in self._explained.flows if flow.flow == name), None)
        if found is None:
            raise ValueError(f"no flow {name!r} in these files: choose one of the table")
        return found


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def _plain(rows: polars.DataFrame) -> list[dict[str, Any]]:
    """Rows as values of JSON: times as text, since a browser's numbers do not hold all their digits."""
    import polars as pl

    times = pl.selectors.by_name("time_ns", "sent_ns", "time_1_ns", "time_2_ns", require_all=False)
    return rows.with_columns(times.cast(pl.String), pl.selectors.enum().cast(pl.String)).to_dicts()
