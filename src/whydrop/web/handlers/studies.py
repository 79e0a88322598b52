"""Requests about studies: questions to a whole store."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from whydrop.studies.discards import parameters
from whydrop.studies.queues.parameters import STRATA, TARGET_MS
from whydrop.web.endpoints import Endpoint, Nothing
from whydrop.web.handlers.analyses import FiguresOf, PageAnswer
from whydrop.web.handlers.jobs import JobAnswer, JobHandlers, OneJob

_ONE = "/api/studies/{id}"


class Question(BaseModel):
    """A question to a store."""

    store: str = Field(description="Identifier of the store's entry")
    question: Literal["discards", "tcp", "queues"]
    parameters: str = Field("", max_length=200_000, description="Of discards: the text of a TOML file")
    first: date | None = Field(None, description="Of tcp: the first UTC day")
    last: date | None = None
    sites: list[str] = Field(default_factory=list, max_length=1000, description="Of tcp: only these")
    queue: str = Field("queue", min_length=1, max_length=100, description="Of queues: variable that names the queue")
    strata: list[str] = Field(list(STRATA), max_length=20, description="Of queues: variables that name the conditions")
    baseline: str = Field("pfifo_fast", min_length=1, max_length=100, description="Of queues: the one without AQM")
    target_ms: float = Field(TARGET_MS, gt=0, le=1e6, description="Of queues: induced delay that counts as contained")
    again: bool = Field(False, description="Compute it again, since the store may have grown")


class ParametersAnswer(BaseModel):
    """A commented file with the default parameters of the study of discards."""

    discards: str


class StudyHandlers(JobHandlers):
    """Studies of stores."""

    kind = "study"

    async def defaults(self, _given: Nothing) -> ParametersAnswer:
        """The default parameters."""
        return ParametersAnswer(discards=parameters.example())

    async def begin(self, given: Question) -> JobAnswer:
        """Start a study, or find the one that is open."""
        path = self._site.library.path(given.store)
        about = given.model_dump(mode="json", exclude={"store", "again"})
        if given.again:
            await self._site.jobs.forget_study(path, about)
        return JobAnswer.of(self._site.jobs.study(path, about))

    async def page(self, given: OneJob) -> PageAnswer:
        """The answer, tables and places of figures."""
        return PageAnswer(**await self._ask(given, "page"))

    async def figures(self, given: FiguresOf) -> Response:
        """The figures of a section."""
        window = given.chosen()["window"]
        found = await self._ask(
            given, "figures", part=given.part, choice=given.choice, columns=given.columns, window=window
        )
        return Response(found, media_type="application/octet-stream")

    async def document(self, given: OneJob) -> Response:
        """The tables of a study."""
        return Response(await self._ask(given, "json"), media_type="application/json")

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("GET", "/api/studies/parameters", Nothing, ParametersAnswer, self.defaults, "Default parameters."),
            Endpoint("POST", "/api/studies", Question, JobAnswer, self.begin, "Ask a store a question."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.state, "Its state."),
            Endpoint("DELETE", _ONE, OneJob, JobAnswer, self.end, "End it."),
            Endpoint("GET", f"{_ONE}/page", OneJob, PageAnswer, self.page, "Its document as HTML."),
            Endpoint("GET", f"{_ONE}/figures", FiguresOf, bytes, self.figures, "Figures of one section."),
            Endpoint("GET", f"{_ONE}/document", OneJob, bytes, self.document, "Its tables as JSON."),
        ]
