"""Workers that explain captures side by side, and what becomes of those that die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.explaining.many import worker
from whydrop.explaining.many.worker import Task

if TYPE_CHECKING:
    from whydrop.explaining.many.rows import Frames

_SPAWN = multiprocessing.get_context("spawn")

# A worker that died may have been the victim of another's hunger: the capture is tried again, at the end, twice.
MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class CostLimits:
    """Cost limits of explaining one capture."""

    time_s: float = 600.0
    memory_bytes: int | None = None  # of a worker's own; None: the machine's, shared among the workers

    @staticmethod
    def memory_for(workers: int) -> int:
        """Nine tenths of the machine's memory, shared among so many workers."""
        return int(0.9 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / max(1, workers))


@dataclass(frozen=True)
class Outcome:
    """Outcome of one capture."""

    path: Path
    status: str  # done, known (explained before), failed, unreadable
    frames: Frames = field(default_factory=dict)  # of done and failed
    message: str | None = None  # of failed and unreadable
    retries: int = 0


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    task: Task | None = None
    began: float = 0.0
    digest: str | None = None
    overdue: bool = False


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def explained(
    paths: Iterable[Path],
    known: Collection[str],
    *,
    workers: int | None = None,
    limits: CostLimits | None = None,
    places: Sequence[int] | None = None,
) -> Iterator[Outcome]:
    """Explain captures, each in one of several worker processes; outcomes come in the order in which they are ready.

    Args:
        paths: of the captures.
        known: the SHA-256 of those that need not be explained again. Those that are explained here are known from
            then on: two copies of a file are explained once.
        workers: how many; by default as many as there are processors.
        limits: what one capture may cost.
        places: for each worker the processor to stay on, counted round. By default several workers are spread over
            all of them, and a single one may use them all.

    A worker that is killed, or that takes more than its limits, costs its capture another try; after
    `MOST_ATTEMPTS` the capture has failed. A caller that stops before the end of this iterator must close it
    (``contextlib.closing``), which ends the workers.
    """
    count = workers or processors()
    pool = _Pool(count, set(known), limits or CostLimits(), places)
    try:
        yield from pool.run(deque(Task(path) for path in paths))
    finally:
        pool.end()


class _Pool:
    def __init__(self, count: int, known: set[str], limits: CostLimits, places: Sequence[int] | None) -> None:
        self.known = known
        self.limits = limits
        self.memory_bytes = limits.memory_bytes or CostLimits.memory_for(count)
        allowed = sorted(os.sched_getaffinity(0))
        wanted = places or (range(count) if count > 1 else ())
        self.places: list[int | None] = [allowed[place % len(allowed)] for place in wanted] or [None]
        self.workers: list[_Worker | None] = [None] * count

    def run(self, tasks: deque[Task]) -> Iterator[Outcome]:
        while tasks or any(one is not None and one.task is not None for one in self.workers):
            for place in range(len(self.workers)):
                if tasks:
                    self._occupy(place, tasks)
            busy = {one.pipe: place for place, one in enumerate(self.workers) if one is not None and one.task}
            for ready in wait(list(busy), timeout=self._patience()):
                assert isinstance(ready, Connection)
                yield from self._hear(busy[ready], tasks)
            self._end_overdue()

    def _occupy(self, place: int, tasks: deque[Task]) -> None:
        one = self.workers[place]
        if one is None:
            one = self.workers[place] = self._start(place)
        if one.task is None:
            task = tasks.popleft()
            one.task, one.began, one.digest = task, time.monotonic(), None
            try:
                one.pipe.send(task)
            except OSError:
                return  # it died while it was idle: hearing of it gives the task back

    def _start(self, place: int) -> _Worker:
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=worker.serve,
            args=(theirs, self.memory_bytes, self.places[place]),
            name="whydrop-explain",
            daemon=True,
        )
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _patience(self) -> float:
        """Seconds until the first worker is overdue."""
        ends = [one.began + self.limits.time_s for one in self.workers if one is not None and one.task is not None]
        return max(0.0, min(ends, default=time.monotonic()) - time.monotonic()) + 0.01

    def _hear(self, place: int, tasks: deque[Task]) -> Iterator[Outcome]:
        one = self.workers[place]
        assert one is not None
        assert one.task is not None
        try:
            kind, content = one.pipe.recv()
            outcome = self._understand(one, kind, content)
        except (EOFError, OSError):
            outcome = self._bury(place, one, tasks)
        if outcome is not None:
            one.task = None
            yield outcome

    def _understand(self, one: _Worker, kind: str, content: Any) -> Outcome | None:
        task = one.task
        assert task is not None
        if kind == "hashed":
            one.digest = content
            # A capture that is being tried again is among the known because of its first try.
            wanted = content not in self.known or task.attempt > 0
            self.known.add(content)
            one.pipe.send(wanted)
            return None if wanted else Outcome(task.path, "known")
        if kind == "unreadable":
            return Outcome(task.path, "unreadable", message=content, retries=task.attempt)
        frames = worker.unpacked(content)
        status, message = frames["captures"].row(0, named=True)["status"], frames["captures"]["message"][0]
        done = "failed" if status == "failed" else "done"
        return Outcome(task.path, done, frames, message, task.attempt)

    def _bury(self, place: int, one: _Worker, tasks: deque[Task]) -> Outcome | None:
        one.process.join()
        one.pipe.close()
        self.workers[place] = None
        task = one.task
        assert task is not None
        one.task = None
        if task.attempt + 1 < MOST_ATTEMPTS and not one.overdue:
            tasks.append(Task(task.path, task.attempt + 1))
            return None
        return self._failed(task, one)

    def _failed(self, task: Task, one: _Worker) -> Outcome:
        from whydrop.explaining.many import rows

        if one.overdue:
            why = f"given up after {self.limits.time_s:g} s (a longer limit: --time-limit)"
        else:
            why = f"the process that explained it {_end(one.process.exitcode)}, {task.attempt + 1} times"
        try:
            status = task.path.stat()
            digest = one.digest or worker.sha256(task.path)
        except OSError as reason:
            return Outcome(task.path, "unreadable", message=f"{rows.printed(task.path)}: {reason.strerror or reason}")
        file = rows.of_file(task.path, status, digest)
        return Outcome(task.path, "failed", rows.of_failure(file, why), why, task.attempt)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for one in self.workers:
            if one is not None and one.task is not None and now > one.began + self.limits.time_s:
                one.overdue = True
                one.process.kill()

    def end(self) -> None:
        for one in self.workers:
            if one is not None:
                one.process.kill()
        for one in self.workers:
            if one is not None:
                one.process.join()
                one.pipe.close()


def _end(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"ended with status {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    hint = {"SIGKILL": " (out of memory?)", "SIGABRT": " (out of its memory limit?)"}.get(name, "")
    return f"was ended by {name}{hint}"
