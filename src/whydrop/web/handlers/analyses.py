"""Requests about analyses: verdicts, and its figures as they are looked at."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from whydrop.web.endpoints import Endpoint
from whydrop.web.handlers.jobs import JobAnswer, OneJob
from whydrop.web.site import Site

_ONE = "/api/analyses/{id}"


class Sources(BaseModel):
    """Entries to explain, and a selection of their packets."""

    source: list[str] = Field(min_length=1, max_length=16, description="Identifiers of entries")
    filter: str | None = Field(None, description="A display filter (docs/filters.md)")
    begin: float | None = None
    end: float | None = None


class FiguresOf(OneJob):
    """The figures of a section of an analysis."""

    part: str
    choice: int = Field(0, ge=0)
    columns: int = Field(2000, ge=10, le=20_000, description="Resolution of a panel")
    low: float | None = Field(None, description="Of a window of time, in seconds")
    high: float | None = None


class PageAnswer(BaseModel):
    """A document as HTML, and the names of the sets of figures by section."""

    title: str
    html: str
    choices: dict[str, list[str]]


class AnalysisHandlers:
    """Analyses of captures and recordings."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def explain(self, given: Sources) -> JobAnswer:
        """Start an analysis, or find the one that is open."""
        paths = [self._site.library.path(own) for own in given.source]
        selection = given.model_dump(include={"filter", "begin", "end"}, exclude_none=True)
        return JobAnswer.of(self._site.jobs.explain(paths, **selection))

    async def analysis(self, given: OneJob) -> JobAnswer:
        """The state of an analysis."""
        return JobAnswer.of(self._site.jobs.find(given.id, "analysis"))

    async def close_analysis(self, given: OneJob) -> JobAnswer:
        """End an analysis."""
        job = self._site.jobs.find(given.id, "analysis")
        await self._site.jobs.end(job.id)
        return JobAnswer.of(job)

    async def page(self, given: OneJob) -> PageAnswer:
        """The verdicts, tables and places of figures."""
        return PageAnswer(**await self._site.jobs.find(given.id, "analysis").worker.ask("page"))

    async def figures(self, given: FiguresOf) -> Response:
        """The figures of a section."""
        worker = self._site.jobs.find(given.id, "analysis").worker
        window = None if given.low is None or given.high is None else (given.low, given.high)
        found = await worker.ask("figures", part=given.part, choice=given.choice, columns=given.columns, window=window)
        return Response(found, media_type="application/octet-stream")

    async def document(self, given: OneJob) -> Response:
        """The JSON document, as ``whydrop explain --json`` prints it."""
        found = await self._site.jobs.find(given.id, "analysis").worker.ask("json")
        return Response(found, media_type="application/json")

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("POST", "/api/analyses", Sources, JobAnswer, self.explain, "Explain entries."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.analysis, "Its state."),
            Endpoint("DELETE", _ONE, OneJob, JobAnswer, self.close_analysis, "End it."),
            Endpoint("GET", f"{_ONE}/page", OneJob, PageAnswer, self.page, "Its document as HTML."),
            Endpoint("GET", f"{_ONE}/figures", FiguresOf, bytes, self.figures, "Figures of one section."),
            Endpoint("GET", f"{_ONE}/document", OneJob, bytes, self.document, "Its JSON document."),
        ]
