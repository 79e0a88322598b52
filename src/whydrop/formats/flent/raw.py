"""The rows of a recording's tables as Flent's raw values: a list of objects for each flow, in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from whydrop.formats.flent.upgrade import Row
from whydrop.formats.flent.values import SEPARATOR, TCP_COLUMNS
from whydrop.recording.recording import Recording

_VARIATIONS = {"ipdv": "rtt_ns", "ipdv_up": "up_ns", "ipdv_down": "down_ns"}

_LOST_DIRECTIONS = {"lost-up": "up", "lost-down": "down", "lost": None}


def raw_values(recording: Recording) -> dict[str, list[Row]]:
    """Raw values by series: of each flow those of its own series, with further quantities as further keys."""
    found: dict[str, list[Row]] = {}
    names: dict[int, str] = {}
    for row in recording.table("flows").to_dicts():
        names[row["flow"]] = row["name"]
        found[row["name"]] = []
    for table, convert in _CONVERTERS.items():
        frame = recording.table(table)
        for row in (_with_variation(recording, frame) if table == "probes" else frame).to_dicts():
            name = names.get(row["flow"])
            if name is not None:
                found[name] += convert(row)
    for rows in found.values():
        rows[:] = _merged(rows)
    return found


def _with_variation(recording: Recording, probes: pl.DataFrame) -> pl.DataFrame:
    """Probes with the differences of their delays to those before; an imported file has them already, or never had."""
    if (recording.metadata["imported"] or {}).get("format") == "flent":
        return probes.with_columns(pl.lit(None).alias(key) for key in _VARIATIONS)
    follows = (pl.col("sequence").diff() == 1) & (pl.col("flow").diff() == 0)
    return probes.sort("flow", "sequence", maintain_order=True).with_columns(
        pl.when(follows).then(pl.col(column).diff()).alias(key) for key, column in _VARIATIONS.items()
    )


def _merged(rows: list[Row]) -> list[Row]:
    """Rows in order of time; rows of one moment become one, unless both have the same key."""
    merged: list[Row] = []
    for row in sorted(rows, key=lambda row: row["t"]):
        if merged and merged[-1]["t"] == row["t"] and not (merged[-1].keys() & row.keys()) - {"t"}:
            merged[-1] |= row
        else:
            merged.append(row)
    return [_nested(row) for row in merged]


def _nested(row: Row) -> Row:
    """Keys with ``::`` as objects in objects, as Flent's runners of stations have them."""
    if not any(SEPARATOR in key for key in row):
        return row
    result: Row = {}
    for key, value in row.items():
        *outer, last = key.split(SEPARATOR)
        place = result
        for part in outer:
            place = place.setdefault(part, {})
        place[last] = value
    return result


def _seconds(time_ns: int) -> float:
    # Exact where the product of a division of the whole would not be.
    return time_ns / 1_000_000_000


def _interval(row: Row) -> Iterator[Row]:
    if row["end_ns"] is None:
        return
    found: Row = {"t": _seconds(row["end_ns"])}
    found["val"] = row["goodput_bps"] / 1e6 if row["goodput_bps"] is not None else None
    if row["start_ns"] is not None:
        found["dur"] = round((row["end_ns"] - row["start_ns"]) / 1e9, 9)
    yield found


def _tcp_info(row: Row) -> Iterator[Row]:
    if row["time_ns"] is None:
        return
    found: Row = {"t": _seconds(row["time_ns"])}
    for key, (column, factor) in TCP_COLUMNS.items():
        if row[column] is not None:
            found[key] = row[column] / factor
    if len(found) > 1:
        yield found


def _probe(row: Row) -> Iterator[Row]:
    lost = row["fate"] in _LOST_DIRECTIONS
    time_ns = row["received_ns"] if row["received_ns"] is not None and not lost else row["sent_ns"]
    time_ns = row["scheduled_ns"] if time_ns is None else time_ns
    if time_ns is None:
        return
    found: Row = {"t": _seconds(time_ns)}
    if row["sequence"] is not None:
        found["seq"] = row["sequence"]
    if lost:
        yield {**found, "lost": True, "lost_dir": _LOST_DIRECTIONS[row["fate"]]}
        return
    if row["rtt_ns"] is None:
        return
    found["val"] = row["rtt_ns"] / 1e6
    for key, column in (("owd_up", "up_ns"), ("owd_down", "down_ns"), *((key, key) for key in _VARIATIONS)):
        if row[column] is not None:
            found[key] = row[column] / 1e6
    yield found


def _fetch(row: Row) -> Iterator[Row]:
    if row["start_ns"] is not None:
        duration_ns = row["duration_ns"]
        yield {"t": _seconds(row["start_ns"]), "val": duration_ns / 1e6 if duration_ns is not None else None}


def _value(row: Row) -> Iterator[Row]:
    if row["time_ns"] is not None:
        yield {"t": _seconds(row["time_ns"]), row["key"] or "val": row["value"]}


_CONVERTERS: dict[str, Callable[[Row], Iterator[Row]]] = {
    "intervals": _interval,
    "tcp_info": _tcp_info,
    "probes": _probe,
    "fetches": _fetch,
    "values": _value,
}
