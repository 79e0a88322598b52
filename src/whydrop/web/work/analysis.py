"""An explanation that stays open: its document as a page, its figures when they are looked at."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from whydrop.show.document import Figures
from whydrop.web.work.pages import Pages

# Progress is for people.
_PROGRESS_S = 0.2


class Analysis:
    """Captures, a recording, or both, explained."""

    def __init__(self, emit: Callable[[Any], None], sources: Sequence[str], selection: Mapping[str, Any]) -> None:
        """Explain the sources; :func:`whydrop.explain` describes them, and the selection of their packets."""
        import whydrop

        self._emit = emit
        self._reported_s = 0.0
        self._explained = whydrop.explain(*sources, progress=self._progress, **selection)

    def _progress(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._reported_s >= _PROGRESS_S:
            self._reported_s = now
            self._emit({"done_bytes": done, "of_bytes": of})

    def close(self) -> None:
        """Nothing is to be kept."""

    def json(self) -> str:
        """The document of ``whydrop explain --json``."""
        return json.dumps(self._explained.document)

    def page(self) -> dict[str, Any]:
        """The document as the page shows it (:meth:`Pages.page`)."""
        return self._pages.page()

    def figures(self, part: str, choice: int, columns: int, window: tuple[float, float] | None) -> bytes:
        """The figures of a section of the page (:meth:`Pages.figures`)."""
        return self._pages.figures(part, choice, columns, window)

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

        return report.figures(self._explained, None)
