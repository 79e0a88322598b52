"""Requests about recordings that are open: plots, and what differs between them."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from whydrop.show.plots.options import Limits
from whydrop.web.endpoints import Endpoint, RequestError
from whydrop.web.handlers.files import as_file
from whydrop.web.handlers.jobs import JobAnswer, JobHandlers, OneJob

_ONE = "/api/comparisons/{id}"
_NUMBER = r"[-+]?(?:\d{1,15}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,2})?"
_LIMITS = re.compile(rf"({_NUMBER}):({_NUMBER})\s*(.{{0,20}})")


def _ends(name: str, text: str, within: tuple[float, float] = (-math.inf, math.inf)) -> tuple[float, float]:
    """Two numbers that rise.

    Raises:
        RequestError: they do not.
    """
    low, high = (float(part) for part in text.split(":"))
    if not within[0] <= low < high <= within[1]:
        which = "two percentiles that rise, such as 5:95" if name == "zoom" else "two numbers that rise, such as 0:10"
        raise RequestError(f"{name}: {text}: expected {which}")
    return low, high


def _limits(text: str) -> Limits:
    """Ends of an axis with their unit.

    Raises:
        RequestError: the text is none.
    """
    found = _LIMITS.fullmatch(text.strip())
    if found is None:
        raise RequestError(f"limits: {text:.40}: expected two numbers that rise and a unit, such as 0:100 ms")
    return Limits(*_ends("limits", f"{found[1]}:{found[2]}"), found[3])


_SETS = r"^[abx-]{0,1000}$"
_SETS_WORDS = "A letter for each recording: a or b, its set; x: for the axes only; -: none of these"


class Recordings(BaseModel):
    """Recordings to draw and to compare."""

    source: list[str] = Field(min_length=1, max_length=1000, description="Identifiers of entries")


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
    figure_by: list[str] = Field(default_factory=list, max_length=3)
    smooth_across_load: bool = False
    zoom: str | None = Field(None, pattern=rf"^(none|{_NUMBER}:{_NUMBER})$", description="5:95; none: all is shown")
    limits: list[str] = Field(default_factory=list, max_length=8, description="0:100ms")
    time: str | None = Field(None, pattern=rf"^{_NUMBER}:{_NUMBER}$", description="10:20, in seconds")
    from_zero: bool | None = None
    log: bool = False
    paired: bool = False
    cut: bool | None = None
    absolute_time: bool = False
    sets: str = Field("", pattern=_SETS, description=_SETS_WORDS)
    baseline: int | None = Field(None, ge=0, description="A recording that is taken from the others")
    ratio: bool = False
    legend: bool = True
    title: str | None = Field(None, max_length=200, description="Instead of the plot's own")
    note: str | None = Field(None, max_length=500, description="Below the picture")

    def options(self) -> dict[str, Any]:
        """Those of the plot."""
        plain = (
            "filters", "combine", "reduce", "group_by", "panel_by", "figure_by", "smooth", "smooth_across_load",
            "from_zero", "log", "paired", "cut", "absolute_time", "sets", "baseline", "ratio",
        )  # fmt: skip
        found: dict[str, Any] = {name: getattr(self, name) for name in plain}
        if self.zoom is not None:
            found["zoom"] = () if self.zoom == "none" else _ends("zoom", self.zoom, within=(0, 100))
        if self.time is not None:
            found["window"] = _ends("time", self.time)
        return found | {"limits": [_limits(one) for one in self.limits]}

    def words(self) -> dict[str, Any]:
        """Those of the reader."""
        return {"title": self.title, "note": self.note, "legend": self.legend}

    def window(self) -> tuple[float, float] | None:
        """The window of time."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class PictureOf(PlotOf):
    """A plot as a file."""

    kind: Literal["png", "svg", "pdf", "csv", "json", "html", "py"] = "png"
    figure: str = Field("", max_length=500, description="The key of one of several pictures; all, if empty")


class WordsOf(OneJob):
    """A comparison in words: of two sets, of groups, or of each recording with the first."""

    sets: str = Field("", pattern=_SETS, description=_SETS_WORDS)
    group_by: list[str] = Field(default_factory=list, max_length=5)
    pair_by: list[str] = Field(default_factory=list, max_length=5, description="Keys that pairs of two sets agree in")


class WordsAnswer(BaseModel):
    """The answer and what stands behind it, as HTML."""

    answer: str
    details: str


class Split(BaseModel):
    """Two sets by the values of a key."""

    words: str
    sets: str = Field(description=_SETS_WORDS)


class ComparisonAnswer(BaseModel):
    """Recordings of a comparison, and the plots of them."""

    title: str
    labels: list[str] = Field(description="The names of the recordings in pictures")
    keys: list[str] = Field(description="Keys of the metadata that make groups")
    splits: list[Split] = Field(description="Sets by keys with two values")
    plots: list[dict[str, str]]


class ComparisonHandlers(JobHandlers):
    """Recordings, alone or compared."""

    kind = "comparison"

    async def compare(self, given: Recordings) -> JobAnswer:
        """Open recordings, alone or to be compared."""
        library = self._site.library
        return JobAnswer.of(
            self._site.jobs.compare([library.path(own) for own in given.source], library.index_folders())
        )

    async def compared(self, given: OneJob) -> ComparisonAnswer:
        """The recordings, keys to group them by, and the plots that there are."""
        return ComparisonAnswer(**await self._ask(given, "page"))

    async def words(self, given: WordsOf) -> WordsAnswer:
        """The comparison in words."""
        found = await self._ask(given, "words", sets=given.sets, group_by=given.group_by, pair_by=given.pair_by)
        return WordsAnswer(**found)

    async def plot(self, given: PlotOf) -> Response:
        """A plot for the page's script."""
        found = await self._ask(
            given, "figures", plot=given.plot, options=given.options(), words=given.words(), columns=given.columns,
            window=given.window(),
        )  # fmt: skip
        return Response(found, media_type="application/octet-stream")

    async def picture(self, given: PictureOf) -> Response:
        """A plot as a file."""
        name, found = await self._ask(
            given, "picture", plot=given.plot, options=given.options(), words=given.words(), kind=given.kind,
            figure=given.figure,
        )  # fmt: skip
        return as_file(found, name)

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("POST", "/api/comparisons", Recordings, JobAnswer, self.compare, "Open recordings."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.state, "Its state."),
            Endpoint("GET", f"{_ONE}/page", OneJob, ComparisonAnswer, self.compared, "What it holds."),
            Endpoint("GET", f"{_ONE}/words", WordsOf, WordsAnswer, self.words, "Its words as HTML."),
            Endpoint("GET", f"{_ONE}/figures", PlotOf, bytes, self.plot, "A plot for the page."),
            Endpoint("GET", f"{_ONE}/picture", PictureOf, bytes, self.picture, "A plot as a file."),
        ]
