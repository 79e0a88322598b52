"""Requests about analyses: verdicts, and its figures as they are looked at."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field, model_validator
from starlette.responses import Response

from whydrop.explaining.replaying import ModelError, described
from whydrop.web.endpoints import Endpoint, RequestError
from whydrop.web.handlers.files import as_file
from whydrop.web.handlers.jobs import JobAnswer, JobHandlers, OneJob
from whydrop.web.library.typing_paths import typed
from whydrop.web.uploads import harmless

_ONE = "/api/analyses/{id}"
# Beyond it nanoseconds do not fit 64 bits.
_LATEST_S = 9.2e9

# A path of a few elements; each of them is followed over all packets.
_LONGEST_MODEL = 1000
_MOST_ELEMENTS = 8

Given = TypeVar("Given", bound=BaseModel)


def _in_order(given: Given, first: str, last: str) -> Given:
    """The same, if its window begins before it ends."""
    begin, end = getattr(given, first), getattr(given, last)
    if begin is not None and end is not None and begin > end:
        raise ValueError(f"{first}={begin:.15g} is after {last}={end:.15g}: expected the earlier time as {first}")
    return given


class Sources(BaseModel):
    """Entries to explain, and a selection of their packets."""

    source: list[str] = Field(min_length=1, max_length=16, description="Identifiers of entries")
    filter: str | None = Field(None, description="A display filter (docs/filters.md)")
    begin: float | None = None
    end: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _in_order(self, "begin", "end")


def _few_elements(model: str) -> str:
    """The same path, if it has no more elements than are replayed in a moment."""
    if model.count("+") >= _MOST_ELEMENTS:
        raise ValueError(f"expected at most {_MOST_ELEMENTS} elements")
    return model


PathText = Annotated[
    str, Field(max_length=_LONGEST_MODEL, description="A path (docs/models.md)"), AfterValidator(_few_elements)
]
Change = Annotated[str, Field(max_length=_LONGEST_MODEL, description="NAME=VALUE (docs/prediction.md)")]
Flows = Annotated[list[str], Field(max_length=50, description="Names of flows")]


class Paths(BaseModel):
    """Paths that a user typed."""

    path: list[Annotated[str, Field(min_length=1, max_length=4096)]] = Field(min_length=1, max_length=16)


class PathsAnswer(BaseModel):
    """The identifiers of entries."""

    ids: list[str]


class SetOf(OneJob):
    """A set of figures of a section of an analysis."""

    part: str
    choice: int = Field(0, ge=0, description="Of the part `model` the number of a verdict")
    model: PathText = Field("", description="Of the part `model` the path that is replayed (docs/models.md)")
    flow: Flows = Field(default_factory=list)
    low: float | None = Field(None, description="Of a window of time, in seconds")
    high: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _in_order(self, "low", "high")

    def chosen(self) -> dict[str, Any]:
        """Arguments of the work."""
        window = None if self.low is None or self.high is None else (self.low, self.high)
        return {"part": self.part, "choice": self.choice, "flows": self.flow, "window": window, "model": self.model}


class FiguresOf(SetOf):
    """The figures of a section of an analysis."""

    columns: int = Field(2000, ge=10, le=20_000, description="Resolution of a panel")


class PictureOf(SetOf):
    """A figure of an analysis as a file."""

    figure: str = Field(pattern=r"^[\w.-]+$", description="Its key")
    kind: Literal["png", "svg", "pdf", "csv", "json", "html"] = "png"


class ReplayOf(OneJob):
    """A path that is replayed over the packets of a verdict."""

    verdict: int = Field(0, ge=0, description="Its number")
    model: PathText


class PredictionOf(OneJob):
    """Changes of the path or of the senders, all at once."""

    change: list[Change] = Field(default_factory=list, max_length=8)


class ChoicesOf(OneJob):
    """Flows of an analysis, to have charts of them."""

    flow: Flows


class FileOf(OneJob):
    """An analysis as a file."""

    kind: Literal["json", "html"] = Field("json", description="As --json prints it, or as --report writes it")


class WindowOf(OneJob):
    """A window of time of an analysis."""

    begin: float = Field(ge=0, le=_LATEST_S, description="Seconds since the Unix epoch")
    end: float = Field(ge=0, le=_LATEST_S)
    flow: Flows = Field(default_factory=list)
    most: int = Field(500, ge=1, le=5000, description="Rows")

    @model_validator(mode="after")
    def _check(self) -> Self:
        return _in_order(self, "begin", "end")

    def window(self) -> dict[str, Any]:
        """Arguments of the work."""
        return {"begin": self.begin, "end": self.end, "flows": self.flow, "most": self.most}


class CrossingsOf(WindowOf):
    """A window of time of an analysis of two captures."""

    lost: bool = Field(False, description="Only packets that did not arrive")


class PageAnswer(BaseModel):
    """A document as HTML, the names of the sets of figures by section, and which packets can be listed."""

    title: str
    html: str
    choices: dict[str, list[str]]
    packets: str = Field("", description="packets, crossings, or nothing")


class ChoicesAnswer(BaseModel):
    """The names of sets of figures, and the display filter of their connections."""

    choices: list[str]
    filter: str


class ElementField(BaseModel):
    """A field of an element: a number with one of some units and their factors, one of some words, or a flag."""

    name: str
    required: bool
    units: list[tuple[str, float]] = []
    choices: list[str] = []


class PathElement(BaseModel):
    """An element of paths."""

    name: str
    fields: list[ElementField]


class VerdictWithPackets(BaseModel):
    """A verdict with packets over which paths are replayed, and its fitted path as text."""

    verdict: int
    packets: int
    fitted: str | None


class ModelsAnswer(BaseModel):
    """The elements of paths, and the verdicts over which paths are replayed."""

    elements: list[PathElement]
    verdicts: list[VerdictWithPackets]


class ReplayAnswer(BaseModel):
    """A path in its usual form, the command that replays it, and how it compares beside the fit, also as a table."""

    model: str
    command: str
    models: list[dict[str, Any]]
    html: str


class PredictionAnswer(BaseModel):
    """A prediction as HTML, and the command that prints it; empty for a part of captures."""

    html: str
    command: str


class PacketsAnswer(BaseModel):
    """Packets, whether there are more, and commands that show the same."""

    rows: list[dict[str, Any]]
    has_more: bool
    commands: list[str]


class AnalysisHandlers(JobHandlers):
    """Analyses of captures and recordings."""

    kind = "analysis"

    async def find_paths(self, given: Paths) -> PathsAnswer:
        """List files by their paths."""
        found = [typed(path, self._site.library.roots) for path in given.path]
        return PathsAnswer(ids=[await self._site.look_at(path) for path in found])

    async def explain(self, given: Sources) -> JobAnswer:
        """Start an analysis, or find the one that is open."""
        paths = [self._site.library.path(own) for own in given.source]
        selection = given.model_dump(include={"filter", "begin", "end"}, exclude_none=True)
        return JobAnswer.of(self._site.jobs.explain(paths, **selection))

    async def page(self, given: OneJob) -> PageAnswer:
        """The verdicts, tables and places of figures."""
        return PageAnswer(**await self._ask(given, "page"))

    async def figures(self, given: FiguresOf) -> Response:
        """The figures of a section."""
        found = await self._ask(given, "figures", columns=given.columns, **given.chosen())
        return Response(found, media_type="application/octet-stream")

    async def models(self, given: OneJob) -> ModelsAnswer:
        """Elements of paths, and the verdicts over which paths are replayed."""
        return ModelsAnswer(**await self._ask(given, "models"))

    async def replay(self, given: ReplayOf) -> ReplayAnswer:
        """A path over the packets of a verdict."""
        try:
            described(given.model)
        except ModelError as reason:
            wrong = str(reason).removeprefix("model ")
            raise RequestError(wrong, fields={"model": wrong}) from None
        return ReplayAnswer(**await self._ask(given, "replay", verdict=given.verdict, model=given.model))

    async def prediction(self, given: PredictionOf) -> PredictionAnswer:
        """A prediction of changes; without any, of usual ones."""
        return PredictionAnswer(**await self._ask(given, "prediction", changes=given.change))

    async def picture(self, given: PictureOf) -> Response:
        """A figure as a file."""
        found = await self._ask(given, "picture", key=given.figure, kind=given.kind, **given.chosen())
        return as_file(found, f"{harmless(f'{self._stem(given)}-{given.figure}')}.{given.kind}")

    async def choices(self, given: ChoicesOf) -> ChoicesAnswer:
        """The names of the charts of some flows."""
        return ChoicesAnswer(**await self._ask(given, "choices", flows=given.flow))

    async def document(self, given: FileOf) -> Response:
        """All of it as a file."""
        found = await self._ask(given, "document", kind=given.kind)
        return as_file(found, f"{harmless(self._stem(given))}.{given.kind}")

    def _stem(self, given: OneJob) -> str:
        """The name of the first file, for files made of it."""
        return str(self._job(given).about["sources"][0])

    async def packets(self, given: WindowOf) -> PacketsAnswer:
        """The packets of a window of time."""
        return PacketsAnswer(**await self._ask(given, "packets", **given.window()))

    async def crossings(self, given: CrossingsOf) -> PacketsAnswer:
        """The packets between two captures in a window of time."""
        return PacketsAnswer(**await self._ask(given, "crossings", lost=given.lost, **given.window()))

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("POST", "/api/paths", Paths, PathsAnswer, self.find_paths, "Find entries by their paths."),
            Endpoint("POST", "/api/analyses", Sources, JobAnswer, self.explain, "Explain entries."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.state, "Its state."),
            Endpoint("DELETE", _ONE, OneJob, JobAnswer, self.end, "End it."),
            Endpoint("GET", f"{_ONE}/page", OneJob, PageAnswer, self.page, "Its document as HTML."),
            Endpoint("GET", f"{_ONE}/figures", FiguresOf, bytes, self.figures, "Figures of one section."),
            Endpoint(
                "GET", f"{_ONE}/models", OneJob, ModelsAnswer, self.models, "Elements, and verdicts with packets."
            ),
            Endpoint("GET", f"{_ONE}/replay", ReplayOf, ReplayAnswer, self.replay, "A path over a verdict's packets."),
            Endpoint(
                "GET",
                f"{_ONE}/prediction",
                PredictionOf,
                PredictionAnswer,
                self.prediction,
                "Predicted effect of changes.",
            ),
            Endpoint("GET", f"{_ONE}/picture", PictureOf, bytes, self.picture, "A figure as a file."),
            Endpoint("GET", f"{_ONE}/choices", ChoicesOf, ChoicesAnswer, self.choices, "Charts of some flows."),
            Endpoint("GET", f"{_ONE}/document", FileOf, bytes, self.document, "All of it as JSON, or as a report."),
            Endpoint("GET", f"{_ONE}/packets", WindowOf, PacketsAnswer, self.packets, "Packets of a window of time."),
            Endpoint(
                "GET", f"{_ONE}/crossings", CrossingsOf, PacketsAnswer, self.crossings, "Packets between captures."
            ),
        ]
