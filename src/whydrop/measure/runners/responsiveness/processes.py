"""The two processes of a measurement: started, sent commands, read, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Any, Self

from whydrop.measure.runners.process import Splitter

ROLES = ("load", "foreign")
_ENDS_WITHIN_S = 1.0
_READY_WITHIN_S = 20.0
_READ_BYTES = 1 << 16
_LAST_WORDS_BYTES = 2000


class WorkerEndedError(Exception):
    """A process of the measurement ended before its time, or the load broke off; the message says why."""


class Workers:
    """One process for the load and one for probes on new connections; they end with the block."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._errors: dict[str, IO[bytes]] = {}
        self._splitters = {role: Splitter() for role in ROLES}
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        try:
            for role in ROLES:
                self._begin(role)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, reason: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def wait_until_ready(self, is_stopping: Callable[[], bool]) -> bool:
        """Wait until both processes have loaded what they need; false if it is to end before that.

        Raises:
            WorkerEndedError: one of them has ended, or takes too long.
        """
        give_up_s = time.monotonic() + _READY_WITHIN_S
        waiting = set(ROLES)
        while waiting:
            if is_stopping():
                return False
            waiting -= {role for role, event in self.events(0.1) if event["event"] == "ready"}
            if waiting and time.monotonic() > give_up_s:
                raise WorkerEndedError(f"this host did not start a process within {_READY_WITHIN_S:g} s: is it busy?")
        return True

    def command(self, role: str, **words: Any) -> None:
        """Send a process a command."""
        self._write(role, words)

    def events(self, wait_s: float) -> Iterator[tuple[str, dict[str, Any]]]:
        """The documents that the processes print within a time.

        Raises:
            WorkerEndedError: one of them has ended.
        """
        for key, _ in self._selector.select(wait_s):
            role = str(key.data)
            data = os.read(key.fd, _READ_BYTES)
            if not data:
                raise WorkerEndedError(f"the process of the {_NAMES[role]} ended: {self._last_words(role)}")
            for line in self._splitters[role].feed(data):
                yield role, json.loads(line)

    def _begin(self, role: str) -> None:
        # Two of them are apart in time by half the gap between two probes of one kind, so that both kinds interleave.
        gap_ns = round(1e9 / self._job["pairs_per_s"])
        job = {**self._job, "role": role, "first_probe_ns": gap_ns if role == "load" else gap_ns // 2}
        self._errors[role] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in _end
        process = subprocess.Popen(
            [sys.executable, "-m", "whydrop.measure.runners.responsiveness.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors[role],
            start_new_session=True,
        )
        self._processes[role] = process
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, role)
        self._write(role, job)

    def _write(self, role: str, words: dict[str, Any]) -> None:
        pipe = self._processes[role].stdin
        assert pipe is not None
        # One that has ended says so by the end of what it prints.
        with contextlib.suppress(BrokenPipeError):
            pipe.write(json.dumps(words).encode() + b"\n")
            pipe.flush()

    def _last_words(self, role: str) -> str:
        file = self._errors[role]
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LAST_WORDS_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else f"exit status {self._processes[role].poll()}"

    def _end(self) -> None:
        for process in self._processes.values():
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for file in self._errors.values():
            file.close()
        self._selector.close()


_NAMES = {"load": "load", "foreign": "probes on new connections"}
