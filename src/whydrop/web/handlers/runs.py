"""Requests about tests: the catalogue, and those that run."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field

import whydrop
from whydrop.web import planning
from whydrop.web.endpoints import Endpoint, Nothing
from whydrop.web.handlers.jobs import JobAnswer, JobHandlers, OneJob

_ONE = "/api/runs/{id}"


class TestsAnswer(BaseModel):
    """The tests of the catalogue."""

    tests: list[dict[str, Any]]


class OneTest(BaseModel):
    """A test of the catalogue."""

    name: str = Field(pattern=r"^[\w.-]+$")


class TestAnswer(BaseModel):
    """A test as a form needs it.

    ``own`` parameters come first, the others are those of every test; ``secrets`` are parameters that no link may hold.
    ``flows`` is a table with a row of titles; ``refused`` says why the page does not run the test.
    """

    test: dict[str, Any]
    own: list[str]
    secrets: list[str]
    file: str
    flows: list[list[str]]
    refused: str


class Wanted(BaseModel):
    """A test to plan."""

    test: str = Field(pattern=r"^[\w.-]+$", max_length=200)
    to: list[str] = Field(default_factory=list, max_length=64, description="HOST or HOST:PORT")
    duration_s: float | None = Field(None, gt=0, le=604_800)
    parameters: dict[str, Any] = Field(default_factory=dict)
    runner: str | None = Field(None, max_length=200, description="Programs that measure, such as iperf3")


class RunOf(Wanted):
    """A test to start."""

    title: str = Field("", max_length=200)
    note: str = Field("", max_length=10_000)
    tags: list[str] = Field(default_factory=list, max_length=50)
    redact: bool = Field(False, description="Hide names and addresses of hosts in the recording")
    secret: str | None = Field(None, description="Of the responder; by default that of $WHYDROP_SECRET", repr=False)
    beside: bool = Field(False, description="Start it although another test runs; they disturb each other")


class CheckAnswer(BaseModel):
    """A test that could be started: how long it takes, its flows as a table, and what it sends in words."""

    total_s: float
    flows: list[list[str]]
    sends: list[str]
    notes: list[str]


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


class RunHandlers(JobHandlers):
    """Tests, and their runs."""

    kind = "run"

    async def tests(self, _given: Nothing) -> TestsAnswer:
        """The catalogue."""
        return TestsAnswer(tests=await anyio.to_thread.run_sync(whydrop.tests))

    async def test(self, given: OneTest) -> TestAnswer:
        """One test."""
        found = await anyio.to_thread.run_sync(planning.described, given.name)
        return TestAnswer(**vars(found))

    async def check(self, given: Wanted) -> CheckAnswer:
        """Say what a test would send; nothing is started."""
        return CheckAnswer(**vars(await self._checked(given)))

    async def _checked(self, given: Wanted) -> planning.Checked:
        plan = partial(
            planning.check, given.test, given.to, parameters=given.parameters, duration_s=given.duration_s,
            runner=given.runner, folders=self._site.settings.folders,
        )  # fmt: skip
        return await anyio.to_thread.run_sync(plan)

    async def run(self, given: RunOf) -> JobAnswer:
        """Start a test."""
        await self._checked(given)
        options = given.model_dump(exclude={"test", "to", "beside", "tags"}, exclude_none=True) | {
            "output": str(self._site.settings.uploads)
        }
        return JobAnswer.of(self._site.jobs.run(given.test, given.to, options, tags=given.tags, beside=given.beside))

    async def runs(self, _given: Nothing) -> JobsAnswer:
        """All runs of this server."""
        return JobsAnswer(jobs=list(map(JobAnswer.of, self._site.jobs.all("run"))))

    async def live(self, given: OneJob) -> LiveAnswer:
        """The points of a run so far."""
        return LiveAnswer(**await self._ask(given, "live"))

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("GET", "/api/tests", Nothing, TestsAnswer, self.tests, "List the tests."),
            Endpoint("GET", "/api/tests/{name}", OneTest, TestAnswer, self.test, "Describe one test."),
            Endpoint("POST", "/api/runs", RunOf, JobAnswer, self.run, "Start a test."),
            Endpoint("POST", "/api/runs/check", Wanted, CheckAnswer, self.check, "Say what a test would send."),
            Endpoint("GET", "/api/runs", Nothing, JobsAnswer, self.runs, "List the runs of this server."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.state, "Its state."),
            Endpoint("GET", f"{_ONE}/live", OneJob, LiveAnswer, self.live, "Its points so far."),
            Endpoint("POST", f"{_ONE}/stop", OneJob, JobAnswer, self.end, "End it; its recording stays."),
        ]
