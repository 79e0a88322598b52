"""The rolling capture of a server: one at a time, in a process of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from whydrop.web.endpoints import RequestError
from whydrop.web.events import Events
from whydrop.web.work.rolling import Rolling
from whydrop.web.workers import Worker, WorkerError

TOPIC = "rolling"
Enter = Callable[[Path], Awaitable[str]]


class RollingCapture:
    """The rolling capture, if one runs, and the state of the last one.

    Attributes:
        state: as :meth:`whydrop.Roll.status` has it, with ``entry`` of each kept capture; empty before the first.
    """

    def __init__(self, events: Events, tasks: anyio.abc.TaskGroup, enter: Enter) -> None:
        """None yet; ``enter`` lists a file in the library, and gives its identifier."""
        self._events = events
        self._tasks = tasks
        self._enter = enter
        self._worker: Worker | None = None
        self._turn = anyio.Lock()
        self._entries: dict[str, str] = {}
        self.state: dict[str, Any] = {}

    async def start(self, options: dict[str, Any]) -> None:
        """Start one; ``options`` are those of :func:`whydrop.roll`.

        Raises:
            RequestError: one runs.
            WorkerError: packets cannot be captured; the message says what to type.
        """
        async with self._turn:
            if self._worker is not None:
                raise RequestError("a rolling capture runs: stop it first", 409)
            worker = Worker(Rolling, options, on_event=self._take)
            self._tasks.start_soon(self._listen, worker)
            try:
                state = await worker.ask("status")
            except WorkerError:
                worker.kill("the rolling capture did not start")
                raise
            self._worker = worker
            self._take(state)

    async def keep(self) -> None:
        """Keep the window around now.

        Raises:
            RequestError: none runs.
        """
        self._take(await self._running().ask("keep"))

    async def stop(self) -> None:
        """End it, when everything that is kept is explained.

        Raises:
            RequestError: none runs.
        """
        async with self._turn:
            worker = self._running()
            self._take(await worker.ask("stop"))
            self._worker = None
            worker.kill("the rolling capture was stopped")

    async def end(self) -> None:
        """End it at once, as the server ends."""
        if (worker := self._worker) is not None:
            self._worker = None
            await worker.stop()

    def _running(self) -> Worker:
        if self._worker is None:
            raise RequestError("no rolling capture runs: start one first", 409)
        return self._worker

    async def _listen(self, worker: Worker) -> None:
        await worker.listen()
        if self._worker is worker:
            self._worker = None
            problem = f"{worker.epitaph()}. Kept captures stay: start the rolling capture again."
            self._take({**self.state, "running": False, "problem": problem})

    def _take(self, state: dict[str, Any]) -> None:
        for kept in state["kept"]:
            for path in kept["paths"] if kept["state"] != "explaining" else ():
                if path not in self._entries:
                    self._entries[path] = ""
                    self._tasks.start_soon(self._list, path)
            kept["entries"] = [found for path in kept["paths"] if (found := self._entries.get(path))]
        self.state = state
        self._events.publish(TOPIC, state)

    async def _list(self, path: str) -> None:
        self._entries[path] = await self._enter(Path(path))
        self._take(self.state)
