"""A file of DISCO's switch telemetry as a recording: rates of each port's counters in the table ``counters``.

Growth becomes rates here, as series are plotted: octets in Mbit/s, everything else in packets a second. A sample
without a known span (the first of a file of version 2), or after a reset of its counter, is left out; a store
(`whydrop store import`) keeps them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.archives.disco import pieces_of
from whydrop.recording.recording import Recording, RecordingError

_KEYS = (b'"experiment"', b'"hostname"', b'"metric"', b'"sample"')
_NS = 1_000_000_000


def is_disco(content: bytes) -> bool:
    """True if a file's content is DISCO's telemetry, of either version."""
    return content.lstrip().startswith(b"{") and all(key in content for key in _KEYS)


def recording(content: bytes, path: Path) -> Recording:
    """A file of DISCO as a recording.

    Raises:
        RecordingError: there is no sample in it.
    """
    (piece,) = pieces_of(content, str(path), path.name)
    frame = piece.frame
    if frame.is_empty():
        raise RecordingError(
            f"{path}: telemetry of a switch without a sample" + (f": {piece.damage}" if piece.damage else "")
        )
    notes = list(piece.notes)
    if piece.damage is not None:
        notes.append(f"Damaged at {piece.damage}. What is before that is shown")
    octets = pl.col("counter").str.starts_with("octets.")
    per_s = pl.col("value") / pl.col("span_ns") * _NS
    rates = frame.select(
        time_ns="end_ns",
        host="switch",
        source=pl.lit("switch"),
        object="port",
        counter="counter",
        value=pl.when(octets).then(per_s * 8 / 1e6).otherwise(per_s),
        cumulative=pl.lit(value=False),
    )
    left_out = rates["value"].null_count()
    if left_out:
        notes.append(f"{left_out} samples have no rate: their span is not known, or their counter was reset")
    counters = rates.drop_nulls("value").sort("host", "object", "counter", "time_ns")
    return Recording(path, _metadata(frame, path, piece.damage), {"counters": counters}, notes)


def _metadata(frame: pl.DataFrame, path: Path, damage: str | None) -> dict[str, Any]:
    spans = frame["span_ns"].drop_nulls()
    step_s = float(spans.median() or 10 * _NS) / _NS  # type: ignore[arg-type]
    first, last = frame.select(
        first=(pl.col("end_ns") - pl.col("span_ns").fill_null(0)).min(), last=pl.col("end_ns").max()
    ).row(0)
    switches = frame["switch"].unique().sort().to_list()
    return {
        "name": "switch",
        "title": ", ".join(switches),
        "status": "failed" if damage else "complete",
        "failures": [damage] if damage else [],
        "started_ns": first,
        "ended_ns": last,
        "test": {
            "test": "switch",
            "title": "Counters of a switch",
            "length_s": (last - first) / _NS,
            "delay_s": 0.0,
            "step_s": step_s,
            "hosts": [],
            "flows": [],
            "computed": [],
            "parameters": {},
            "source": "disco",
        },
        "hosts": {},
        "imported": {
            "format": "disco",
            "file": path.name,
            "written_by": "DISCO v1" if frame["total"].null_count() == frame.height else "DISCO v2",
            "metadata": {"machines": frame["machine"].unique().sort().to_list(), "switches": switches},
        },
    }
