"""The guard of programs: a process of its own that ends them when whydrop dies before they do (``kill -9``, no memory).

One guard serves all programs of a whydrop process. It is started with the first of them::

    python -m whydrop.runtime.guarding

Its standard input has a line for each program that begins (``+LEADER``), which the program's own process writes before
it becomes the program, and for each that was ended and reaped (``-LEADER``). The input ends when the parent has died,
however it died, and every such process has written its line; the guard then ends the programs that are left.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whydrop.runtime import process_groups

# A process that writes its line and becomes the program. The guard reads on until each of them has closed its end.
_REGISTERED = ("/bin/sh", "-c", 'echo "+$$" >&0; exec "$@" </dev/null', "sh")
# From SIGTERM to SIGKILL.
_MERCY_S = 5.0
_LOOK_AGAIN_S = 0.05


class _Guard:
    """The guard of this process, started with the first program."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def entrance(self) -> int | None:
        """A descriptor, of the caller's own, to write lines to; ``None`` if no guard can be started."""
        with self._lock:
            try:
                process = self._started()
            except OSError:
                return None
            assert process.stdin is not None
            return os.dup(process.stdin.fileno())

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


def start(
    words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a program as the leader of a group that ends if this process dies before :func:`forget`.

    Its standard input is empty. Where no guard can be started, the program runs without.

    Args:
        words: the program and its arguments.
        cwd: where it runs.
        env: its environment, if not that of this process.
        options: others of :class:`subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
    """
    entrance = _guard.entrance() if _is_found(words[0], cwd, env) else None
    if entrance is None:
        return subprocess.Popen(words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, start_new_session=True, **options)
    try:
        return subprocess.Popen(
            [*_REGISTERED, *words], cwd=cwd, env=env, stdin=entrance, start_new_session=True, **options
        )
    finally:
        os.close(entrance)


def _is_found(program: str, cwd: Path | None, env: Mapping[str, str] | None) -> bool:
    """False if starting the program will fail, which says why."""
    path = (os.environ if env is None else env).get("PATH", os.defpath)
    return shutil.which(str((cwd or Path()) / program) if os.sep in program else program, path=path) is not None


def forget(leader: int) -> None:
    """The group was ended: its number may be another's from now on."""
    entrance = _guard.entrance()
    if entrance is not None:
        with contextlib.suppress(OSError):
            os.write(entrance, f"-{leader}\n".encode())
        os.close(entrance)


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
