"""Flent's raw values as tables of a recording, under the names that the series have in the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from whydrop.formats.files import nanoseconds, number, rounded
from whydrop.formats.flent.upgrade import FlentFile, Row

SEPARATOR = "::"

# Flent's runners that compute series, and the names of those computations in a recording.
COMPUTING = {
    "AverageRunner": "mean",
    "SmoothAverageRunner": "smooth-mean",
    "SumRunner": "sum",
    "DiffMinRunner": "difference-from-min",
    "FairnessRunner": "fairness",
}

# Names of computed series in files without the runner.
_COMPUTED_ENDINGS = {" avg": "mean", " sum": "sum", " totals": "sum", " fairness": "fairness"}

# Keys of raw rows, their columns, and the factor from Flent's units (packets, ms, Mbit/s) to the columns'.
TCP_COLUMNS = {
    "tcp_cwnd": ("congestion_window_packets", 1.0),
    "tcp_rtt": ("srtt_ns", 1e6),
    "tcp_rtt_var": ("rtt_variation_ns", 1e6),
    "tcp_pacing_rate": ("pacing_rate_bps", 1e6),
    "tcp_delivery_rate": ("delivery_rate_bps", 1e6),
}
_WHOLE = {"congestion_window_packets", "srtt_ns", "rtt_variation_ns"}

_ICMP_RUNNERS = {"PingRunner"}
_PROBE_RUNNERS = {"IrttRunner", "UdpRttRunner"}

_LOST = {"up": "lost-up", "down": "lost-down"}


class Values:
    """The tables of one file.

    Attributes:
        computed: computed series by name, and how each is computed.
        notes: raw values and time stamps that are left out or corrected.
    """

    def __init__(self, file: FlentFile) -> None:
        self.file = file
        self.notes = list(file.notes)
        self.computed: dict[str, str] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        for name in self._ordered_names():
            by = self._computed_by(name)
            if by is not None:
                self.computed[name] = by
            elif not self._belongs_to_another(name):
                self._add_flow(name)

    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables that have rows."""
        from whydrop.recording.tables import TABLES

        frames = {name: pl.DataFrame(rows, schema=_subset(TABLES[name], rows)) for name, rows in self._rows.items()}
        if self.file.x_values:
            frames["grids"] = self._grids()
        return frames

    def _grids(self) -> pl.DataFrame:
        results = pl.DataFrame(self.file.results, dict.fromkeys(self.file.results, pl.Float64()))
        time_s = pl.Series("\0", self.file.x_values, dtype=pl.Float64)  # no series has such a name
        grids = results.with_columns(time_s).unpivot(index="\0", variable_name="name")
        return grids.select("name", pl.col("\0").alias("time_s"), pl.col("value").cast(pl.Float64))

    def _ordered_names(self) -> list[str]:
        """Every series of the file, in the order of its test if the file has it."""
        names = list(dict.fromkeys([*self.file.results, *self.file.raw]))
        order = {name: entry.get("IDX") for name, entry in self.file.series_metadata.items()}
        place = {name: position for position, name in enumerate(names)}

        def key(name: str) -> tuple[float, int]:
            index = order.get(name)
            return (index if isinstance(index, (int, float)) else float("inf"), place[name])

        return sorted(names, key=key)

    def _computed_by(self, name: str) -> str | None:
        by = COMPUTING.get(str(self.file.series_metadata.get(name, {}).get("RUNNER")))
        if by is not None:
            return by
        if self.file.raw.get(name):
            return None
        return next((known for ending, known in _COMPUTED_ENDINGS.items() if name.endswith(ending)), None)

    def _belongs_to_another(self, name: str) -> bool:
        """True if it is a further quantity of another series, as in ``NAME::tcp_cwnd``."""
        flow, separator, _ = name.rpartition(SEPARATOR)
        if not separator or self.file.raw.get(name):
            return False
        if flow in self.file.raw or flow in self.file.results:
            return True
        # An N-up test calls its flows "TCP upload::1" without having a "TCP upload".
        return self._belongs_to_another(flow) if SEPARATOR in flow else False

    def _add_flow(self, name: str) -> None:
        rows = self.file.raw.get(name, [])
        meta = self.file.series_metadata.get(name, {})
        kind = self._kind(name, rows, meta)
        convert, known = _KINDS[kind]
        flow = len(self._rows.get("flows", ()))
        times = []
        for row in rows:
            time_ns = nanoseconds(row.get("t"))
            if time_ns is None:
                continue
            times.append(time_ns)
            for table, sample in convert(row, time_ns):
                self._row(table, flow, sample)
            for key, value in _other_quantities(row, known):
                self._row("values", flow, {"time_ns": time_ns, "key": key, "value": value})
        if len(times) < len(rows):
            self.notes.append(f"{name}: {len(rows) - len(times)} raw values without a time were left out")
        has_data = bool(times) or any(value is not None for value in self.file.results.get(name, ()))
        facts = _flow_facts(name, kind, meta) | {
            "host": self._host(name),
            "start_ns": min(times, default=None),
            "end_ns": max(times, default=None),
            "status": "complete" if has_data else "no-data",
        }
        self._row("flows", flow, facts)

    def _row(self, table: str, flow: int, row: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append({"flow": flow, **row})

    def _host(self, name: str) -> str | None:
        """The host of a series; some tests name it in the series' name."""
        hosts = [host for host in self.file.original.get("HOSTS") or [] if isinstance(host, str)]
        named = [host for host in hosts if host in name]
        return max(named, key=len, default=hosts[0] if hosts else None)

    def _kind(self, name: str, rows: list[Row], meta: dict[str, Any]) -> str:
        runner = str(meta.get("RUNNER"))
        units = str(meta.get("UNITS") or "")
        keys = {key for row in rows for key in row}
        if runner in _ICMP_RUNNERS or (name.startswith("Ping") and "ICMP" in name):
            return "icmp"
        if runner in _PROBE_RUNNERS or "owd_up" in keys or name.startswith("Ping (ms)"):
            return "probe"
        if name.startswith("HTTP latency"):
            return "http"
        rate = units.startswith("Mbit") or "tcp_cwnd" in keys or name.startswith(("TCP ", "UDP "))
        if rate and "val" in (keys or {"val"}):
            return "udp" if name.startswith("UDP") or "UDP_STREAM" in str(meta.get("COMMAND")) else "tcp"
        return "value"


_Samples = Iterator[tuple[str, dict[str, Any]]]


def _tcp(row: Row, time_ns: int) -> _Samples:
    sample = {}
    for key, (column, factor) in TCP_COLUMNS.items():
        value = number(row.get(key))
        if value is not None:
            sample[column] = rounded(value, factor) if column in _WHOLE else _in_bps(value)
    if sample:
        yield "tcp_info", {"time_ns": time_ns, **sample}
    if "val" in row:
        duration_ns, value = rounded(number(row.get("dur")), 1e9), number(row["val"])
        start_ns = None if duration_ns is None else time_ns - duration_ns
        yield (
            "intervals",
            {
                "start_ns": start_ns if start_ns is not None and abs(start_ns) < 1 << 63 else None,
                "end_ns": time_ns,
                "goodput_bps": _in_bps(value) if value is not None else None,
            },
        )


def _probe(row: Row, time_ns: int) -> _Samples:
    lost = bool(row.get("lost"))
    # irtt states when a lost probe was sent, and when an answer came; ping and netperf only the latter.
    fate = (_LOST.get(str(row.get("lost_dir")), "lost") if lost else "ok") if "owd_up" in row or lost else None
    yield (
        "probes",
        {
            "sequence": rounded(number(row.get("seq"))),
            "sent_ns": time_ns if lost else None,
            "received_ns": None if lost else time_ns,
            "rtt_ns": rounded(number(row.get("val")), 1e6),
            "up_ns": rounded(number(row.get("owd_up")), 1e6),
            "down_ns": rounded(number(row.get("owd_down")), 1e6),
            "fate": fate,
        },
    )


def _fetch(row: Row, time_ns: int) -> _Samples:
    yield "fetches", {"start_ns": time_ns, "duration_ns": rounded(number(row.get("val")), 1e6)}


def _value(row: Row, time_ns: int) -> _Samples:
    if "val" in row:
        yield "values", {"time_ns": time_ns, "key": "", "value": number(row["val"])}


# By the kind of a flow: its samples from a raw row, and the keys of the row that are in them.
_OF_TCP = (_tcp, {"t", "val", "dur", *TCP_COLUMNS})
_OF_PROBES = (_probe, {"t", "val", "seq", "owd_up", "owd_down", "lost", "lost_dir"})
_KINDS: dict[str, tuple[Callable[[Row, int], _Samples], set[str]]] = {
    "tcp": _OF_TCP,
    "udp": _OF_TCP,
    "probe": _OF_PROBES,
    "icmp": _OF_PROBES,
    "http": (_fetch, {"t", "val"}),
    "value": (_value, {"t", "val"}),
}


def _other_quantities(row: Row, known: set[str], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Numbers under other keys, those of objects in the row by their path."""
    for key, value in row.items():
        if key in known:
            continue
        if isinstance(value, dict):
            yield from _other_quantities(value, set(), f"{prefix}{key}{SEPARATOR}")
        elif (found := number(value)) is not None:
            yield prefix + key, found


def _in_bps(value_mbit_per_s: float) -> float:
    """Rounded, so that 0.39 Mbit/s are 390000 bit/s, and 0.39 again when they are divided."""
    return round(value_mbit_per_s * 1e6, 6)


def _flow_facts(name: str, kind: str, meta: dict[str, Any]) -> dict[str, Any]:
    lower = name.lower()
    direction = "up" if "upload" in lower else "down" if "download" in lower else "both"
    facts: dict[str, Any] = {"flent": meta} if meta else {}
    mean = number(meta.get("MEAN_VALUE"))
    if mean is not None:
        facts["mean_value"] = mean
    tos = number(meta.get("UPSTREAM_TOS" if direction == "up" else "DOWNSTREAM_TOS" if direction == "down" else ""))
    return {
        "name": name,
        "kind": kind,
        "direction": direction,
        "runner": str(meta.get("RUNNER") or "flent").removesuffix("Runner").lower(),
        "dscp": (int(tos) >> 2) & 63 if tos is not None else None,
        "congestion_control": meta["CONG_CONTROL"] if isinstance(meta.get("CONG_CONTROL"), str) else None,
        # D-ITG's value for each packet is its delay, whatever the file says.
        "units": "ms" if name == "VoIP" else (str(meta.get("UNITS") or "") or None) if kind == "value" else None,
        "facts": json.dumps(facts, sort_keys=True) if facts else None,
    }


def _subset(schema: dict[str, pl.DataType], rows: list[dict[str, Any]]) -> dict[str, pl.DataType]:
    used = {key for row in rows for key in row}
    return {name: kind for name, kind in schema.items() if name in used}
