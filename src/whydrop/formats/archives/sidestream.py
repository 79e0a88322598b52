"""SideStream's ``.web100``: the last web100 variables of every connection of a host, one line each.

A line ``K:`` names the columns of the lines ``C:`` that follow it.
"""

from __future__ import annotations

import io
from collections import defaultdict

import polars as pl

from whydrop.formats.archives import web100_rows
from whydrop.formats.archives.names import Host, plain
from whydrop.formats.archives.quantities import LARGEST
from whydrop.store.tables import conform

_NEEDED = ("RemAddress", "RemPort")
_MOST_COLUMNS = 1000
_MOST_LINE = 1 << 16
_MOST_CONNECTIONS = 1_000_000


def is_sidestream(head: bytes) -> bool:
    """True if a file that begins with these bytes is SideStream's."""
    return head.startswith(b"K: ")


def read(content: bytes, name: str, of: Host | None) -> tuple[pl.DataFrame, str | None]:
    """The connections as rows of ``tcp``, and the damage: lines that cannot be read are left out."""
    columns: list[str] = []
    rows: dict[str, list[object]] = defaultdict(list)
    bad, damage, offset = 0, None, 0
    count = 0
    for number, line in enumerate(io.BytesIO(content), 1):
        if count == _MOST_CONNECTIONS:
            damage = f"more than {count} connections: those from offset {offset} on were not read"
            break
        words = line[:_MOST_LINE].decode("ascii", "backslashreplace").split()
        # A file that was cut off ends within a line: its last number may lack digits.
        whole = line.endswith(b"\n")
        if words and words[0] == "K:" and whole and len(words) <= _MOST_COLUMNS and set(_NEEDED) <= set(words):
            columns = words[1:]
        elif words and words[0] == "C:" and whole and columns and len(words) - 1 == len(columns):
            _take(dict(zip(columns, words[1:], strict=True)), rows, plain(name), of)
            count += 1
        elif words:
            bad += 1
            expected = f"{len(columns)} values" if columns else "names of columns (K:)"
            damage = damage or f"line {number}, at offset {offset}: expected a connection (C:) of {expected}"
        offset += len(line)
    if damage and bad > 1:
        damage += f"; {bad} such lines were left out"
    frame = pl.DataFrame({key: rows[key] for key in rows}, schema=_schema(rows))
    return conform("tcp", frame), damage


def _schema(rows: dict[str, list[object]]) -> dict[str, pl.DataType]:
    texts = {"test_id", "source", "machine", "site", "local_address", "remote_address", "state"}
    return {key: pl.String() if key in texts else pl.Int64() for key in rows}


def _take(values: dict[str, str], rows: dict[str, list[object]], name: str, of: Host | None) -> None:
    def number(variable: str, factor: int = 1) -> int | None:
        word = values.get(variable, "")
        found = int(word) if word.isascii() and word.isdigit() and len(word) < 20 else None
        return found * factor if found is not None and found <= LARGEST // factor else None

    connection = values.get("cid")
    rows["test_id"].append(f"{name}/{connection}" if connection else name)
    rows["source"].append("sidestream")
    rows["machine"].append(of.machine if of else None)
    rows["site"].append(of.site if of else None)
    for column, variable in (("local_address", "LocalAddress"), ("remote_address", "RemAddress")):
        rows[column].append(values.get(variable, "")[:64] or None)
    for column, variable in (("local_port", "LocalPort"), ("remote_port", "RemPort")):
        rows[column].append(number(variable))
    state = number("State")
    rows["state"].append(web100_rows.state(state) if state is not None else None)
    for column, variable, factor in web100_rows.COUNTERS:
        rows[column].append(number(variable, factor))
    for column, variable, factor in web100_rows.GAUGES:
        value = number(variable)
        rows[column].append(number(variable, factor) if _measured(column, value, number("CountRTT")) else None)
    elapsed, second, micro = number("Duration", 1000), number("StartTimeSec"), number("StartTimeUsec")
    rows["elapsed_ns"].append(elapsed)
    moment = None
    if second and elapsed is not None and second < LARGEST // 2 // 10**9 and elapsed < LARGEST // 4:
        moment = second * 10**9 + (micro or 0) % 10**6 * 1000 + elapsed
    rows["time_ns"].append(moment)


def _measured(column: str, value: int | None, samples: int | None) -> bool:
    if column in web100_rows.OF_RTT:
        return value != web100_rows.NO_RTT and samples != 0
    if column == "slow_start_threshold_bytes":
        return value is not None and value < web100_rows.NO_THRESHOLD
    return column != "retransmission_timeout_ns" or bool(value)
