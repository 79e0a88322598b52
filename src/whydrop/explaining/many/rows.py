"""Rows of the store's tables from the JSON document of one capture."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.explaining.frames import nanoseconds
from whydrop.store import capture_tables, tables

Frames = dict[str, pl.DataFrame]


def of_file(path: Path, status: os.stat_result, digest: str) -> dict[str, Any]:
    """A capture's file, and which program explained it; ``digest`` is the SHA-256 of its content."""
    from whydrop._core import __version__

    which = {"capture": digest, "whydrop": __version__}
    return {**which, "path": printed(path), "file_bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def printed(path: Path) -> str:
    """A path as text that every encoding takes: names on disk may be no UTF-8."""
    return _encodable(str(path))


def _encodable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def of_document(file: Mapping[str, Any], document: Mapping[str, Any]) -> Frames:
    """The rows of a capture that was analysed, in all tables."""
    which = {name: file[name] for name in ("capture", "whydrop")}
    first = document["captures"][0]
    time_ns = nanoseconds(first["first"])
    headline = document["verdicts"][0] if document["verdicts"] else {}
    # Small connections that are too many to be listed count too.
    small = first.get("small_connections", {"flows": 0, "lost": 0})
    capture = {
        **file,
        "time_ns": time_ns,
        "last_ns": nanoseconds(first["last"]),
        "status": "truncated" if first["truncated"] else "analysed",
        **{key: first[key] for key in ("format", "link_type", "snaplen", "packets", "duplicates", "out_of_order")},
        "flows": len(document["flows"]) + small["flows"],
        "lost": sum(flow["lost"] for flow in document["flows"]) + small["lost"],
        "cause": headline.get("cause"),
        "confidence": headline.get("confidence"),
        "notes": _json(first["notes"]),
    }
    return {
        "captures": _frame("captures", [capture]),
        "flows": _frame("flows", [{**which, **_flow(*numbered)} for numbered in enumerate(document["flows"])]),
        "transfers": _frame("transfers", [{**which, **_transfer(*one)} for one in enumerate(document["transfers"])]),
        "verdicts": _frame(
            "verdicts",
            [{**which, "time_ns": time_ns, **_verdict(*numbered)} for numbered in enumerate(document["verdicts"])],
        ),
    }


def of_failure(file: Mapping[str, Any], message: str) -> Frames:
    """The row of a capture that could not be analysed."""
    row = {**file, "status": "failed", "message": _encodable(message), "notes": "[]"}
    return {"captures": _frame("captures", [row])}


def _flow(number: int, flow: Mapping[str, Any]) -> dict[str, Any]:
    same = (
        *("flow", "packets", "payload_bytes", "lost", "retransmitted", "spurious", "reordered", "vantage"),
        *("missed_by_capture_bytes", "ce_marked", "ecn_echoes", "zero_windows", "window_limited_share", "window_scale"),
    )
    kinds = flow["retransmitted_by_kind"]
    return {
        "number": number,
        "time_ns": nanoseconds(flow["start"]),
        "end_ns": nanoseconds(flow["end"]),
        **{key: flow[key] for key in same},
        **{f"retransmitted_{kind.replace('-', '_')}": kinds.get(kind) for kind in _KINDS},
        "rtt_min_ns": nanoseconds(flow["rtt_min_s"]),
        "rtt_median_ns": nanoseconds(flow["rtt_median_s"]),
        "mss_bytes": flow["mss"],
    }


_KINDS = ("fast", "timeout", "tail-loss-probe", "unknown")


def _transfer(number: int, transfer: Mapping[str, Any]) -> dict[str, Any]:
    same = ("flow", "payload_bytes", "packets", "lost", "goodput_bps", "cause", "confidence")
    return {
        "number": number,
        "time_ns": nanoseconds(transfer["start"]),
        "end_ns": nanoseconds(transfer["end"]),
        **{key: transfer[key] for key in same},
    }


def _verdict(number: int, verdict: Mapping[str, Any]) -> dict[str, Any]:
    parameters = verdict["parameters"]
    lost = verdict.get("throughput_lost") or {}
    row: dict[str, Any] = {
        "number": number,
        **{key: verdict[key] for key in ("cause", "confidence", "lost", "explained", "sentence")},
        **{key: verdict.get(key) for key in ("limited_share", "byte_basis", "family")},
        "throughput_lost_bps": lost.get("bps"),
        "throughput_lost_share": lost.get("share"),
        "other_parameters": _json({name: parameters[name] for name in parameters if name not in _PARAMETERS}),
        **{key: _json(verdict[key]) for key in ("flows", "evidence", "against", "advice")},
    }
    for name in _PARAMETERS & parameters.keys():
        for key, end in (("value", ""), ("low", "_low"), ("high", "_high")):
            row[name + end] = parameters[name][key]
    return row


_PARAMETERS = set(capture_tables.PARAMETERS)


def _frame(table: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=tables.TABLES[table], orient="row", strict=False)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
