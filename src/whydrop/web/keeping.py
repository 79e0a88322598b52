"""The library kept up to date while the server runs, with its progress as events."""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as NoAnswerError
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from whydrop.errors import Error
from whydrop.web import defects
from whydrop.web.events import Events
from whydrop.web.library.describing_pool import DescribingPool
from whydrop.web.library.library import Library
from whydrop.web.parents import end_with_parent
from whydrop.web.workers import WorkerError, processors

# The folders are looked at as often, as files come and go; less often where a look takes long.
_REFRESH_S = 5.0
_SHARE = 0.05
# Progress is for people.
_PROGRESS_S = 0.3
# The longest that one file's metadata or one table's rows may take.
_PATIENCE_S = 60.0

Answer = TypeVar("Answer")


class Keeper:
    """Looks at the folders of a library now and then, and reads single files for requests, in processes."""

    def __init__(self, library: Library, events: Events) -> None:
        """Nothing is looked at yet.

        Args:
            library: to keep up.
            events: that pages follow.
        """
        self._library = library
        self._events = events
        self._progress: tuple[int, int] | None = None
        self._problem = ""
        self._has_looked = False
        self._reported_s = 0.0
        self._asked: ProcessPoolExecutor | None = None

    async def run(self) -> None:
        """Look at the folders now and then, without an end."""
        pool = DescribingPool(processors())
        try:
            while True:
                began_s = time.monotonic()
                await anyio.to_thread.run_sync(self._look, pool, abandon_on_cancel=True)
                await anyio.sleep(max(_REFRESH_S, (time.monotonic() - began_s) * (1 / _SHARE - 1)))
        finally:
            pool.close()
            self.close()

    def _look(self, pool: DescribingPool) -> None:
        """Look once, in a thread; a full disk, or another program's lock, is reported and tried again."""
        before = self._problem
        try:
            found = self._library.refresh(pool, self._on_progress)
            self._problem = ""
        except (Error, OSError, sqlite3.Error, BrokenProcessPool) as reason:
            found, self._problem = None, f"the folders could not be looked at: {reason}"
        except Exception as reason:
            # A defect of ours: the server goes on.
            words = defects.noted(reason, "in a look at the folders")
            found, self._problem = None, f"the folders could not be looked at: {words}"
        is_first, self._has_looked = not self._has_looked, True
        was_going_on, self._progress = self._progress is not None, None
        if found is None or is_first or was_going_on or found.removed or before != self._problem:
            self._tell()

    def _on_progress(self, done: int, of: int) -> None:
        self._progress = (done, of)
        now_s = time.monotonic()
        if now_s - self._reported_s >= _PROGRESS_S:
            self._reported_s = now_s
            self._tell()

    async def tell_soon(self) -> None:
        """Send the state to all pages."""
        self._publish(await anyio.to_thread.run_sync(self.status))

    def _tell(self) -> None:
        """Send the state to all pages, from a thread."""
        anyio.from_thread.run_sync(self._publish, self.status())

    def _publish(self, status: dict[str, Any]) -> None:
        self._events.publish("library", status)

    def status(self) -> dict[str, Any]:
        """State of the library: entries, how far a look is, and problems, as values of JSON."""
        done, of = self._progress or (None, None)
        problems = self._library.problems()
        return {
            "count": self._library.count(), "others": self._library.others(),
            "has_looked": self._has_looked, "done": done, "of": of,
            "problems": [*problems, self._problem] if self._problem else problems,
        }  # fmt: skip

    async def ask(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Call a function in a process of its own.

        Args:
            function: importable.
            arguments: of the function.

        Raises:
            WorkerError: its process ended, or it came to no end.
            Error: as the function raises it.
        """
        if self._asked is None:
            self._asked = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent)
        asked = self._asked
        try:
            return await anyio.to_thread.run_sync(
                lambda: asked.submit(function, *arguments).result(_PATIENCE_S), abandon_on_cancel=True
            )
        except (BrokenProcessPool, NoAnswerError) as reason:
            if asked is self._asked:
                self.close()
            did = "ended its process" if isinstance(reason, BrokenProcessPool) else "took too long"
            raise WorkerError(f"reading this {did}: the file is damaged, or too large for a look") from None

    def close(self) -> None:
        """End the process that answers requests."""
        pool, self._asked = self._asked, None
        if pool is not None:
            processes = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()
