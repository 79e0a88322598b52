"""The state of work that takes a while, as the API gives it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from whydrop.web.jobs import Job


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
