"""A recorded test as rows of a store: the recording, its metrics, its delays, and TCP's statistics."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from whydrop.formats import connections
from whydrop.formats.archives import Piece
from whydrop.formats.archives.opening import printed
from whydrop.recording import table_files
from whydrop.recording.errors import RecordingError
from whydrop.recording.metrics import induced
from whydrop.recording.metrics.definitions import FEWEST_IDLE, Measured, Stream, measure, probe_streams
from whydrop.recording.metrics.load import Steps, Window, window
from whydrop.recording.recording import Recording
from whydrop.store.recording_tables import METRICS
from whydrop.store.tables import conform

# Of the kinds of flows that make load.
_LOADING = ("tcp", "udp", "burst")
_INDUCED = "induced-latency"
# What recordings of a host's connections are called, watched or imported: what makes load is not known.
_WITHOUT_TEST = ("watch", "connections")
# Qdiscs of arriving packets, which `tc` lists last: they are no queues.
_NO_QUEUES = ("ingress", "clsact")


def pieces(path: Path, digest: str) -> Iterator[Piece]:
    """The rows of a recording's folder for each table, those of ``recordings`` last.

    Raises:
        RecordingError: it is no recording.
    """
    found = Recording.open(path)
    source = printed(path)
    tcp = connections.rows_of(found)
    if table_files.is_being_written(path):
        later = "Its row and its metrics are read when it has ended: import it again then."
        yield Piece(source, "tcp", tcp, [*found.notes, later])
        return
    yield Piece(source, "tcp", tcp, found.notes)
    # Where even the start is unknown, times since it are no times.
    start_ns = found.started_ns or None
    span = window(found) if start_ns is not None and found.metadata["name"] not in _WITHOUT_TEST else None
    which = {"time_ns": start_ns, "recording": digest}
    damage = None
    try:
        yield from (_piece(source, name, frame, which) for name, frame in _measured(found, span).items())
    except RecordingError as reason:
        damage = f"its metrics are not known: {str(reason).removeprefix(f'{found.path}: ')}"
    yield _piece(source, "recordings", pl.DataFrame([_of_recording(found, span)]), which, damage)


def _measured(found: Recording, span: Window | None) -> dict[str, pl.DataFrame]:
    """The rows of what a test measured, by table; of connections that were watched there are none."""
    if found.metadata["name"] in _WITHOUT_TEST:
        return {}
    # Those that fell silent early are left out.
    streams = probe_streams(found, span, Steps.of(span, found)) if span is not None else []
    tables = {"metrics": _metrics(found, streams)}
    if span is not None:
        each = induced.delays(found, span, streams)
        tables["delays"] = induced.by_step(found, span, each)
        tables["delay_counts"] = induced.histogram(span, each)
    return tables


def _piece(source: str, table: str, frame: pl.DataFrame, which: dict[str, Any], damage: str | None = None) -> Piece:
    columns = {key: pl.lit(value) for key, value in which.items() if key not in frame.columns}
    return Piece(source, table, conform(table, frame.with_columns(**columns)), damage=damage)


def _of_recording(found: Recording, span: Window | None) -> dict[str, Any]:
    """The row of table ``recordings``, without what identifies it."""
    about, batch = found.metadata, found.metadata["batch"] or {}
    starts = found.table("flows").filter(pl.col("kind").is_in(list(_LOADING)))["start_ns"]
    return {
        "end_ns": about["ended_ns"],
        "name": printed(Path(found.path)).rpartition("/")[2],
        "title": about["title"] or "",
        "test": _text(about["test"].get("test")),
        "status": about["status"],
        "failures": _json(about["failures"]),
        "whydrop": about["whydrop"],
        "kernel": _text(_at(about, "hosts", "local", "kernel", "release")),
        "batch": _text(batch.get("name")),
        "run": _text(batch.get("run")),
        "repetition": _whole(batch.get("repetition")),
        "seed": _whole(batch.get("seed")),
        "arguments": _json(batch.get("arguments", [])),
        "variables": _json(batch.get("variables", {})),
        "outputs": _json(batch.get("outputs", {})),
        "load_start_ns": span and span.start_ns,
        "load_end_ns": span and span.end_ns,
        "last_start_ns": span and starts.max(),
        "step_ns": induced.STEP_NS,
    }


def _metrics(found: Recording, streams: Sequence[Stream]) -> pl.DataFrame:
    measured = measure(found)
    rows = [_row(key, one.metric.name, one.metric.units, one.value, one.basis) for key, one in measured.items()]
    rows += [*_of_induced(streams, measured), *_marks(found), *_of_queues(found)]
    return pl.DataFrame(rows, schema={key: METRICS[key] for key in _COLUMNS})


_COLUMNS = ("metric", "name", "units", "value", "note")


def _row(metric: str, name: str, units: str, value: float, note: str = "") -> dict[str, Any]:
    known = value if math.isfinite(value) else None
    return dict(zip(_COLUMNS, (metric, name, units, known, note), strict=True))


def _of_induced(streams: Sequence[Stream], measured: dict[str, Measured]) -> Iterator[dict[str, Any]]:
    """The tail of the induced latency, over all probes together, and the round-trip time without load."""
    one = measured.get(_INDUCED)
    if one is None or not streams:
        return
    for percent in (95, 99):
        value = float(np.quantile(one.samples, percent / 100))
        yield _row(f"{_INDUCED}-p{percent}", f"Induced latency, {percent}th percentile", "ms", value, one.basis)
    idle = all(len(stream.idle) >= FEWEST_IDLE for stream in streams)
    value = float(np.mean([induced.base_ms(stream) for stream in streams])) if idle else math.nan
    note = one.basis if idle else "not known: there was too little idle time before the load"
    yield _row("idle-rtt", "Round-trip time before the load", "ms", value, note)


def _marks(found: Recording) -> Iterator[dict[str, Any]]:
    """The share of congestion marks that came back, among delivered segments, over the TCP flows that count them."""
    samples = found.table("tcp_info").drop_nulls(["delivered_packets", "delivered_ce_packets"])
    last = samples.sort("time_ns").group_by("flow").agg(pl.col("delivered_packets", "delivered_ce_packets").last())
    if (delivered := int(last["delivered_packets"].sum())) > 0:
        share = 100 * int(last["delivered_ce_packets"].sum()) / delivered
        yield _row("marks", "TCP segments delivered with a congestion mark", "%", share)


def _of_queues(found: Recording) -> Iterator[dict[str, Any]]:
    """Counters of queues that commands of the batch printed (``tc -s -j qdisc show``)."""
    outputs = _at(found.metadata, "batch", "outputs")
    for name, output in outputs.items() if isinstance(outputs, dict) else ():
        rows = [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
        qdiscs = [one for one in rows if isinstance(one.get("kind"), str) and one["kind"] not in _NO_QUEUES]
        if not qdiscs:
            continue
        # A parent counts what its children dropped too.
        inner = qdiscs[-1]
        for counter, words, value in (
            ("sent_packets", "packets sent", inner.get("packets")),
            ("drops", "packets dropped", inner.get("drops")),
            ("marks", "packets marked", _marked(inner)),
        ):
            if (count := _whole(value)) is not None:
                yield _row(f"{name}.{counter}", f"{name}: {words}", "packets", float(count), inner["kind"])


def _marked(qdisc: dict[str, Any]) -> int | None:
    """Packets that a queue marked; each discipline has a name of its own for it."""
    listed = qdisc.get("tins")
    tins = [one.get("ecn_mark") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    counted = [one for one in tins if isinstance(one, int)]
    if tins and len(counted) == len(tins):
        return sum(counted)
    marked = qdisc.get("ecn_mark", qdisc.get("marked", qdisc.get("early_marked")))
    return marked if isinstance(marked, int) else None


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
