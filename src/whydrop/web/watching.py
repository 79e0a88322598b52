"""The connections of this host, looked at in a process of its own as long as somebody reads them."""

from __future__ import annotations

import time
from typing import Any

import anyio

from whydrop.web.endpoints import RequestError
from whydrop.web.events import Events
from whydrop.web.work.watching import Watching
from whydrop.web.workers import Worker, WorkerError

#: Its events: states of the connections, or ``{"problem": …}``.
TOPIC = "watch/connections"

# A page that is loaded again, or a script that asks now and then, goes on with the same process.
_GRACE_S = 10.0
_LOOK_EVERY_S = 1.0
_START_S = 30.0
# After a failure; a page that waits sees why meanwhile.
_RETRY_S = 30.0


class Watcher:
    """Starts the process when a reader comes, and ends it when the last one has gone."""

    def __init__(self, events: Events) -> None:
        """Not looking yet."""
        self._events = events
        self._until_s = 0.0
        self._worker: Worker | None = None
        self._changed = anyio.Event()
        self._problem = ""

    @property
    def is_looking(self) -> bool:
        """True while the process runs."""
        return self._worker is not None

    async def ask(self, method: str, **arguments: Any) -> Any:
        """Call a method of :class:`whydrop.web.work.watching.Watching`; the process is started if need be.

        Raises:
            RequestError: the connections cannot be seen.
            WorkerError: the process ended meanwhile.
        """
        self._until_s = time.monotonic() + _GRACE_S
        self._events.move()
        with anyio.move_on_after(_START_S):
            while self._worker is None and not self._problem:
                await self._changed.wait()
        if self._worker is None:
            raise RequestError(self._problem or "the process that looks at connections does not start", 503)
        return await self._worker.ask(method, **arguments)

    async def run(self) -> None:
        """Look whenever somebody reads; until cancelled."""
        while True:
            while not self._is_wanted():
                await self._events.moved()
            await self._look()
            if self._problem:
                await anyio.sleep(_RETRY_S)
            self._problem = ""

    def _is_wanted(self) -> bool:
        return self._events.readers_of(TOPIC) > 0 or time.monotonic() < self._until_s

    async def _look(self) -> None:
        worker = Worker(Watching, on_event=lambda state: self._events.publish_text(TOPIC, state))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(worker.listen)
                try:
                    await worker.ask("state")
                    self._set(worker)
                    await self._until_unwanted(worker)
                    self._set(None, "" if worker.is_alive else worker.epitaph())
                except WorkerError as reason:
                    self._set(None, str(reason))
                await worker.stop()
                tasks.cancel_scope.cancel()
        finally:
            self._worker = None
            worker.kill()

    async def _until_unwanted(self, worker: Worker) -> None:
        idle_s = 0.0
        while worker.is_alive and idle_s < _GRACE_S:
            await anyio.sleep(_LOOK_EVERY_S)
            idle_s = 0.0 if self._is_wanted() else idle_s + _LOOK_EVERY_S

    def _set(self, worker: Worker | None, problem: str = "") -> None:
        self._worker, self._problem = worker, problem
        if problem:
            self._events.publish(TOPIC, {"problem": problem})
        self._changed.set()
        self._changed = anyio.Event()
