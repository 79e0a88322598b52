"""The runs in a file: a bare result, a run of the REST interface, input of an archiver, lists and lines of them.

``pscheduler task --format json`` and ``pscheduler result --format json`` print the bare result, which has neither the
hosts nor the time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whydrop.formats.files import parsed
from whydrop.formats.pscheduler import esmond
from whydrop.formats.pscheduler.run import Object, Run, as_object, instant_ns, kind_of, seconds
from whydrop.recording.errors import RecordingError

_SIGNS = (b'"succeeded"', b'"event-type"', b'"result-merged"')
_RESULTS = (b'"throughput-', b'"histogram-latency"', b'"raw-packets"', b'"packets-sent"', b'"roundtrips"', b'"paths"',
            b'"event-type"', b'"result-merged"', b'"diags"')  # fmt: skip
# A test that runs for ever in the background is the same measurement.
_SAME = {"latencybg": "latency"}
# Where a run keeps its result, and the rest around it.
_RESULT_KEYS = ("result-merged", "result")
_MOST_DEPTH = 6
_MOST_RUNS = 10_000


def is_pscheduler(raw: bytes) -> bool:
    """True if a file may hold results of pScheduler: a cheap look."""
    head = raw.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return head in (b"{", b"[") and any(sign in raw for sign in _SIGNS) and any(sign in raw for sign in _RESULTS)


def runs(raw: bytes, path: Path) -> list[Run]:
    """The runs in a file; none if it is of another tool.

    Raises:
        RecordingError: it is no JSON.
    """
    found: list[Run] = []
    damaged = 0
    for document in _documents(raw, path):
        if document is None:
            damaged += 1
            continue
        found += [*esmond.runs(document), *_within(document, {}, 0)][: _MOST_RUNS - len(found)]
    if found and damaged:
        found[0].notes.append(f"{damaged} lines are no JSON and were passed over")
    return found


def _documents(raw: bytes, path: Path) -> Iterator[Any]:
    """The JSON documents of a file: one, or one on each line; ``None`` for a line that is none."""
    try:
        yield json.loads(raw)
        return
    except (ValueError, RecursionError):
        lines = [line for line in raw.splitlines() if line.strip()]
    if len(lines) < 2:
        yield parsed(raw, path)
        return
    read = []
    for line in lines:
        try:
            read.append(json.loads(line))
        except (ValueError, RecursionError):
            read.append(None)
    if all(one is None for one in read):
        raise RecordingError(f"{path}: neither one JSON document nor one on each line")
    yield from read


def _within(value: Any, around: Object, depth: int) -> Iterator[Run]:
    """The runs in a document: it is a result, holds one with what is known of it, or is a list of these."""
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, list):
        for one in value:
            yield from _within(one, around, depth + 1)
        return
    if not isinstance(value, dict):
        return
    if (kind := kind_of(value)) is not None:
        yield _run(kind, value, around)
        return
    known = {**around, **_known(value)}
    for key in _RESULT_KEYS:
        if isinstance(value.get(key), (dict, list)):
            yield from _within(value[key], known, depth + 1)
            return
    # Around a task with all of its runs, and around what an archiver gets.
    for key in ("run", "runs", "results", "hits", "_source", "data"):
        if isinstance(value.get(key), (dict, list)):
            yield from _within(value[key], known, depth + 1)


def _known(value: Object) -> Object:
    """The facts on a run in the document around its result."""
    known: Object = {}
    task = as_object(value.get("task"))
    test = as_object(value.get("test")) or as_object(task.get("test"))
    spec = as_object(test.get("spec")) or as_object(value.get("spec"))
    if spec:
        known["spec"] = spec
    if isinstance(test.get("type"), str):
        known["type"] = test["type"]
    tool = value.get("tool") or task.get("tool")
    tool = as_object(tool).get("name") or tool
    if isinstance(tool, str):
        known["tool"] = tool
    schedule = as_object(value.get("schedule"))
    start = value.get("start-time") or schedule.get("start")
    if start:
        known["start"] = start
    if value.get("end-time"):
        known["end"] = value["end-time"]
    elif schedule.get("duration"):
        known["duration"] = schedule["duration"]
    if isinstance(value.get("participants"), list):
        hosts = [one.get("host") if isinstance(one, dict) else one for one in value["participants"]]
        known["participants"] = [str(host) for host in hosts if host]
    return known


def _run(kind: str, result: Object, around: Object) -> Run:
    said = around.get("type")
    started_ns, ended_ns = instant_ns(around.get("start")), instant_ns(around.get("end"))
    length_s = seconds(around.get("duration"))
    if ended_ns is None and started_ns is not None and length_s is not None:
        ended_ns = started_ns + round(length_s * 1e9)
    run = Run(
        kind, result, around.get("spec", {}), around.get("tool"), started_ns, ended_ns, around.get("participants", [])
    )
    if isinstance(said, str) and _SAME.get(said, said) != kind:
        run.notes.append(f"the test is called {said!r}, and its result is that of {kind}")
    if started_ns is None:
        run.notes.append("pScheduler's result has no time of day: times are since its start")
    return run
