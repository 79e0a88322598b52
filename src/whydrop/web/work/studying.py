"""Questions to a store: the study of discards, that of what limits TCP connections, and that of queues."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from whydrop.show.document import Document
from whydrop.web.work.pages import Pages
from whydrop.web.work.seldom import seldom


class Studying:
    """A study of one store, computed when it is made."""

    def __init__(self, emit: Callable[[Any], None], sources: Sequence[str], about: Mapping[str, Any]) -> None:
        """Compute it.

        Args:
            emit: given ``doing``, ``done_steps`` and ``of_steps``.
            sources: the store.
            about: ``question`` (``discards``, ``tcp`` or ``queues``); of discards ``parameters``, the text of a TOML
                file; of tcp ``first``, ``last`` (days) and ``sites``; of queues ``queue``, ``strata``, ``baseline`` and
                ``target_ms``.

        Raises:
            Error: the parameters have mistakes, or the store cannot be read.
        """
        self._report = seldom(emit)
        (self._store,) = sources
        studies = {"discards": self._discards, "tcp": self._tcp, "queues": self._queues}
        document, self._results = studies[about["question"]](about)
        self._pages = Pages(document)

    def close(self) -> None:
        """Nothing is to be kept."""

    def page(self) -> dict[str, Any]:
        """The document as the page shows it (:meth:`Pages.page`)."""
        return self._pages.page()

    def figures(self, part: str, choice: int, columns: int, window: tuple[float, float] | None) -> bytes:
        """The figures of a section of the page (:meth:`Pages.figures`)."""
        return self._pages.figures(part, choice, columns, window)

    def json(self) -> str:
        """Tables of the study by name, each a list of rows."""
        from whydrop.recording.document import plain

        return json.dumps(plain({name: table.to_dicts() for name, table in self._results.tables.items()}))

    def _progress(self, doing: str, done: float, of: int) -> None:
        self._report(doing=doing, done_steps=done, of_steps=of)

    def _discards(self, about: Mapping[str, Any]) -> tuple[Document, Any]:
        from whydrop.store.engines import open_backend
        from whydrop.studies.discards import document, figures, parameters, study

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "parameters.toml")
            file.write_text(about["parameters"], encoding="utf-8")
            wanted = parameters.read(file, shown="parameters")
        with open_backend(self._store, "duckdb") as backend:
            results = study.run(backend, wanted, self._progress)
        return document.page(results, figures.facets(results)), results

    def _tcp(self, about: Mapping[str, Any]) -> tuple[Document, Any]:
        from whydrop.store.engines import open_backend
        from whydrop.studies.tcp import document, figures, study

        first, last = (date.fromisoformat(about[end]) if about[end] else None for end in ("first", "last"))
        wanted = study.Parameters(first, last, tuple(about["sites"]))
        with open_backend(self._store, "duckdb") as backend:
            results = study.run(backend, wanted, self._progress)
        pictures = figures.figures(results) if results.facts["connections"] else {}
        return document.document(results, pictures), results

    def _queues(self, about: Mapping[str, Any]) -> tuple[Document, Any]:
        from whydrop.store.engines import open_backend
        from whydrop.studies.queues import document, figures, study
        from whydrop.studies.queues.parameters import Parameters

        wanted = Parameters(about["queue"], tuple(about["strata"]), about["baseline"], about["target_ms"])
        with open_backend(self._store, "duckdb") as backend:
            results = study.run(backend, wanted, self._progress)
        pictures = figures.figures(results) if results.facts["used"] else {}
        return document.document(results, pictures), results
