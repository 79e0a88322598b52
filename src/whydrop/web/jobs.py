"""Jobs of the server: analyses and running tests, each a process, with a state that pages follow."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc
import anyio.to_thread

from whydrop.errors import Error
from whydrop.runtime.masking import masked_options
from whydrop.web.endpoints import RequestError
from whydrop.web.events import Events
from whydrop.web.work.analysis import Analysis
from whydrop.web.work.batching import Batching
from whydrop.web.work.comparison import Comparison
from whydrop.web.work.running import Running
from whydrop.web.work.studying import Studying
from whydrop.web.workers import Work, Worker, WorkerError

Kind = Literal["analysis", "comparison", "run", "batch", "study"]

# Jobs of a kind that are open at a time: analyses hold packets in memory, and tests disturb each other.
_MOST: dict[Kind, int] = {"analysis": 4, "comparison": 4, "run": 4, "batch": 1, "study": 2}
# Ended runs that are still listed.
_MOST_ENDED = 50
# The points of so many ended runs are kept for pages that open late.
_MOST_HELD = 3

_ENDED = ("complete", "interrupted", "failed")
# They measure, end with nothing lost, and are listed when they have ended.
_MEASURING: tuple[Kind, ...] = ("run", "batch")

Enter = Callable[[Path, Sequence[str]], Awaitable[str]]


@dataclass
class Job:
    """Work in a process.

    Attributes:
        id: names it in links.
        kind: of work.
        worker: the process.
        about: what was asked for, as values of JSON.
        state: ``running``, ``ready`` or ``failed``; of a run as its events have it.
        progress: the last values that the work reported.
        problem: why it failed.
    """

    id: str
    kind: Kind
    worker: Worker
    about: dict[str, Any]
    state: str = "running"
    progress: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    def status(self) -> dict[str, Any]:
        """Its state for the page, as values of JSON."""
        return {
            "id": self.id, "kind": self.kind, "about": self.about, "state": self.state, "progress": self.progress,
            "problem": self.problem,
        }  # fmt: skip


class Jobs:
    """All jobs of a server."""

    def __init__(self, events: Events, tasks: anyio.abc.TaskGroup, enter: Enter) -> None:
        """None yet.

        Args:
            events: that pages follow.
            tasks: runs what waits for jobs.
            enter: lists a new recording in the library with some tags, and gives its identifier there.
        """
        self._events = events
        self._tasks = tasks
        self._enter = enter
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def all(self, kind: Kind) -> list[Job]:
        """Jobs of a kind, the one used last first."""
        return [job for job in reversed(self._jobs.values()) if job.kind == kind]

    def states(self) -> Counter[tuple[str, str]]:
        """The number of jobs by kind and state."""
        return Counter((job.kind, job.state) for job in self._jobs.values())

    def find(self, own: str, kind: Kind) -> Job:
        """A job by its identifier.

        Raises:
            RequestError: there is none of this kind.
        """
        job = self._jobs.get(own)
        if job is None or job.kind != kind:
            raise RequestError(f"this {kind} is closed: start it again", 404)
        self._jobs.move_to_end(own)
        return job

    async def end(self, own: str) -> None:
        """End a job; a run keeps what it measured."""
        job = self._jobs[own]
        if job.kind not in _MEASURING:
            del self._jobs[own]
            job.worker.kill()
        elif job.state not in _ENDED:
            await job.worker.ask("stop")

    async def end_all(self) -> None:
        """End all jobs: analyses at once, runs when their recordings are whole."""
        async with anyio.create_task_group() as ending:
            for job in self._jobs.values():
                if job.kind not in _MEASURING or job.state in _ENDED:
                    job.worker.kill()
                else:
                    ending.start_soon(job.worker.stop)

    # --- analyses and comparisons ---

    def explain(self, paths: Sequence[Path], **selection: Any) -> Job:
        """The analysis of some sources: the one that is open, or a new one.

        Args:
            paths: captures, recordings.
            selection: as of :func:`whydrop.explain`: ``filter``, ``begin``, ``end``.
        """
        return self._opened("analysis", paths, selection, Analysis, selection)

    def compare(self, paths: Sequence[Path], kept: Sequence[Path] = ()) -> Job:
        """The comparison of some recordings, or one recording: what is open, or a new one.

        Args:
            paths: of the recordings.
            kept: folders of the library's indexes, where it is kept which series recordings have.
        """
        return self._opened("comparison", paths, {}, Comparison, [str(one) for one in kept])

    def study(self, store: Path, about: dict[str, Any]) -> Job:
        """The study of a store: the one that is open, or a new one.

        Args:
            store: its folder.
            about: as of :class:`whydrop.web.work.studying.Studying`.
        """
        return self._opened("study", [store], about, Studying, about)

    async def forget_study(self, store: Path, about: dict[str, Any]) -> None:
        """End a study, if it is open, so that it is computed again."""
        own = _identity("study", [store], about)
        if own in self._jobs:
            await self.end(own)

    def _opened(
        self, kind: Kind, paths: Sequence[Path], about: dict[str, Any], make: Callable[..., Work], *arguments: Any
    ) -> Job:
        own = _identity(kind, paths, about)
        found = self._jobs.get(own)
        if found is None or found.state == "failed":
            about = {"sources": [path.name for path in paths], **about}
            found = self._start(own, kind, about, make, [str(path) for path in paths], *arguments)
            self._tasks.start_soon(self._answered, found)
        self._jobs.move_to_end(own)
        return found

    async def _answered(self, job: Job) -> None:
        """Wait for the first answer, which comes when everything is analysed."""
        try:
            await job.worker.ask("page")
            job.state = "ready"
        except WorkerError as reason:
            job.state, job.problem = "failed", str(reason)
            job.worker.kill(why=job.problem)
        self._publish(job, {})

    # --- runs ---

    def run(
        self, test: str, to: Sequence[str], options: dict[str, Any], *, tags: Sequence[str] = (), beside: bool = False
    ) -> Job:
        """Start a test.

        Args:
            test: of the catalogue.
            to: the far ends.
            options: as of :func:`whydrop.start`.
            tags: of the recording in the library.
            beside: start it although another one runs.

        Raises:
            RequestError: another one runs, or as many as may.
        """
        self._require_room("run", beside=beside)
        about = {
            "test": test,
            "to": list(to),
            "started_s": time.time(),
            "tags": list(tags),
            **{name: options[name] for name in options.keys() - {"secret", "output", "parameters"}},
            "parameters": masked_options(options.get("parameters", {})),
        }
        job = self._start(secrets.token_hex(8), "run", about, Running, test, list(to), options)
        self._tasks.start_soon(self._begun, job)
        return job

    def batch(self, file: Path, options: dict[str, Any], *, beside: bool = False) -> Job:
        """Start a batch.

        Args:
            file: of the batch.
            options: as of :func:`whydrop.batch`.
            beside: start it although a test runs.

        Raises:
            RequestError: a test or a batch runs.
        """
        self._require_room("batch", beside=beside)
        about = {"file": str(file), "started_s": time.time(), "resume": bool(options.get("resume"))}
        return self._start(secrets.token_hex(8), "batch", about, Batching, str(file), options)

    def _require_room(self, kind: Kind, *, beside: bool) -> None:
        running = [job for one in _MEASURING for job in self.all(one) if job.state not in _ENDED]
        own = [job for job in running if job.kind == kind]
        if len(own) >= _MOST[kind]:
            raise RequestError(f"{_in_words(own[0])} is running: stop it first, or wait for its end", 409)
        if running and not beside:
            raise RequestError(
                f"{_in_words(running[0])} is running, and two tests at once disturb each other: wait for its end, stop "
                "it, or choose to run beside it",
                409,
            )

    async def _begun(self, job: Job) -> None:
        """Wait until the test is started, or says why it cannot be."""
        try:
            await job.worker.ask("live")
        except WorkerError as reason:
            # The end of a process is said where its events are read: the last of them say where its recording is.
            if job.worker.is_alive:
                job.state, job.problem = "failed", str(reason)
                self._publish(job, {})
                job.worker.kill()

    # --- all kinds ---

    def _start(self, own: str, kind: Kind, about: dict[str, Any], make: Callable[..., Work], *arguments: Any) -> Job:
        self._make_room(kind)
        job = Job(own, kind, Worker(make, *arguments, on_event=lambda event: self._reported(job, event)), about)
        self._jobs[own] = job
        self._tasks.start_soon(self._listen, job)
        return job

    def _make_room(self, kind: Kind) -> None:
        """Close what was used least recently, but no run that goes on."""
        most = _MOST_ENDED if kind in _MEASURING else _MOST[kind]
        own = [job for job in self._jobs.values() if job.kind == kind]
        closable = [job for job in own if kind not in _MEASURING or job.state in _ENDED]
        for job in closable[: max(0, len(closable) - most + 1)]:
            del self._jobs[job.id]
            job.worker.kill()

    async def _listen(self, job: Job) -> None:
        await job.worker.listen()
        if job.kind in _MEASURING and job.state not in _ENDED:
            await self._died(job)

    async def _died(self, job: Job) -> None:
        """Say what is left of a test when its process ended before it."""
        words = await anyio.to_thread.run_sync(job.worker.epitaph)
        epitaph = words[0].upper() + words[1:]
        job.state, recording = "failed", Path(job.progress.get("recording", ""))
        if "recording" in job.progress and recording.is_dir():
            job.problem = f"{epitaph}. What was measured until then is in the recording {recording.name}."
            await self._recorded(job, recording)
        elif job.kind == "batch":
            job.problem = f"{epitaph}. Resume the batch: runs that are complete are not run again."
            self._publish(job, {})
        else:
            job.problem = f"{epitaph}. Nothing was measured: start the test again."
            self._publish(job, {})

    def _reported(self, job: Job, event: dict[str, Any]) -> None:
        """Take over what the work reports. Points of live charts are passed on, and not kept here."""
        series = event.pop("series", {})
        job.state, job.problem = event.pop("state", job.state), event.pop("problem", job.problem)
        job.progress |= event
        self._publish(job, series)
        if job.kind in _MEASURING and job.state in _ENDED:
            self._close_ended(job.kind)
        if recording := event.get("recorded"):
            self._tasks.start_soon(self._listed, Path(recording))
        folder = event.get("folder") or (job.progress.get("recording") if job.state == "failed" else None)
        if folder is not None:
            self._tasks.start_soon(self._recorded, job, Path(folder))

    def _close_ended(self, kind: Kind) -> None:
        """End the processes of older runs: they only hold the points of their charts, which the recordings have."""
        ended = [job for job in self.all(kind) if job.state in _ENDED]
        for job in ended[_MOST_HELD:]:
            job.worker.kill("the points of this run are no longer kept: its recording has them")

    async def _recorded(self, job: Job, folder: Path) -> None:
        """List a recording; one that went elsewhere, since its disk was full, is no part of the library."""
        try:
            job.progress["entry"] = await self._enter(folder, job.about.get("tags", ()))
        except (Error, OSError):
            job.progress.pop("recording", None)
            where = f"The recording is in {folder}, outside the folders of this page: move it into one of them."
            job.problem = " ".join(filter(None, (job.problem, where)))
        self._publish(job, {})

    async def _listed(self, folder: Path) -> None:
        """List a recording of a batch; the library finds it later, too."""
        with contextlib.suppress(Error, OSError):
            await self._enter(folder, ())

    def _publish(self, job: Job, series: dict[str, Any]) -> None:
        self._events.publish(f"jobs/{job.id}", {**job.status(), **({"series": series} if series else {})})


def _identity(kind: Kind, paths: Sequence[Path], about: dict[str, Any]) -> str:
    stamps = [[str(path), path.stat().st_mtime_ns] for path in paths]
    return hashlib.blake2s(json.dumps([kind, stamps, about]).encode(), digest_size=8).hexdigest()


def _in_words(job: Job) -> str:
    if job.kind == "batch":
        return f"the batch {Path(job.about['file']).name}"
    to = ", ".join(job.about["to"])
    return f"the test {job.about['test']}" + (f" to {to}" if to else "")
