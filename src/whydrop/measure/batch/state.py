"""The progress of a batch, on disk after every run, so that an interrupted batch goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from whydrop.errors import Error
from whydrop.runtime import durable

SUFFIX = ".batch-state.json"
STATUSES = ("complete", "failed", "interrupted", "running", "skipped")
# What is kept of that which the command line asked of the files.
WANTED = ("batches", "overrides", "repetitions", "share")
# Of a state of an earlier version.
_MAY_BE_MISSING = {"share"}


class StateError(Error, ValueError):
    """A state file that cannot be used; says what to do."""


@dataclass
class Entry:
    """One run that was begun."""

    status: str
    began: str
    ended: str | None = None
    recording: str | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r}")


@dataclass
class State:
    """Everything that is needed to go on.

    Attributes:
        order: the keys of all runs, in the order in which they are run.
        seed: which decided the order; ``None`` where nothing was shuffled.
        wanted: what the command line asked of the files, by the names in :data:`WANTED`.
        files: their paths and SHA-256.
    """

    uuid: str
    time: str
    seed: int | None
    order: list[str]
    wanted: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    runs: dict[str, Entry] = field(default_factory=dict)

    def unfinished(self) -> list[str]:
        """The keys of runs that are not complete."""
        return [key for key in self.order if key not in self.runs or self.runs[key].status != "complete"]

    def write(self, path: Path) -> None:
        """Write it so that a crash leaves either the old or the new state, whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"whydrop_batch": 1, **asdict(self)}, indent=1, ensure_ascii=False)
        # What a crash leaves of it has a name that the next one takes.
        durable.write_bytes(path, f"{text}\n".encode())

    @classmethod
    def read(cls, path: Path) -> State:
        """The state that was written.

        Raises:
            StateError: it is none.
            OSError: it cannot be read.
        """
        from pydantic import TypeAdapter, ValidationError

        try:
            data = json.loads(path.read_bytes())
            if not isinstance(data, dict) or data.pop("whydrop_batch", None) != 1:
                raise StateError(f"{path}: not the state of a batch; expected what `whydrop batch run` wrote")
            state = TypeAdapter(cls).validate_python(data)
        except ValidationError as reason:
            [first, *_] = reason.errors()
            what = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise StateError(f"{path}: not the state of a batch ({what}); start again with --restart") from None
        except ValueError as reason:
            if isinstance(reason, StateError):
                raise
            raise StateError(f"{path}: not the state of a batch ({reason}); start again with --restart") from None
        if set(WANTED) - set(state.wanted) - _MAY_BE_MISSING or set(state.wanted) - set(WANTED):
            raise StateError(f"{path}: what was asked for is damaged; start again with --restart")
        return state


def seed_of(files: Sequence[Path]) -> int:
    """The seed of the random order if none is given: from the files, so that a plan shows the order of the run."""
    return int(hashlib.sha256(" ".join(digests(files).values()).encode()).hexdigest()[:8], 16)


def digests(files: Sequence[Path]) -> dict[str, str]:
    """The SHA-256 of each file, by which a later run knows that it has changed."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
