"""Work that takes a while: its state, its end and its answers, as the API gives them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel

from whydrop.web.jobs import Job, Kind
from whydrop.web.site import Site


class JobAnswer(BaseModel):
    """The state of an analysis or of a run."""

    id: str
    kind: str
    about: dict[str, Any]
    state: str
    progress: dict[str, Any]
    problem: str

    @classmethod
    def of(cls, job: Job) -> JobAnswer:
        """From the server."""
        return cls(**job.status())


class OneJob(BaseModel):
    """An analysis or a run by its identifier."""

    id: str


class JobHandlers:
    """Requests about jobs of one kind."""

    kind: ClassVar[Kind]

    def __init__(self, site: Site) -> None:
        """Of a running server."""
        self._site = site

    async def state(self, given: OneJob) -> JobAnswer:
        """The state of a job."""
        return JobAnswer.of(self._job(given))

    async def end(self, given: OneJob) -> JobAnswer:
        """End a job; a test keeps what it measured."""
        job = self._job(given)
        await self._site.jobs.end(job.id)
        return JobAnswer.of(job)

    def _job(self, given: OneJob) -> Job:
        return self._site.jobs.find(given.id, self.kind)

    async def _ask(self, given: OneJob, method: str, **arguments: Any) -> Any:
        """The answer of a job's process to a call of a method."""
        return await self._job(given).worker.ask(method, **arguments)
