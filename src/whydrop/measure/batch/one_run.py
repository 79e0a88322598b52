"""A run of a batch measured by ``whydrop.measure.run``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from whydrop.measure.batch.executing import Outcome
from whydrop.measure.batch.expanding import Run
from whydrop.measure.batch.planning import places_of, plan_of
from whydrop.measure.batch.state import State


def run_test(run: Run, output: Path, state: State, tick: Callable[[float, float], None]) -> Outcome:
    """Run the test into a recording in ``output``; whatever keeps it from that becomes the outcome."""
    from whydrop.measure.engine import EngineError, FarHost
    from whydrop.measure.run import run as measure
    from whydrop.measure.settings import Settings
    from whydrop.recording.errors import RecordingError

    try:
        secret = run.secret_file.read_text("utf-8").strip() if run.secret_file else None
        hosts = [FarHost(place.name, place.host, place.port, secret) for place in places_of(run)]
        settings = Settings(
            output=output,
            hosts=hosts,
            title=run.title,
            note=run.note,
            batch=described(run, state),
        )
        finished = measure(plan_of(run), settings, tick=lambda elapsed_s, total_s, _rows: tick(elapsed_s, total_s))
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
