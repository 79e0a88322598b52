"""Flows, transfers and verdicts of a document as frames, with the columns that the tables of packets refer to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

Document = Mapping[str, Any]
Row = dict[str, Any]

# Captures may hold any number for a time.
_BEYOND_NS = 1 << 63


def flows(document: Document) -> pl.DataFrame:
    """One row for each flow; ``flow`` is its number in the other tables."""
    rows = [{"flow": number, "name": one["flow"], **_row(one)} for number, one in enumerate(document["flows"])]
    return _frame(rows, {"flow": pl.UInt32(), "name": pl.String(), "start_ns": pl.Int64(), "end_ns": pl.Int64()})


def transfers(document: Document) -> pl.DataFrame:
    """One row for each transfer; ``transfer`` is its number in ``segments``."""
    numbers = {one["flow"]: number for number, one in reversed(list(enumerate(document["flows"])))}
    rows = [
        {"transfer": number, "flow": numbers.get(one["flow"]), **_row(one)}
        for number, one in enumerate(document["transfers"])
    ]
    numbered = {"transfer": pl.UInt32(), "flow": pl.UInt32()}
    return _frame(rows, {**numbered, "start_ns": pl.Int64(), "end_ns": pl.Int64()})


def verdicts(document: Document) -> pl.DataFrame:
    """One row for each verdict, the headline first; ``verdict`` is its number in ``model``."""
    rows = []
    for number, one in enumerate(document["verdicts"]):
        row: Row = {"verdict": number, "cause": one["cause"], "confidence": one["confidence"], "place": None}
        row |= _row({key: value for key, value in one.items() if key not in _NESTED and not isinstance(value, Mapping)})
        for name, parameter in one["parameters"].items():
            row |= {name: parameter["value"], f"{name}_low": parameter["low"], f"{name}_high": parameter["high"]}
        rows.append(row)
    return _frame(rows, {"verdict": pl.UInt32(), "cause": pl.String(), "confidence": pl.Float64()})


# Parts of verdicts that only the document has.
_NESTED = {"facts", "against", "parameters", "models"}

MAKERS: Mapping[str, Callable[[Document], pl.DataFrame]] = {
    "flows": flows,
    "transfers": transfers,
    "verdicts": verdicts,
}


def nanoseconds(seconds: float | None) -> int | None:
    """Nanoseconds; an instant as a float is exact to about 240 of them. ``None`` beyond 64 bits."""
    found = 0 if seconds is None else round(seconds * 1e9)
    return found if seconds is not None and -_BEYOND_NS <= found < _BEYOND_NS else None


def _row(entry: Mapping[str, Any]) -> Row:
    """An entry with all times in nanoseconds, and its limits as shares of its time."""
    row: Row = {}
    for key, value in entry.items():
        if key in ("start", "end"):
            row[f"{key}_ns"] = nanoseconds(value)
        elif key.endswith("_s"):
            row[f"{key[:-2]}_ns"] = nanoseconds(value)
        elif key == "limits":
            row[key] = value and value["shares"]
        elif key != "flow":
            row[key] = value
    return row


def _frame(rows: Sequence[Row], types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    if not rows:
        return pl.DataFrame(schema=types)
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)
