"""Running a batch: one run after another, with its commands, its state, and an orderly end on Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from whydrop.sources.batch.commands import Around, Started
from whydrop.sources.batch.expanding import BatchCommand, Run
from whydrop.sources.batch.state import Entry, State


@dataclass(frozen=True)
class Outcome:
    """What came of one run.

    Attributes:
        status: ``complete``, ``failed``, ``interrupted``.
        recording: its folder, where there is one.
        message: why it failed.
    """

    status: str
    recording: Path | None = None
    message: str | None = None
    warnings: Sequence[str] = ()


class RunTest(Protocol):
    """Runs one test; another may stand in for it in tests of batches."""

    def __call__(self, run: Run, output: Path, state: State, tick: Callable[[float, float], None]) -> Outcome:
        """Run it into a recording in ``output``; ``tick`` is told the seconds done and in all."""


class Watcher:
    """Hears what happens; does nothing itself."""

    def planned(self, runs: Sequence[Run], done: set[str]) -> None:
        """These will be run, those of ``done`` not again."""

    def begins(self, number: int, run: Run) -> None:
        """A run begins; numbers count from 1 over all of them."""

    def tick(self, elapsed_s: float, total_s: float) -> None:
        """The run goes on."""

    def ends(self, run: Run, outcome: Outcome) -> None:
        """A run has ended."""

    def pauses(self, seconds: float) -> None:
        """Nothing happens for so long."""


@dataclass
class Summary:
    """What came of a batch.

    Attributes:
        skipped: runs that an earlier call had completed.
        left: runs that were not begun.
    """

    outcomes: list[tuple[Run, Outcome]] = field(default_factory=list)
    skipped: int = 0
    left: int = 0
    interrupted: bool = False

    def count(self, status: str) -> int:
        """How many runs ended so."""
        return sum(outcome.status == status for _, outcome in self.outcomes)


def execute(
    runs: Sequence[Run],
    state: State,
    *,
    state_path: Path,
    output: Path,
    run_test: RunTest,
    watcher: Watcher | None = None,
    stop_on_failure: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> Summary:
    """Run what the state does not call complete, in its order.

    A run that fails does not keep the others from running, unless ``stop_on_failure`` says so. Ctrl-C ends the run at
    hand, its monitors are ended, its post commands run, and the state is kept.
    """
    watcher = watcher or Watcher()
    by_key = {run.key: run for run in runs}
    unfinished = set(state.unfinished())
    todo = [by_key[key] for key in state.order if key in by_key and key in unfinished]
    summary = Summary(skipped=len(runs) - len(todo))
    watcher.planned([by_key[key] for key in state.order if key in by_key], set(by_key) - unfinished)
    for number, run in enumerate(todo):
        outcome = _one(run, number + summary.skipped + 1, state, state_path, output, run_test, watcher)
        summary.outcomes.append((run, outcome))
        summary.left = len(todo) - number - 1
        summary.interrupted = outcome.status == "interrupted"
        if summary.interrupted or (stop_on_failure and outcome.status == "failed"):
            break
        if run.pause_s and summary.left:
            watcher.pauses(run.pause_s)
            try:
                sleep(run.pause_s)
            except KeyboardInterrupt:
                summary.interrupted = True
                break
    return summary


def _one(
    run: Run,
    number: int,
    state: State,
    state_path: Path,
    output: Path,
    run_test: RunTest,
    watcher: Watcher,
) -> Outcome:
    began = time.monotonic()
    watcher.begins(number, run)
    entry = Entry("running", _now())
    state.runs[run.key] = entry
    state.write(state_path)
    folder = output / run.output
    around = Around(run.commands, folder / f"{_name(run)}.commands", run.folder)
    outcome = _with_commands(around, lambda: _test(run, folder, state, run_test, watcher))
    entry.status, entry.ended, entry.message = outcome.status, _now(), outcome.message
    entry.recording = None if outcome.recording is None else str(outcome.recording)
    state.write(state_path)
    watcher.tick(time.monotonic() - began, time.monotonic() - began)
    watcher.ends(run, outcome)
    return outcome


def _with_commands(around: Around, test: Callable[[], Outcome]) -> Outcome:
    """The run between its commands; the post commands are run however it ends."""
    interrupted = False
    outcome = Outcome("failed", message="a command before it failed")
    may_start = False
    try:
        may_start = around.before()
        if may_start:
            outcome = test()
    except KeyboardInterrupt:
        interrupted = True
    except OSError as reason:
        outcome = Outcome("failed", message=str(reason))
    if interrupted:
        around.troubles.append("interrupted before its end")
    try:
        well = around.after()
    except KeyboardInterrupt:
        interrupted = True
        well = False
        around.abandon()
    status = outcome.status if well or outcome.status != "complete" else "failed"
    if interrupted:
        status = "interrupted"
    # Where the test was not started, the commands' troubles say why.
    messages = [outcome.message] if outcome.message and (may_start or not around.troubles) else []
    messages += around.troubles if status != "complete" else []
    warnings = [*outcome.warnings, *(around.troubles if status == "complete" else [])]
    return Outcome(status, outcome.recording, "; ".join(messages) or None, warnings)


def _test(run: Run, folder: Path, state: State, run_test: RunTest, watcher: Watcher) -> Outcome:
    folder.mkdir(parents=True, exist_ok=True)
    if run.run is None:
        return run_test(run, folder, state, watcher.tick)
    return _command(run, folder)


def _command(run: Run, folder: Path) -> Outcome:
    """A command in a test's place; Ctrl-C ends it."""
    assert run.run is not None
    place = folder / f"{_name(run)}.commands"
    place.mkdir(parents=True, exist_ok=True)
    command = BatchCommand("run", "run", run.run)
    with Started(command, place, run.folder) as started:
        done = started.wait(0.0)
    return Outcome("complete" if done.ok else "failed", done.output, None if done.ok else str(done))


def _name(run: Run) -> str:
    """A file name for the run's key: unlike keys give unlike names."""
    return "".join(
        char if char.isalnum() or char in "-_.,=" else f"%{ord(char):02x}" if char != "/" else "." for char in run.key
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
