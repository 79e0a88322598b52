"""Heavy work in processes of its own: one holds an analysis, or a running test, and answers questions about it.

A process that dies, by its input or by the kernel's hand, takes only its own work along; one that is no longer wanted
is ended. Questions to one process are answered one after the other.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, ClassVar, Protocol

import anyio
import anyio.to_thread

from whydrop.errors import Error
from whydrop.web.parents import end_with_parent

# The server is no child of a terminal that its processes share: they are spawned, not forked from its threads.
_CONTEXT = multiprocessing.get_context("spawn")
_ENDING_S = 5.0
# Longest time for a test to end, and its recording to be whole, when the server was killed.
_KEEPING_S = 60.0

Emit = Callable[[Any], None]


class WorkerError(Error):
    """A process could not do its work; the message is for the user."""


class WorkerDefectError(WorkerError):
    """A process met an unforeseen error, which the log has; the message names it."""


class Work(Protocol):
    """Work in a process: made by ``make(emit)``, with methods that take and return plain values, or bytes."""

    def close(self) -> None:
        """End the work, keeping what was measured. The process ends behind it."""


@dataclass(frozen=True)
class _Answer:
    value: Any = None
    problem: str = ""
    is_defect: bool = False


class Worker:
    """A process with some work, seen from the server's event loop.

    Attributes:
        started: processes of this server so far.
        died: those of them that were not ended by it.
    """

    started: ClassVar[int] = 0
    died: ClassVar[int] = 0

    def __init__(self, make: Callable[..., Work], *arguments: Any, on_event: Callable[[Any], None]) -> None:
        """Start the process, which calls ``make(emit, *arguments)`` first.

        Args:
            make: importable, as are the arguments.
            arguments: of ``make``.
            on_event: called in the event loop with everything that the work emits.
        """
        self._ours, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._on_event = on_event
        self._why = ""
        self._is_wanted = True
        Worker.started += 1
        self._turn = anyio.Lock()
        self._answers: anyio.abc.ObjectReceiveStream[_Answer]
        self._send_answer, self._answers = anyio.create_memory_object_stream[_Answer](1)

    async def listen(self) -> None:
        """Read what the process sends until it ends; a task of the server runs this."""
        while True:
            try:
                kind, value = await anyio.to_thread.run_sync(self._ours.recv, abandon_on_cancel=True)
            except (EOFError, OSError):
                break
            if kind == "event":
                self._on_event(value)
            else:
                await self._send_answer.send(value)
        Worker.died += self._is_wanted
        self._send_answer.close()

    async def ask(self, method: str, **arguments: Any) -> Any:
        """Call a method of the work.

        Raises:
            WorkerError: the work says why it cannot, or its process has ended.
        """
        async with self._turn:
            try:
                self._ours.send((method, arguments))
                answer = await self._answers.receive()
            except (OSError, anyio.EndOfStream):
                raise WorkerError(self.epitaph()) from None
        if answer.problem:
            raise (WorkerDefectError if answer.is_defect else WorkerError)(answer.problem)
        return answer.value

    async def stop(self) -> None:
        """Let the work end, and then its process."""
        self._is_wanted = False
        with contextlib.suppress(WorkerError, ValueError):
            with anyio.move_on_after(_ENDING_S):
                await self.ask("close")
        self.kill()

    def kill(self, why: str = "") -> None:
        """End the process at once; ``why`` is what questions to it are then answered by."""
        self._why, self._is_wanted = self._why or why, False
        with contextlib.suppress(ValueError):
            self._process.kill()
        self._ours.close()

    @property
    def is_alive(self) -> bool:
        """True while the process runs."""
        with contextlib.suppress(ValueError):
            return self._process.is_alive()
        return False

    def epitaph(self) -> str:
        """How the process ended, in words."""
        if self._why:
            return self._why
        self._process.join(1)
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "the process of this work was killed: by a user, or by the kernel because memory ran out"
        return f"the process of this work ended (exit status {code})"


def _serve(connection: Connection, make: Callable[..., Work], arguments: tuple[Any, ...]) -> None:
    """The process: makes the work, answers until the server closes the connection."""
    # Ctrl-C in the server's terminal is for the server, which then asks its processes to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What takes a while to be made, or to answer, does not see the end of the connection. A test keeps its recording.
    end_with_parent(_KEEPING_S)
    sending = threading.Lock()

    def send(kind: str, value: Any) -> None:
        with sending, contextlib.suppress(OSError):
            connection.send((kind, value))

    work: Work | None = None
    problem = _Answer()
    try:
        work = make(lambda event: send("event", event), *arguments)
    except Exception as reason:
        problem = _problem(reason)
    while True:
        try:
            method, given = connection.recv()
        except (EOFError, OSError):
            break
        send("answer", problem if work is None else _answer(work, method, given))
        if method == "close":
            return
    # The server has gone: what was measured is kept.
    if work is not None:
        work.close()


def _answer(work: Work, method: str, arguments: dict[str, Any]) -> _Answer:
    try:
        return _Answer(getattr(work, method)(**arguments))
    except Exception as reason:
        return _problem(reason)


def _problem(reason: Exception) -> _Answer:
    if isinstance(reason, (Error, ValueError, OSError)):
        return _Answer(problem=str(reason) or type(reason).__name__)
    from whydrop.web import defects

    return _Answer(problem=defects.noted(reason, "in the process of a job"), is_defect=True)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))
