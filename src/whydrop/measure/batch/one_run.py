"""One run of a batch: its plan, how long it takes, and its measurement by ``whydrop.measure.run``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from whydrop.errors import Mistake
from whydrop.measure.batch.executing import Outcome, Tick
from whydrop.measure.batch.expanding import Run, test_path
from whydrop.measure.batch.state import State
from whydrop.measure.far_hosts import FarHost, far_hosts
from whydrop.measure.plan import Plan, Settings
from whydrop.measure.secret_files import shared_secret
from whydrop.measure.tests import FileError, SettingError, UnknownTestError, resolve

# Connecting, describing the hosts, waiting for late packets, writing the recording: as a rule of thumb.
AROUND_S = 3.0


class RunsError(Mistake):
    """Runs that cannot be; ``lines`` says for each what is wrong, once."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(dict.fromkeys(lines))
        super().__init__("\n".join(self.lines))


def plan_of(run: Run) -> Plan:
    """The plan of a run's test.

    Raises:
        UnknownTestError, FileError, SettingError: as of resolving a test.
    """
    assert run.test is not None
    parameters = dict(run.parameters)
    if run.ip_version is not None:
        parameters["ip_version"] = run.ip_version
    names = [host.name for host in _hosts_of(run)]
    return resolve(test_path(run.test, run.folder), names, parameters, run.with_runner, title=run.title)


def times_s(runs: Sequence[Run]) -> dict[str, float]:
    """How long each run takes, without its pause.

    Raises:
        RunsError: with all that is wrong with any of them.
    """
    found: dict[str, float] = {}
    problems: list[str] = []
    for run in runs:
        if run.run is not None:
            found[run.key] = run.run_length_s
            continue
        try:
            found[run.key] = plan_of(run).total_s + AROUND_S
        except (FileError, SettingError, UnknownTestError, ValueError) as reason:
            problems.extend(f"{run.batch}: {line}" for line in str(reason).splitlines())
    if problems:
        raise RunsError(problems)
    return found


def _hosts_of(run: Run, secret: str | None = None) -> list[FarHost]:
    try:
        return far_hosts(run.hosts, secret=secret)
    except ValueError as reason:
        raise ValueError(f"hosts: {reason}") from None


def run_test(run: Run, output: Path, state: State, tick: Tick) -> Outcome:
    """Run the test into a recording in ``output``; whatever keeps it from that becomes the outcome."""
    from whydrop.measure.engine import EngineError
    from whydrop.measure.run import run as measure
    from whydrop.recording.errors import RecordingError

    try:
        secret = shared_secret(run.secret_file) if run.secret_file else None
        hosts = _hosts_of(run, secret)
        settings = Settings(
            output=output,
            hosts=hosts,
            title=run.title,
            note=run.note,
            batch=described(run, state),
        )
        finished = measure(plan_of(run), settings, tick=tick)
    except (EngineError, RecordingError, OSError, UnicodeDecodeError, ValueError) as reason:
        notes = getattr(reason, "__notes__", [])
        return Outcome("failed", message="; ".join([" ".join(str(reason).splitlines()), *notes]))
    failures = "; ".join(map(str, finished.failures)) or None
    return Outcome(finished.status, finished.folder, failures, tuple(finished.warnings))


def described(run: Run, state: State) -> dict[str, Any]:
    """The batch of a run and its place in it, for the recording: the same names as of batches that were imported."""
    return {
        "name": run.batch,
        "title": str(run.variables.get("batch_title", "")),
        "id": state.uuid,
        "started_ns": _nanoseconds(state.time),
        "seed": state.seed,
        "run": run.key,
        "arguments": list(run.arguments),
        "repetition": run.repetition,
        "variables": run.variables,
    }


def _nanoseconds(time: str) -> int | None:
    """The time of a batch, in the local time of this host."""
    try:
        return int(datetime.strptime(time, "%Y-%m-%dT%H%M%S").astimezone().timestamp()) * 1_000_000_000
    except ValueError:
        return None
