"""Files described in processes: a file that ends its process, or holds it up, is listed with that as the reason."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as NoAnswerError
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import TypeVar

from whydrop.web.library.describing import Description, describe
from whydrop.web.library.finding import Candidate, candidate
from whydrop.web.parents import end_with_parent

Described = list[tuple[Candidate, Description | None]]

# Entries that are described, and written, at once.
BATCH = 64
# Descriptions take milliseconds; those of hostile files could take for ever.
_PATIENCE_S = 120.0


def describe_all(root: Path, batch: list[Candidate]) -> Described:
    """Describe some entries in this process."""
    return [(one, _described(root, one)) for one in batch]


def _described(root: Path, one: Candidate) -> Description | None:
    """Describe an entry; a defect of ours is its problem, and not that of all others."""
    try:
        return describe(root, one)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as reason:
        # A panic of the core is no Exception.
        words = str(reason).partition("\n")[0][:200]
        problem = f"cannot be read, by a defect in whydrop: {type(reason).__name__}: {words}"
        return Description(Path(one.path).name, problem=problem)


def describe_one(root: Path, path: Path) -> Described:
    """Describe a file or folder in this process; an empty list if it is of no kind that is listed."""
    found = candidate(root, path)
    return describe_all(root, [found]) if found else []


class DescribingPool:
    """Some processes that describe files."""

    def __init__(self, processes: int, patience_s: float = _PATIENCE_S) -> None:
        """None is started yet.

        Args:
            processes: as many at a time.
            patience_s: the longest that one batch may take.
        """
        self._processes = processes
        self._patience_s = patience_s
        self._pool: ProcessPoolExecutor | None = None

    def described(self, root: Path, new: Iterable[Candidate]) -> Iterator[Described]:
        """Describe entries, batch by batch."""
        waiting: deque[tuple[list[Candidate], Future[Described]]] = deque()
        batches = _batches(new)
        while True:
            for batch in islice(batches, max(0, 2 * self._processes - len(waiting))):
                waiting.append((batch, self._submit(root, batch)))
            if not waiting:
                return
            batch, answer = waiting.popleft()
            try:
                yield answer.result(self._patience_s)
            except (BrokenProcessPool, NoAnswerError):
                self.close()
                yield self._one_by_one(root, batch)
                # The others ended with their processes.
                waiting = deque((other, self._submit(root, other)) for other, _ in waiting)

    def _one_by_one(self, root: Path, batch: list[Candidate]) -> Described:
        found: Described = []
        for one in batch:
            try:
                found += self._submit(root, [one]).result(self._patience_s / 10)
            except (BrokenProcessPool, NoAnswerError) as reason:
                self.close()
                did = "ended its process" if isinstance(reason, BrokenProcessPool) else "came to no end"
                name = Path(one.path).name
                found.append((one, Description(name, problem=f"cannot be read: reading it {did}")))
        return found

    def _submit(self, root: Path, batch: list[Candidate]) -> Future[Described]:
        # The server has threads: its processes are spawned, not forked.
        context = multiprocessing.get_context("spawn")
        for _ in range(2):
            self._pool = self._pool or ProcessPoolExecutor(self._processes, context, end_with_parent)
            with contextlib.suppress(BrokenProcessPool):
                return self._pool.submit(describe_all, root, batch)
            self.close()
        raise BrokenProcessPool("no process can be started")

    def close(self) -> None:
        """End the processes, whatever they do."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


Item = TypeVar("Item")


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
