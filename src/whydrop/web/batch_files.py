"""Batch files of the folders: where they are, what they would run, and which of them this page runs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import whydrop
from whydrop.errors import Error
from whydrop.measure.batch.expanding import Run, test_path
from whydrop.measure.batch.one_run import plan_of
from whydrop.measure.batch.preparing import Prepared, state_path
from whydrop.measure.batch.state import State
from whydrop.web.endpoints import RequestError
from whydrop.web.library.links import is_within
from whydrop.web.planning import files_in

# Files and folders that are looked at, and files that are listed.
_MOST_SEEN, _MOST_LISTED = 50_000, 200
_LARGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class BatchFile:
    """A batch file in one of the folders.

    Attributes:
        path: of the file.
        batches: the names of its batches.
        problem: why it cannot be read.
    """

    path: str
    batches: list[str]
    problem: str = ""


@dataclass(frozen=True)
class BatchPlan:
    """The runs of a batch file, in their order.

    Attributes:
        runs: each with what makes it, how long it takes, and its far ends.
        total_s: how long all runs take, with their pauses.
        seed: of the random order; ``None``: in the order of the file.
        left: runs that an earlier call has left to do; 0: there is none to resume.
        notes: what changed since the earlier call.
        refused: why this page does not run it; empty: it does.
    """

    runs: list[dict[str, Any]]
    total_s: float
    seed: int | None
    left: int
    notes: list[str]
    refused: str


def listed(folders: Sequence[Path]) -> list[BatchFile]:
    """The batch files in some folders."""
    found = [one for path in _candidates(folders) if (one := _read(path)) is not None]
    return found[:_MOST_LISTED]


def permitted(path: str, folders: Sequence[Path]) -> Path:
    """The path of a batch file.

    Raises:
        RequestError: it is in none of the folders.
    """
    found = Path(path).resolve()
    if found.suffix != ".toml" or not is_within(found, folders):
        raise RequestError(f"{path!r}: expected a file in TOML in one of the folders of this page", 404)
    return found


def output_of(file: Path, uploads: Path) -> Path:
    """The folder for the recordings and the state of a batch."""
    return uploads / file.stem


def planned(file: Path, uploads: Path, folders: Sequence[Path], *, resume: bool, **choices: Any) -> BatchPlan:
    """The runs of a batch file.

    Raises:
        whydrop.Error: it has mistakes, or there is nothing to resume.
    """
    output = output_of(file, uploads)
    prepared = whydrop.batch_plan(file, output=output, resume=resume, **choices)
    return BatchPlan(
        [_row(one, prepared) for one in prepared.runs], prepared.total_s, prepared.state.seed, _left(file, output),
        prepared.notes, _refused(file, prepared, output, folders),
    )  # fmt: skip


def _row(run: Run, prepared: Prepared) -> dict[str, Any]:
    return {
        "key": run.key, "batch": run.batch, "arguments": list(run.arguments), "repetition": run.repetition,
        "test": run.test, "title": run.title, "hosts": list(run.hosts), "takes_s": prepared.times_s[run.key],
    }  # fmt: skip


def _left(file: Path, output: Path) -> int:
    path = state_path([file], output)
    try:
        return len(State.read(path).unfinished()) if path.exists() else 0
    except (Error, OSError):
        return 0


def _refused(file: Path, prepared: Prepared, output: Path, folders: Sequence[Path]) -> str:
    """Why this page does not run a batch: its files could name commands, and secrets of other users."""
    for run in prepared.runs:
        if run.commands or run.run is not None or _runs_commands(run):
            return f"{file.name} runs commands, which this page does not: use `whydrop batch run {file}` on this host"
        if not is_within(output / run.output, folders):
            return f"{file.name} writes to {run.output}, outside the folders of this page: expected a path in them"
        for path in _files_of(run):
            if not is_within(path, folders):
                return f"{file.name} names the file {path}: expected one in the folders of this page"
    return ""


def _files_of(run: Run) -> Iterator[Path]:
    """The files that a run reads."""
    if run.secret_file is not None:
        yield run.secret_file
    if run.test is not None:
        if (test := test_path(run.test, run.folder)) != run.test:
            yield Path(test)
        yield from files_in(plan_of(run).parameters)


def _runs_commands(run: Run) -> bool:
    return run.test is not None and any(flow.runner == "command" for flow in plan_of(run).flows)


def _candidates(folders: Sequence[Path]) -> Iterator[Path]:
    """The files in TOML, each once, of the first so many that are there at all."""
    seen: set[Path] = set()
    left = _MOST_SEEN
    for folder in folders:
        for place, inner, names in os.walk(folder):
            inner[:] = sorted(one for one in inner if not one.startswith(".") and not one.endswith(".recording"))
            left -= len(inner) + len(names)
            if left < 0:
                return
            for name in sorted(names):
                path = (Path(place) / name).resolve()
                if name.endswith(".toml") and path not in seen and is_within(path, folders):
                    seen.add(path)
                    yield path


def _read(path: Path) -> BatchFile | None:
    """A batch file; ``None``: the file is something else."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    except (tomllib.TOMLDecodeError, RecursionError) as reason:
        return BatchFile(str(path), [], f"no TOML: {reason}")
    batches = found.get("batch")
    return BatchFile(str(path), sorted(batches)) if isinstance(batches, dict) else None
