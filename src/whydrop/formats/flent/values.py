"""Flent's raw values as tables of a recording, under the names that the series have in the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl

from whydrop.formats.files import nanoseconds, number, rounded
from whydrop.formats.flent.upgrade import FlentFile, Row

SEPARATOR = "::"

# How Flent's computing runners are called here.
COMPUTING = {
    "AverageRunner": "mean",
    "SmoothAverageRunner": "smooth-mean",
    "SumRunner": "sum",
    "DiffMinRunner": "difference-from-min",
    "FairnessRunner": "fairness",
}

# Names of computed series in files without the runner.
_COMPUTED_ENDINGS = {" avg": "mean", " sum": "sum", " totals": "sum", " fairness": "fairness"}

# Keys of raw rows that have a column; in Flent's units, and the factor to ours.
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
        notes: what could not be taken over.
    """

    def __init__(self, file: FlentFile) -> None:
        self.file = file
        self.notes = list(file.notes)
        self.computed: dict[str, str] = {}
        self.flow_names: list[str] = []
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
        x_values = pl.Series("time_s", self.file.x_values, dtype=pl.Float64)
        return pl.concat(
            [
                pl.DataFrame({"time_s": x_values, "value": pl.Series(values, dtype=pl.Float64)}).select(
                    pl.lit(name).alias("name"), "time_s", "value"
                )
                for name, values in self.file.results.items()
            ]
            or [pl.DataFrame(schema={"name": pl.String(), "time_s": pl.Float64(), "value": pl.Float64()})]
        )

    def _ordered_names(self) -> list[str]:
        """Every series of the file, in the order of its test if the file has it."""
        names = list(dict.fromkeys([*self.file.results, *self.file.raw]))
        order = {name: entry.get("IDX") for name, entry in self.file.series_metadata.items()}
        place = {name: position for position, name in enumerate(names)}

        def key(name: str) -> tuple[float, int]:
            told = order.get(name)
            return (told if isinstance(told, (int, float)) else float("inf"), place[name])

        return sorted(names, key=key)

    def _computed_by(self, name: str) -> str | None:
        told = COMPUTING.get(str(self.file.series_metadata.get(name, {}).get("RUNNER")))
        if told is not None:
            return told
        if self.file.raw.get(name):
            return None
        return next((by for ending, by in _COMPUTED_ENDINGS.items() if name.endswith(ending)), None)

    def _belongs_to_another(self, name: str) -> bool:
        """True if it is a further quantity of another series, as in ``NAME::tcp_cwnd``."""
        flow, separator, _ = name.rpartition(SEPARATOR)
        if not separator or self.file.raw.get(name):
            return False
        if flow in self.file.raw or flow in self.file.results:
            return True
        # An N-up test calls its flows "TCP upload::1" without having a "TCP upload".
        return self._belongs_to_another(flow) if SEPARATOR in flow else False

    # One flow.

    def _add_flow(self, name: str) -> None:
        rows = self.file.raw.get(name, [])
        meta = self.file.series_metadata.get(name, {})
        kind = self._kind(name, rows, meta)
        number_ = len(self.flow_names)
        self.flow_names.append(name)
        fill: dict[str, Callable[[int, Row, int], None]] = {
            "tcp": self._add_tcp,
            "udp": self._add_tcp,
            "probe": self._add_probe,
            "icmp": self._add_probe,
            "http": self._add_fetch,
            "value": self._add_value,
        }
        times = []
        for row in rows:
            time_ns = nanoseconds(row.get("t"))
            if time_ns is not None:
                fill[kind](number_, row, time_ns)
                times.append(time_ns)
        if len(times) < len(rows):
            self.notes.append(f"{name}: {len(rows) - len(times)} raw values without a time were left out")
        self._row("flows", _flow_row(number_, name, kind, meta, times, bool(self._has_results(name)), self._host(name)))

    def _has_results(self, name: str) -> bool:
        return any(value is not None for value in self.file.results.get(name, ()))

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

    def _row(self, table: str, row: dict[str, Any]) -> None:
        self._rows.setdefault(table, []).append(row)

    def _add_tcp(self, flow: int, row: Row, time_ns: int) -> None:
        sample = {}
        for key, (column, factor) in TCP_COLUMNS.items():
            value = number(row.get(key))
            if value is not None:
                sample[column] = rounded(value, factor) if column in _WHOLE else _in_bps(value)
        if sample:
            self._row("tcp_info", {"flow": flow, "time_ns": time_ns, **sample})
        if "val" in row:
            duration_ns, value = rounded(number(row.get("dur")), 1e9), number(row["val"])
            self._row(
                "intervals",
                {
                    "flow": flow,
                    "start_ns": _in_64_bits(time_ns - duration_ns) if duration_ns is not None else None,
                    "end_ns": time_ns,
                    "goodput_bps": _in_bps(value) if value is not None else None,
                },
            )
        self._add_keys(flow, row, time_ns, {"t", "val", "dur", *TCP_COLUMNS})

    def _add_probe(self, flow: int, row: Row, time_ns: int) -> None:
        lost = bool(row.get("lost"))
        rtt_ms, sequence = number(row.get("val")), number(row.get("seq"))
        tells_loss = "owd_up" in row or lost
        probe: dict[str, Any] = {
            "flow": flow,
            "sequence": rounded(sequence),
            # irtt states when a lost probe was sent, and when an answer came; ping and netperf only the latter.
            "sent_ns": time_ns if lost else None,
            "received_ns": None if lost else time_ns,
            "rtt_ns": _in_ns(rtt_ms),
            "up_ns": _in_ns(number(row.get("owd_up"))),
            "down_ns": _in_ns(number(row.get("owd_down"))),
            "fate": (_LOST.get(str(row.get("lost_dir")), "lost") if lost else "ok") if tells_loss else None,
        }
        self._row("probes", probe)
        self._add_keys(flow, row, time_ns, {"t", "val", "seq", "owd_up", "owd_down", "lost", "lost_dir"})

    def _add_fetch(self, flow: int, row: Row, time_ns: int) -> None:
        value_ms = number(row.get("val"))
        self._row("fetches", {"flow": flow, "start_ns": time_ns, "duration_ns": _in_ns(value_ms)})
        self._add_keys(flow, row, time_ns, {"t", "val"})

    def _add_value(self, flow: int, row: Row, time_ns: int) -> None:
        if "val" in row:
            self._row("values", {"flow": flow, "time_ns": time_ns, "key": "", "value": number(row["val"])})
        self._add_keys(flow, row, time_ns, {"t", "val"})

    def _add_keys(self, flow: int, row: Row, time_ns: int, known: set[str], prefix: str = "") -> None:
        for key, value in row.items():
            if key in known:
                continue
            if isinstance(value, dict):
                self._add_keys(flow, value, time_ns, set(), f"{prefix}{key}{SEPARATOR}")
            elif (told := number(value)) is not None:
                self._row("values", {"flow": flow, "time_ns": time_ns, "key": prefix + key, "value": told})


def _in_bps(value_mbit_per_s: float) -> float:
    """Rounded, so that 0.39 Mbit/s are 390000 bit/s, and 0.39 again when they are divided."""
    return round(value_mbit_per_s * 1e6, 6)


def _in_ns(value_ms: float | None) -> int | None:
    return rounded(value_ms, 1e6)


def _in_64_bits(value: int) -> int | None:
    return value if abs(value) < 1 << 63 else None


def _flow_row(
    flow: int, name: str, kind: str, meta: dict[str, Any], times: list[int], has_results: bool, host: str | None
) -> dict[str, Any]:
    lower = name.lower()
    direction = "up" if "upload" in lower else "down" if "download" in lower else "both"
    facts: dict[str, Any] = {"flent": meta} if meta else {}
    mean = number(meta.get("MEAN_VALUE"))
    if mean is not None:
        facts["mean_value"] = mean
    tos = number(meta.get("UPSTREAM_TOS" if direction == "up" else "DOWNSTREAM_TOS" if direction == "down" else ""))
    return {
        "flow": flow,
        "name": name,
        "kind": kind,
        "direction": direction,
        "runner": str(meta.get("RUNNER") or "flent").removesuffix("Runner").lower(),
        "host": host,
        "dscp": (int(tos) >> 2) & 63 if tos is not None else None,
        "congestion_control": meta["CONG_CONTROL"] if isinstance(meta.get("CONG_CONTROL"), str) else None,
        # D-ITG's value for each packet is its delay, whatever the file says.
        "units": "ms" if name == "VoIP" else (str(meta.get("UNITS") or "") or None) if kind == "value" else None,
        "start_ns": min(times, default=None),
        "end_ns": max(times, default=None),
        "status": "complete" if times or has_results else "no-data",
        "facts": json.dumps(facts, sort_keys=True) if facts else None,
    }


def _subset(schema: dict[str, pl.DataType], rows: list[dict[str, Any]]) -> dict[str, pl.DataType]:
    used = {key for row in rows for key in row}
    return {name: kind for name, kind in schema.items() if name in used}
