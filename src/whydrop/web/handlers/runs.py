"""Requests about tests: the catalogue, and those that run."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field

import whydrop
from whydrop.web.endpoints import Endpoint, Nothing
from whydrop.web.handlers.jobs import JobAnswer, OneJob
from whydrop.web.site import Site

_ONE = "/api/runs/{id}"


class TestsAnswer(BaseModel):
    """The tests of the catalogue."""

    tests: list[dict[str, Any]]


class OneTest(BaseModel):
    """A test of the catalogue."""

    name: str = Field(pattern=r"^[\w.-]+$")


class TestAnswer(BaseModel):
    """A test with its flows, parameters and plots."""

    test: dict[str, Any]


class RunOf(BaseModel):
    """A test to start."""

    test: str = Field(pattern=r"^[\w.-]+$")
    to: list[str] = Field(min_length=1, max_length=16, description="HOST or HOST:PORT")
    duration_s: float | None = Field(None, gt=0, le=86_400)
    parameters: dict[str, Any] = Field(default_factory=dict)
    runner: str | None = None
    title: str = Field("", max_length=200)
    note: str = Field("", max_length=10_000)
    secret: str | None = Field(None, description="Of the responder; by default that of $WHYDROP_SECRET")
    beside: bool = Field(False, description="Start it although another test runs; they disturb each other")


class LiveAnswer(BaseModel):
    """Points of a run so far by CHART/NAME: seconds since the Unix epoch, and a value in the unit of the chart.

    ``number`` is that of the last event with some of them; ``left_out`` series have no room in their charts.
    """

    number: int
    series: dict[str, list[tuple[float, float]]]
    left_out: int


class JobsAnswer(BaseModel):
    """Jobs, the one used last first."""

    jobs: list[JobAnswer]


class RunHandlers:
    """Tests, and their runs."""

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def tests(self, _given: Nothing) -> TestsAnswer:
        """The catalogue."""
        return TestsAnswer(tests=await anyio.to_thread.run_sync(whydrop.tests))

    async def test(self, given: OneTest) -> TestAnswer:
        """One test."""
        return TestAnswer(test=await anyio.to_thread.run_sync(whydrop.describe_test, given.name))

    async def run(self, given: RunOf) -> JobAnswer:
        """Start a test."""
        options = given.model_dump(exclude={"test", "to", "beside"}, exclude_none=True) | {
            "output": str(self._site.settings.uploads)
        }
        return JobAnswer.of(self._site.jobs.run(given.test, given.to, options, beside=given.beside))

    async def runs(self, _given: Nothing) -> JobsAnswer:
        """All runs of this server."""
        return JobsAnswer(jobs=list(map(JobAnswer.of, self._site.jobs.all("run"))))

    async def running(self, given: OneJob) -> JobAnswer:
        """The state of a run."""
        return JobAnswer.of(self._site.jobs.find(given.id, "run"))

    async def live(self, given: OneJob) -> LiveAnswer:
        """The points of a run so far."""
        return LiveAnswer(**await self._site.jobs.find(given.id, "run").worker.ask("live"))

    async def stop(self, given: OneJob) -> JobAnswer:
        """End a run early; its recording keeps what was measured."""
        job = self._site.jobs.find(given.id, "run")
        await self._site.jobs.end(job.id)
        return JobAnswer.of(job)

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("GET", "/api/tests", Nothing, TestsAnswer, self.tests, "List the tests."),
            Endpoint("GET", "/api/tests/{name}", OneTest, TestAnswer, self.test, "Describe one test."),
            Endpoint("POST", "/api/runs", RunOf, JobAnswer, self.run, "Start a test."),
            Endpoint("GET", "/api/runs", Nothing, JobsAnswer, self.runs, "List the runs of this server."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.running, "Its state."),
            Endpoint("GET", f"{_ONE}/live", OneJob, LiveAnswer, self.live, "Its points so far."),
            Endpoint("POST", f"{_ONE}/stop", OneJob, JobAnswer, self.stop, "End it; its recording stays."),
        ]
