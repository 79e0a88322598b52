"""The guard of programs: a process of its own that ends them when whydrop dies before they do (``kill -9``, no memory).

One guard serves all programs of a whydrop process. It is started with the first of them::

    python -m whydrop.runtime.guarding

Its standard input has a line for each program that begins (``+LEADER``) and for each that was ended and reaped
(``-LEADER``). The input ends when the parent dies, however it dies; the guard then ends the programs that are left.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from whydrop.runtime import process_groups

# From SIGTERM to SIGKILL.
_MERCY_S = 5.0
_LOOK_AGAIN_S = 0.05


class _Guard:
    """The guard of this process, started with the first program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError):
            process = self._started()
            assert process.stdin is not None
            process.stdin.write(line.encode())
            process.stdin.flush()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            # In a session of its own: what ends the terminal's programs does not end it.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "whydrop.runtime.guarding"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        return self._process


_guard = _Guard()


def start(words: Sequence[str] | str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a program as the leader of a group that ends if this process dies before :func:`forget`.

    Where no guard can be started, the program runs without. ``options`` are of :class:`subprocess.Popen`, which also
    says what is raised.
    """
    # The guard first: a program that has begun is without it for no longer than a line takes.
    _guard.send("")
    process: subprocess.Popen[bytes] = subprocess.Popen(words, start_new_session=True, **options)
    _guard.send(f"+{process.pid}\n")
    return process


def forget(leader: int) -> None:
    """The group was ended: its number may be another's from now on."""
    _guard.send(f"-{leader}\n")


def main() -> None:
    """Read which groups begin and end until the parent dies, which closes the pipe; then end those that are left."""
    leaders: dict[int, int] = {}
    for line in sys.stdin:
        _note(leaders, line)
    _end([leader for leader, descriptor in leaders.items() if _is_its_own(leader, descriptor)])


def _note(leaders: dict[int, int], line: str) -> None:
    leader = int(line[1:])
    if line[0] == "+":
        with contextlib.suppress(OSError):
            leaders[leader] = os.pidfd_open(leader)
    elif leader in leaders:
        os.close(leaders.pop(leader))


def _is_its_own(leader: int, descriptor: int) -> bool:
    """True unless the leader has ended and another process has its number: then all of its group had ended too."""
    has_ended = bool(select.select([descriptor], [], [], 0)[0])
    return not has_ended or leader not in process_groups.members(leader)


def _end(groups: list[int]) -> None:
    until = time.monotonic() + _MERCY_S
    for group in groups:
        _signal(group, signal.SIGTERM)
    while any(any(process_groups.members(group)) for group in groups):
        if time.monotonic() > until:
            for group in groups:
                _signal(group, signal.SIGKILL)
            return
        time.sleep(_LOOK_AGAIN_S)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    main()
