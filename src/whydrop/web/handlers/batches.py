"""Requests about batches: files that describe many runs, and those that run."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from pydantic import BaseModel, Field

from whydrop.errors import Error
from whydrop.web import batch_files
from whydrop.web.endpoints import Endpoint, Nothing, RequestError
from whydrop.web.handlers.jobs import JobAnswer, JobHandlers, OneJob
from whydrop.web.handlers.runs import JobsAnswer, LiveAnswer

_ONE = "/api/batches/{id}"


class BatchFileAnswer(BaseModel):
    """A batch file in one of the folders."""

    path: str
    batches: list[str]
    problem: str


class BatchFilesAnswer(BaseModel):
    """The batch files in the folders."""

    files: list[BatchFileAnswer]


class BatchOf(BaseModel):
    """A batch file, and what of it is to be run."""

    file: str = Field(max_length=4096)
    batches: list[str] = Field(default_factory=list, max_length=100, description="Names or patterns; none: all")
    repetitions: int | None = Field(None, ge=1, le=10_000)
    shuffle: bool | None = Field(None, description="Random order; by default as the file says")
    seed: int | None = None
    resume: bool = Field(False, description="Continue an earlier call, with its choices")

    def choices(self) -> dict[str, Any]:
        """The arguments of :func:`whydrop.batch_plan`; an earlier call has made them where it is resumed."""
        return {} if self.resume else self.model_dump(include={"batches", "repetitions", "shuffle", "seed"})


class BatchStart(BatchOf):
    """A batch to start."""

    restart: bool = Field(False, description="Begin again, although an earlier call has left runs to do")
    stop_on_failure: bool = False
    beside: bool = Field(False, description="Start it although a test runs; they disturb each other")


class BatchPlanAnswer(BaseModel):
    """The runs of a batch in their order; ``left`` of an earlier call can be resumed."""

    runs: list[dict[str, Any]]
    total_s: float
    seed: int | None
    left: int
    notes: list[str]
    refused: str


class BatchStop(OneJob):
    """When a batch stops."""

    now: bool = Field(False, description="End the run at hand, too")


class Outcomes(OneJob):
    """Which outcomes of runs are wanted."""

    after: int = Field(0, ge=0)


class OutcomesAnswer(BaseModel):
    """Outcomes of runs; those with a recording have its entry in the library."""

    outcomes: list[dict[str, Any]]


class BatchHandlers(JobHandlers):
    """Batch files, and batches that run."""

    kind = "batch"

    async def files(self, _given: Nothing) -> BatchFilesAnswer:
        """The batch files in the folders."""
        found = await anyio.to_thread.run_sync(batch_files.listed, self._site.settings.folders)
        return BatchFilesAnswer(files=[BatchFileAnswer(**vars(one)) for one in found])

    async def plan(self, given: BatchOf) -> BatchPlanAnswer:
        """List the runs of a file; nothing is started."""
        return BatchPlanAnswer(**vars(await self._planned(given)))

    async def _planned(self, given: BatchOf) -> batch_files.BatchPlan:
        settings = self._site.settings
        file = batch_files.permitted(given.file, settings.folders)
        plan = partial(
            batch_files.planned, file, settings.uploads, settings.folders, resume=given.resume, **given.choices()
        )
        return await anyio.to_thread.run_sync(plan)

    async def start(self, given: BatchStart) -> JobAnswer:
        """Start a batch."""
        plan = await self._planned(given)
        if plan.refused:
            raise RequestError(plan.refused, 403)
        if plan.left and not (given.resume or given.restart):
            raise RequestError(f"an earlier call has left {plan.left} runs to do: resume it, or start again", 409)
        file = Path(given.file).resolve()
        output = batch_files.output_of(file, self._site.settings.uploads)
        options = {
            **given.choices(), "resume": given.resume, "restart": given.restart,
            "stop_on_failure": given.stop_on_failure, "output": str(output),
        }  # fmt: skip
        return JobAnswer.of(self._site.jobs.batch(file, options, beside=given.beside))

    async def batches(self, _given: Nothing) -> JobsAnswer:
        """All batches of this server."""
        return JobsAnswer(jobs=list(map(JobAnswer.of, self._site.jobs.all("batch"))))

    async def live(self, given: OneJob) -> LiveAnswer:
        """The points of the run that goes on."""
        return LiveAnswer(**await self._ask(given, "live"))

    async def outcomes(self, given: Outcomes) -> OutcomesAnswer:
        """The outcomes of the runs of a batch."""
        found = await self._ask(given, "outcomes", after=given.after)
        return OutcomesAnswer(outcomes=[one | {"entry": self._entry(one["recording"])} for one in found])

    def _entry(self, recording: str | None) -> str | None:
        if recording is not None:
            with contextlib.suppress(Error, OSError):
                return self._site.library.identify(Path(recording))
        return None

    async def stop(self, given: BatchStop) -> JobAnswer:
        """End a batch behind the run at hand, or at once."""
        await self._ask(given, "stop", now=given.now)
        return await self.state(given)

    def endpoints(self) -> list[Endpoint[Any]]:
        """Those of the API."""
        return [
            Endpoint("GET", "/api/batch-files", Nothing, BatchFilesAnswer, self.files, "List the batch files."),
            Endpoint("POST", "/api/batches/plan", BatchOf, BatchPlanAnswer, self.plan, "List the runs of a file."),
            Endpoint("POST", "/api/batches", BatchStart, JobAnswer, self.start, "Start a batch."),
            Endpoint("GET", "/api/batches", Nothing, JobsAnswer, self.batches, "List the batches of this server."),
            Endpoint("GET", _ONE, OneJob, JobAnswer, self.state, "Its state."),
            Endpoint("GET", f"{_ONE}/live", OneJob, LiveAnswer, self.live, "The points of the run that goes on."),
            Endpoint("GET", f"{_ONE}/outcomes", Outcomes, OutcomesAnswer, self.outcomes, "The results of its runs."),
            Endpoint("POST", f"{_ONE}/stop", BatchStop, JobAnswer, self.stop, "End it; its recordings stay."),
        ]
