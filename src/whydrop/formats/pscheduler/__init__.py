"""Results of perfSONAR's pScheduler (throughput, latency, rtt, trace) as recordings, one for each run.

``runs`` finds each ``run`` in a file of the scheduler, of its archivers, or of esmond (``esmond``); ``throughput`` and
``delays`` turn one into tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whydrop.formats.pscheduler import delays, throughput
from whydrop.formats.pscheduler.run import KINDS, Run
from whydrop.formats.pscheduler.runs import is_pscheduler, runs
from whydrop.recording.recording import Recording, RecordingError

__all__ = ["is_pscheduler", "recordings", "runs"]


def recordings(found: list[Run], path: Path) -> list[Recording]:
    """A recording of each run that measured anything.

    Raises:
        RecordingError: none did.
    """
    opened: list[Recording] = []
    refused: list[str] = []
    for run in found:
        tables, notes = throughput.tables(run) if run.kind == "throughput" else delays.tables(run)
        if not any(frame.height for name, frame in tables.items() if name != "flows"):
            refused.append(run.error or f"a {run.kind} test without a result")
            continue
        opened.append(Recording(path, _metadata(run, path), tables, [*run.notes, *notes]))
    if not opened:
        reason = refused[0] if refused else f"no result of a test of the kinds {', '.join(KINDS)}"
        raise RecordingError(f"{path}: pScheduler measured nothing: {reason}")
    if refused:
        opened[0].notes.append(f"{len(refused)} of {len(found)} runs in this file were left out: {refused[0]}")
    if len(opened) > 1:
        for number, one in enumerate(opened, 1):
            one.metadata["title"] = f"{path.stem}, run {number} of {len(opened)}"
    return opened


def _metadata(run: Run, path: Path) -> dict[str, Any]:
    failed = run.result.get("succeeded") is False or bool(run.error)
    name = f"pscheduler-{run.kind}"
    return {
        "name": name,
        "title": path.stem,
        "status": "failed" if failed else "complete",
        "failures": [f"pScheduler: {run.error or 'the run did not succeed'}"] if failed else [],
        "started_ns": run.started_ns,
        "ended_ns": run.ended_ns,
        "test": {
            "test": name,
            "title": f"{run.kind} of pScheduler",
            "length_s": run.length_s,
            "delay_s": 0.0,
            "step_s": run.step_s,
            "hosts": [run.destination] if run.destination else [],
            "flows": [],
            "computed": [],
            "parameters": run.spec,
            "source": "pscheduler",
        },
        "hosts": {"local": {"name": run.source}} if run.source else {},
        "imported": {
            "format": "pscheduler",
            "file": path.name,
            "written_by": f"pScheduler with {run.tool}" if run.tool else "pScheduler",
            "metadata": {"spec": run.spec, "result": {key: run.result[key] for key in _WHOLE if key in run.result}},
        },
    }


# Of a result: its own totals, and not the lists that become tables.
_WHOLE = (
    "schema", "succeeded", "error", "diags", "summary", "mss", "mtu", "tcp-window-size", "requested-tcp-window-size",
    "sent", "received", "lost", "loss", "reorders", "duplicates", "min", "max", "mean", "stddev", "packets-sent",
    "packets-received", "packets-lost", "packets-duplicated", "packets-reordered", "max-clock-error",
    "histogram-latency", "histogram-ttl",
)  # fmt: skip
