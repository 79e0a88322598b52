"""The runs of batch files, in order, and the state of an earlier call where it is continued."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from whydrop.measure.batch.batch_file import Tables, read
from whydrop.measure.batch.expanding import BatchError, Run, Wanted, expand_runs, shuffled
from whydrop.measure.batch.one_run import times_s
from whydrop.measure.batch.state import SUFFIX, WANTED, State, StateError, digests, seed_of


@dataclass(frozen=True)
class Prepared:
    """The runs of batch files, in their order.

    Attributes:
        times_s: how long each run takes, by its key, without its pause.
        state: what is continued.
        path: of the file that keeps the state.
        notes: what changed since the earlier call.
    """

    runs: list[Run]
    times_s: dict[str, float]
    state: State
    path: Path
    notes: list[str]

    @property
    def total_s(self) -> float:
        """How long all runs take, with their pauses."""
        return sum(self.times_s.values()) + sum(run.pause_s for run in self.runs[:-1])

    def document(self) -> dict[str, Any]:
        """As ``whydrop batch plan --json`` prints it."""
        runs = []
        for one in self.runs:
            row = dataclasses.asdict(one) | {"takes_s": self.times_s[one.key], "folder": str(one.folder)}
            row["secret_file"] = str(one.secret_file) if one.secret_file else None
            runs.append(row)
        return {"seed": self.state.seed, "total_s": self.total_s, "runs": runs}


def state_path(files: Sequence[Path], output: Path) -> Path:
    """The file that keeps the state of a batch."""
    return output / f"{files[0].stem}{SUFFIX}"


def prepare(files: Sequence[Path], output: Path, choice: Wanted, *, resume: bool = False) -> Prepared:
    """Read batch files, and put their runs in order.

    Args:
        files: a later file replaces tables of an earlier one.
        output: the folder for recordings and the state.
        choice: the batches to run; without effect where an earlier call is resumed, which has made it.
        resume: continue with the state of an earlier call.

    Raises:
        FileError, BatchError, RunsError: the files have mistakes, or no batch is chosen.
        StateError, OSError: the state cannot be read.
    """
    tables, path = read(files), state_path(files, output)
    state = State.read(path) if resume else _new_state(tables, choice)
    known = set(state.order)
    notes = [f"{name} has changed since the batch began" for name in _changed(tables, state)]
    runs = _ordered(expand_runs(tables, Wanted(**state.wanted, time=state.time)), state)
    if (share := state.wanted.get("share")) is not None:
        # A share that is resumed has its runs already; new ones of a changed file belong to no share.
        runs = [run for run in runs if run.key in known] if resume else runs[share[0] - 1 :: share[1]]
        state.order = [run.key for run in runs]
    if not runs:
        raise BatchError("no batch to run: the file has none, or all are abstract or disabled")
    notes += [f"run {key} is no longer in the file; left out" for key in sorted(known - {run.key for run in runs})]
    return Prepared(runs, times_s(runs), state, path, notes)


def require_nothing_left(path: Path) -> None:
    """Refuse to begin again while an earlier call has left runs to do.

    Raises:
        StateError: it has.
    """
    if not path.exists():
        return
    state = State.read(path)
    if left := len(state.unfinished()):
        raise StateError(
            f"{path}: {left} of {len(state.order)} runs are left to do; continue with --resume, or start again with "
            "--restart (in Python: resume=True, restart=True)"
        )


def _new_state(tables: Tables, choice: Wanted) -> State:
    shuffle = tables.shuffle if choice.shuffle is None else choice.shuffle
    seed = seed_of(tables.files) if choice.seed is None else choice.seed
    wanted = {key: getattr(choice, key) for key in WANTED}
    time = datetime.now().strftime("%Y-%m-%dT%H%M%S")
    return State(str(uuid.uuid4()), time, seed if shuffle else None, [], wanted, digests(tables.files))


def _changed(tables: Tables, state: State) -> list[str]:
    return [name for name, digest in digests(tables.files).items() if state.files.get(name) != digest]


def _ordered(runs: list[Run], state: State) -> list[Run]:
    """The runs in the order of the state; runs that are not in it come last."""
    if state.seed is not None:
        runs = shuffled(runs, state.seed)
    place = {key: number for number, key in enumerate(state.order)}
    runs = sorted(runs, key=lambda run: place.get(run.key, len(place)))
    state.order = [run.key for run in runs]
    return runs
