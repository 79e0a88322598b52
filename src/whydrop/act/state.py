"""The state file: the changes that whydrop has made to this host, and until when they stay.

It is written before the first change and removed when the last one is rolled back. Its readers and writers take a lock:
the run that makes a change, the guard that watches the run, and the next start.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from whydrop.act.pauses import Pauses
from whydrop.act.snapshot import Request, Snapshot
from whydrop.errors import Error
from whydrop.runtime import durable

# As long as it is tried, the run that tries must live; then there is a time until which somebody must say "keep".
Phase = Literal["tried", "until", "kept"]


class StateError(Error):
    """The state file cannot be used; the message names it and says what to do."""


@dataclass(frozen=True)
class Entry:
    """One interface that was changed.

    Attributes:
        interface: its name, for people.
        host: the far end, as the user named it.
        words: what was changed.
        snapshot: the queues before; see :class:`Snapshot`; or flow control, see :class:`Pauses`.
        undo: messages that roll the change back; see :class:`Request`.
        owns: a handle of ours: whether what stands there is still ours.
        commands: of tc, ip or ethtool, that made the change.
        owner: number and start (in ticks since boot) of the process that tries it.
        until_s: of the clock since boot (``CLOCK_BOOTTIME``), after which it is rolled back unless kept.
        boot, network: of which boot and of which network namespace it is; of others it is no matter.
    """

    interface: str
    host: str
    words: str
    snapshot: dict[str, Any]
    undo: list[list[Any]]
    owns: int
    commands: list[str]
    phase: Phase
    owner: tuple[int, int]
    until_s: float
    boot: str
    network: str

    def is_due(self) -> bool:
        """True if its time is over, or its run has ended."""
        if self.phase == "kept":
            return False
        return now_s() >= self.until_s or (self.phase == "tried" and not lives(self.owner))

    def requests(self) -> list[Request]:
        """The requests that take it back."""
        return [Request.from_json(one) for one in self.undo]

    def before(self) -> Snapshot | Pauses:
        """The queues, or flow control, as they were."""
        if "flow_control" in self.snapshot:
            return Pauses.from_json(self.snapshot)
        return Snapshot.from_json(self.snapshot)

    def left_s(self) -> float:
        """Seconds until it is rolled back."""
        return max(0.0, self.until_s - now_s())


def now_s() -> float:
    """Since the boot, sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot() -> str:
    """Which boot of this machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def network() -> str:
    """Which network namespace this thread is in."""
    return str(Path("/proc/thread-self/ns/net").readlink())


def process(pid: int) -> tuple[int, int]:
    """The number and the start of a process, which no later process shares; the start is 0 where it has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        state, *rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        if state not in "ZX":
            return pid, int(rest[18])
    return pid, 0


def lives(owner: tuple[int, int]) -> bool:
    """True if this process still runs."""
    return owner[1] != 0 and process(owner[0]) == owner


def path() -> Path:
    """Where it is: ``$XDG_STATE_HOME/whydrop``, for root ``/var/lib/whydrop``, else ``~/.local/state/whydrop``."""
    base = os.environ.get("XDG_STATE_HOME")
    if base and Path(base).is_absolute():
        folder = Path(base)
    else:
        folder = Path("/var/lib") if os.geteuid() == 0 else Path.home() / ".local/state"
    return folder / "whydrop" / "changes.json"


class Book:
    """The state file, locked."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def entries(self) -> list[Entry]:
        """All of this boot.

        Raises:
            StateError: it cannot be read.
        """
        try:
            content = json.loads(self._file.read_bytes())
            entries = [Entry(**{**one, "owner": tuple(one["owner"])}) for one in content["changes"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError, KeyError) as reason:
            raise StateError(
                f"{self._file}: cannot be read ({reason}); check this host's queues by `tc qdisc show`, then remove it"
            ) from None
        return [one for one in entries if one.boot == boot()]

    def ours(self) -> list[Entry]:
        """Those of this network namespace."""
        return [one for one in self.entries() if one.network == network()]

    def write(self, entries: list[Entry]) -> None:
        """Durably, whole or not at all.

        Raises:
            OSError: the disk takes no more.
        """
        if not entries:
            self._file.unlink(missing_ok=True)
            durable.sync_folder(self._file.parent)
            return
        what = "changes to this host by whydrop; see `whydrop pace status`"
        content = {"what": what, "changes": [asdict(one) for one in entries]}
        durable.write_bytes(self._file, json.dumps(content, indent=1).encode())

    def put(self, entry: Entry) -> None:
        """Write this in the place of what stands there for its interface."""
        self.write([one for one in self.entries() if not same_place(one, entry)] + [entry])

    def drop(self, entry: Entry) -> None:
        """Forget it."""
        self.write([one for one in self.entries() if not same_place(one, entry)])

    def update(self, entry: Entry, **changed: Any) -> Entry:
        """Write it with other values."""
        new = replace(entry, **changed)
        self.put(new)
        return new


def same_place(one: Entry, other: Entry) -> bool:
    """True if two are of one interface."""
    return (one.network, one.snapshot["index"]) == (other.network, other.snapshot["index"])


@contextlib.contextmanager
def opened() -> Iterator[Book]:
    """The state file, locked for this process.

    Raises:
        StateError: its folder cannot be made.
    """
    file = path()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        lock = (file.parent / "lock").open("a")
    except OSError as reason:
        raise StateError(
            f"{file}: cannot write the changes that are to be made: {reason.strerror}; "
            "name another folder by XDG_STATE_HOME"
        ) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Book(file)
