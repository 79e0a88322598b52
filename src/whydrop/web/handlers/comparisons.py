"""Requests about recordings that are open: plots, and what differs between them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from whydrop.web.endpoints import Endpoint
from whydrop.web.handlers.jobs import JobAnswer, OneJob
from whydrop.web.site import Site

_ONE = "/api/comparisons/{id}"
_MEDIA = {
    "png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf", "csv": "text/csv", "html": "text/html",
    "json": "application/json",
}  # fmt: skip


class Recordings(BaseModel):
    """Recordings to draw and to compare."""

    source: list[str] = Field(min_length=1, max_length=100, description="Identifiers of entries")


class PlotOf(OneJob):
    """A plot of recordings, with the options of ``whydrop plot``."""

    plot: str = Field(pattern=r"^[\w-]+$")
    columns: int = Field(2000, ge=10, le=20_000, description="Resolution of a panel")
    low: float | None = Field(None, description="Of a window of time, in seconds")
    high: float | None = None
    filters: list[str] = Field(default_factory=list, max_length=20)
    combine: str | None = Field(None, pattern=r"^[\w-]+$")
    reduce: str | None = Field(None, pattern=r"^[\w:.-]+$")
    group_by: list[str] = Field(default_factory=list, max_length=5)
    panel_by: list[str] = Field(default_factory=list, max_length=3)
    smooth: int | None = Field(None, ge=0, le=10_000)
    log: bool = False
    paired: bool = False
    cut: bool | None = None
    absolute_time: bool = False

    def options(self) -> dict[str, Any]:
        """Those of the plot."""
        return self.model_dump(exclude={"id", "plot", "columns", "low", "high", "kind"}, exclude_none=True)

    def window(self) -> tuple[float, float] | None:
        """The window of time."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class PictureOf(PlotOf):
    """A plot as a file."""

    kind: Literal["png", "svg", "pdf", "csv", "json", "html"] = "png"


class ComparisonAnswer(BaseModel):
    """A comparison as HTML, and the plots that its recordings have data for."""

    title: str
    html: str
    plots: list[dict[str, str]]


class ComparisonHandlers:
    """Recordings, alone or compared."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def compare(self, given: Recordings) -> JobAnswer:
        """Open recordings, alone or to be compared."""
        return JobAnswer.of(self._site.jobs.compare([self._site.library.path(own) for own in given.source]))

    async def comparison(self, given: OneJob) -> JobAnswer:
        """The state of a comparison."""
        return JobAnswer.of(self._site.jobs.find(given.id, "comparison"))

    async def compared(self, given: OneJob) -> ComparisonAnswer:
        """The comparison in words, and the plots that there are."""
        return ComparisonAnswer(**await self._site.jobs.find(given.id, "comparison").worker.ask("page"))

    async def plot(self, given: PlotOf) -> Response:
        """A plot for the page's script."""
        worker = self._site.jobs.find(given.id, "comparison").worker
        found = await worker.ask(
            "figures", plot=given.plot, options=given.options(), columns=given.columns, window=given.window()
        )
        return Response(found, media_type="application/octet-stream")

    async def picture(self, given: PictureOf) -> Response:
        """A plot as a file."""
        worker = self._site.jobs.find(given.id, "comparison").worker
        found = await worker.ask("picture", plot=given.plot, options=given.options(), kind=given.kind)
        name = f"{given.plot}.{given.kind}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(found, media_type=_MEDIA[given.kind], headers=headers)

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("POST", "/api/comparisons", Recordings, JobAnswer, self.compare, "Open recordings."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.comparison, "Its state."),
            Endpoint("GET", f"{_ONE}/page", OneJob, ComparisonAnswer, self.compared, "Its words as HTML."),
            Endpoint("GET", f"{_ONE}/figures", PlotOf, bytes, self.plot, "A plot for the page."),
            Endpoint("GET", f"{_ONE}/picture", PictureOf, bytes, self.picture, "A plot as a file."),
        ]
