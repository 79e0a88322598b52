"""Programs that lead a process group of their own, ended with all that they started.

A process that has ended keeps its number until its parent waits for it (reaps it), and its group keeps the same number.
Afterwards both may be another's. So the leader is asked after without being reaped (``WNOWAIT``, waitid(2)), and reaped
when its group has been signalled for the last time.
"""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from whydrop.runtime.masking import masked_command

# From SIGKILL to the end of all processes that may be killed.
_DEAD_WITHIN_S = 1.0
_LOOK_AGAIN_S = 0.01
# A signal that comes in the moment before a wait, or to another thread, does not end the wait: so none is longer.
_DEAF_S = 0.2
_LONGEST_COMMAND_CHARACTERS = 200


@dataclass(frozen=True)
class Left:
    """A process of a group that runs on although it was killed.

    Attributes:
        user: its owner, if that is another user: as a rule because of ``sudo``.
    """

    pid: int
    command: str
    user: str | None

    def __str__(self) -> str:
        """The process that runs on, why, and what to do about it."""
        why = f"belongs to {self.user}, and whydrop may not end it" if self.user else "did not end when killed"
        kill = "sudo kill" if self.user else "kill"
        return f"process {self.pid} ({self.command}) is left running: it {why}; end it by: {kill} {self.pid}"


def has_ended(leader: int) -> bool:
    """True if a child has, without reaping it; so has one that was reaped."""
    try:
        return os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def wait_for_end(leader: int, timeout_s: float | None = None) -> bool:
    """Wait for the end of a child without reaping it; whether it has ended within ``timeout_s``."""
    until = math.inf if timeout_s is None else time.monotonic() + timeout_s
    with _watched(leader) as look:
        while not has_ended(leader):
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            look(min(left_s, _DEAF_S))
    return True


@contextlib.contextmanager
def _watched(leader: int) -> Iterator[Callable[[float], object]]:
    """A function that waits for a child's end, at most for some seconds."""
    try:
        descriptor = os.pidfd_open(leader)
    except OSError:
        # Reaped already, or a kernel without such descriptors.
        yield lambda seconds: time.sleep(min(seconds, _LOOK_AGAIN_S))
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        yield lambda seconds: poll.poll(seconds * 1000)
    finally:
        os.close(descriptor)


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal all processes of the group that may be signalled; none where the leader was reaped."""
    if _is_ours(leader):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)


def end(leader: int, mercy_s: float) -> list[Left]:
    """Ask a group to end (SIGTERM), kill what does not within ``mercy_s``, and return who is left."""
    signal_group(leader, signal.SIGTERM)
    until = time.monotonic() + mercy_s
    # A shell dies at once, while what it started (such as tcpdump) still writes down what it has.
    while (not has_ended(leader) or living(leader)) and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_S)
    return kill(leader)


def kill(leader: int) -> list[Left]:
    """Kill a group (SIGKILL), and return who is left after a moment."""
    signal_group(leader, signal.SIGKILL)
    until = time.monotonic() + _DEAD_WITHIN_S
    while (left := living(leader)) and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_S)
    return [_described(pid) for pid in left]


def living(leader: int) -> list[int]:
    """The processes of a group that have not ended; none where the leader was reaped."""
    return list(members(leader)) if _is_ours(leader) else []


def _is_ours(leader: int) -> bool:
    """True if the number of a child, and of the group that it leads, is still its own: it has not been reaped."""
    try:
        os.waitid(os.P_PID, leader, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def members(group: int) -> Iterator[int]:
    """The processes that have this group and have not ended."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # Behind the name, which may hold anything: state, parent, group (proc(5)).
            state, _, its_group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                yield int(stat.parent.name)


def _described(pid: int) -> Left:
    words: list[str] = []
    user: str | None = None
    with contextlib.suppress(OSError, ValueError):
        place = Path(f"/proc/{pid}")
        words = (place / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        # Real, effective, saved, of the file system (proc(5)).
        uid = int((place / "status").read_text(errors="replace").partition("\nUid:")[2].split()[1])
        user = _name(uid) if uid != os.geteuid() else None
    command = " ".join(masked_command(words)).strip()
    return Left(pid, command[:_LONGEST_COMMAND_CHARACTERS] or "of an unknown name", user)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
