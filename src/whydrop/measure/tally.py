"""The yield of each flow of a running test so far: a flow without data must not pass unseen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop.measure.far_hosts import version_of
from whydrop.measure.plan import PlannedFlow

# Tables that show that a flow has data: kinds of flows, the rows that count, and the columns of first and last times.
_DATA = {
    "intervals": (("tcp", "udp"), pl.col("payload_bytes") > 0, "start_ns", "end_ns"),
    "probes": (("probe", "icmp"), pl.col("received_ns").is_not_null(), "scheduled_ns", "scheduled_ns"),
    "bursts": (("burst",), pl.col("received_ns").is_not_null(), "sent_ns", "sent_ns"),
    "fetches": (("http",), pl.col("error").is_null(), "start_ns", "start_ns"),
    "values": (("value",), pl.col("value").is_not_null(), "time_ns", "time_ns"),
}

# A line names at most this many flows.
_MOST_NAMED = 3


@dataclass(frozen=True)
class Failure:
    """A flow that failed or yielded nothing, and why."""

    flow: str
    reason: str

    def __str__(self) -> str:
        return f"{self.flow}: {self.reason}"


def summed_up(failures: Sequence[Failure]) -> list[str]:
    """One line for each reason, with the flows that failed for it."""
    by_reason: dict[str, list[str]] = {}
    for failure in failures:
        by_reason.setdefault(failure.reason, []).append(failure.flow)
    return [f"{_listed(flows)}: {reason}" for reason, flows in by_reason.items()]


def _listed(flows: list[str]) -> str:
    if len(flows) > _MOST_NAMED + 1:
        return f"{', '.join(flows[:_MOST_NAMED])} and {len(flows) - _MOST_NAMED} other flows"
    return ", ".join(flows)


class Tally:
    """One flow: what it was asked, what it yielded, and how it ended."""

    def __init__(self, number: int, flow: PlannedFlow) -> None:
        self.number = number
        self.flow = flow
        self.rows_with_data = 0
        self.payload_bytes = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.status: str | None = None
        self.message: str | None = None
        self.facts: dict[str, Any] = {}

    def end(self, status: str, message: str | None) -> None:
        """Take note of how it ended; of several words on that, the first failure stands."""
        if self.status != "failed":
            self.status, self.message = status, message

    def settle(self, *, interrupted: bool) -> None:
        """The test is over: what has no ending yet gets one."""
        if self.status is None:
            self.end("stopped" if interrupted else "failed", None if interrupted else "it did not end in time")
        if self.status == "stopped" and self.flow.runner == "engine" and not interrupted:
            self.status, self.message = "failed", "it had not ended in time and was stopped"
        if self.status == "complete" and not self.rows_with_data:
            self.status = "no-data"
            self.message = self.message or _nothing(self.flow)

    def failure(self) -> Failure | None:
        """Why the test as a whole has failed, as far as this flow is concerned."""
        if self.flow.optional or self.status not in ("failed", "no-data"):
            return None
        return Failure(self.flow.name, self.message or self.status)

    def row(self, address: str | None) -> dict[str, Any]:
        """Its row of table ``flows``."""
        flow = self.flow
        return {
            "flow": self.number,
            **{key: getattr(flow, key) for key in ("name", "kind", "direction", "runner", "host", "dscp", "units")},
            "address": address,
            "ip_version": flow.ip_version or version_of(address or ""),
            "congestion_control": self.facts.get("congestion_control", flow.congestion_control),
            "start_ns": self.first_ns,
            "end_ns": self.last_ns,
            "payload_bytes": self.payload_bytes if flow.kind in ("tcp", "udp") else None,
            "status": self.status or "running",
            "message": self.message,
            "settings": json.dumps(flow.settings(), ensure_ascii=False),
            "facts": json.dumps(self.facts, ensure_ascii=False, default=str),
        }


def count(tallies: Mapping[int, Tally], frames: Mapping[str, pl.DataFrame]) -> None:
    """Count rows that were measured towards their flows."""
    for table, (kinds, has_data, start, end) in _DATA.items():
        frame = frames.get(table)
        if frame is None or not frame.height:
            continue
        sizes = pl.col("payload_bytes").sum() if table == "intervals" else pl.lit(0)
        summed = frame.group_by("flow").agg(
            has_data.sum().alias("rows"), sizes.alias("bytes"), pl.col(start).min().alias("first"),
            pl.col(end).max().alias("last"),
        )  # fmt: skip
        for flow, rows, size, first, last in summed.iter_rows():
            tally = tallies.get(flow)
            if tally is None or tally.flow.kind not in kinds:
                continue
            tally.rows_with_data += rows
            tally.payload_bytes += size or 0
            tally.first_ns = first if tally.first_ns is None else min(tally.first_ns, first or tally.first_ns)
            tally.last_ns = last if tally.last_ns is None else max(tally.last_ns, last or tally.last_ns)


def _nothing(flow: PlannedFlow) -> str:
    if flow.kind in ("probe", "icmp"):
        return "no data: not one probe was answered"
    return "no data: nothing arrived"
