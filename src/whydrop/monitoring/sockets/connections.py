"""Connections as flows of a recording: one for the data this host sends, and one for received data, if there is any."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.monitoring.sockets.sampler import Taken
from whydrop.recording import tables

# Looking through many processes takes milliseconds.
_OWNERS_EVERY_S = 1.0
_ENDS = ("local", "remote")
_COPIED = ("cookie", "uid", "interface", "mark", "cgroup_id", "upper_layer", "mptcp_token", "ecn", "older")

# `json.dumps` would make an encoder for each of thousands of connections.
_as_json = json.JSONEncoder(ensure_ascii=False).encode

Owners = Callable[[set[int]], dict[int, tuple[int, str, str | None]]]


@dataclass
class Connection:
    """One open connection.

    Attributes:
        sampled: the sampler's facts about it.
        owner: number and name of its process, and the control group of that.
        payload_bytes: acknowledged and received, in the present recording.
        receives: whether there is a flow of received data.
        facts: of table ``flows``, as they were written last; empty when they have changed since.
    """

    sampled: dict[str, Any]
    owner: tuple[int, str, str | None] | None = None
    payload_bytes: list[int] = field(default_factory=lambda: [0, 0])
    last_ns: int = 0
    receives: bool = False
    names: list[str] = field(default_factory=list)
    facts: str = ""

    @cached_property
    def ends(self) -> tuple[str, str]:
        """This end and the other one."""
        local, remote = (place(self.sampled[f"{end}_address"], self.sampled[f"{end}_port"]) for end in _ENDS)
        return local, remote


def place(address: str, port: int) -> str:
    """An end of a connection.

    >>> place("192.0.2.1", 80), place("2001:db8::1", 80)
    ('192.0.2.1:80', '[2001:db8::1]:80')
    """
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Connections:
    """All open connections, by the numbers of their flows.

    Attributes:
        seen: the number of connections since the beginning.
    """

    def __init__(self, owners: Owners = _core.socket_owners) -> None:
        self.there: dict[int, Connection] = {}
        self.seen = 0
        self._owners = owners
        self._unowned: set[int] = set()
        self._owners_due_s = 0.0
        self._changed: set[int] = set()
        self._names: dict[str, int] = {}

    def take(self, taken: Taken) -> pl.DataFrame:
        """Take samples; return the rows of table ``flows`` that are new or have changed."""
        for sampled in taken.connections:
            self._describe(sampled)
        self._count(taken.frames.get("intervals"))
        rows: list[dict[str, Any]] = []
        for flow, time_ns in taken.ended:
            connection = self.there.pop(flow, None)
            if connection is not None:
                connection.last_ns = time_ns
                rows += self._rows(flow, connection, "complete")
            self._changed.discard(flow)
            self._unowned.discard(flow)
        self._find_owners()
        for flow in sorted(self._changed):
            rows += self._rows(flow, self.there[flow], "running")
        self._changed.clear()
        return _frame(rows)

    def begin_again(self) -> pl.DataFrame:
        """The rows of the open connections, for a new recording."""
        self._names.clear()
        rows: list[dict[str, Any]] = []
        for flow, connection in self.there.items():
            connection.payload_bytes, connection.names, connection.receives = [0, 0], [], False
            rows += self._rows(flow, connection, "running")
        return _frame(rows)

    def close(self, now_ns: int) -> pl.DataFrame:
        """The rows of the connections that are still open, for a recording that ends."""
        rows: list[dict[str, Any]] = []
        for flow, connection in self.there.items():
            connection.last_ns = max(now_ns, connection.last_ns)
            rows += self._rows(flow, connection, "stopped")
        return _frame(rows)

    def _describe(self, sampled: dict[str, Any]) -> None:
        flow = sampled["flow"]
        known = self.there.get(flow)
        if known is None:
            self.seen += 1
            self.there[flow] = known = Connection(sampled, last_ns=sampled["seen_ns"])
        else:
            # When it was first seen, and whether it is older than the watch, does not change.
            known.sampled = {**sampled, "seen_ns": known.sampled["seen_ns"], "older": known.sampled["older"]}
            known.facts = ""
        if known.owner is None and sampled["inode"]:
            self._unowned.add(flow)
        self._changed.add(flow)

    def _count(self, intervals: pl.DataFrame | None) -> None:
        if intervals is None:
            return
        sums = intervals.group_by("flow").agg(pl.col("payload_bytes").sum(), pl.col("end_ns").max())
        for flow, payload_bytes, end_ns in sums.iter_rows():
            own, direction = flow - flow % 2, flow % 2
            connection = self.there.get(own)
            if connection is None:
                continue
            connection.payload_bytes[direction] += payload_bytes
            connection.last_ns = max(connection.last_ns, end_ns)
            if direction and not connection.receives:
                connection.receives = True
                self._changed.add(own)

    def _find_owners(self) -> None:
        if not self._unowned or time.monotonic() < self._owners_due_s:
            return
        self._owners_due_s = time.monotonic() + _OWNERS_EVERY_S
        by_inode = {self.there[flow].sampled["inode"]: flow for flow in self._unowned}
        for inode, owner in self._owners(set(by_inode)).items():
            self.there[by_inode[inode]].owner = owner
            self.there[by_inode[inode]].facts = ""
            self._changed.add(by_inode[inode])
        # The owners of the others stay unknown.
        self._unowned.clear()

    def _rows(self, flow: int, connection: Connection, status: str) -> Iterator[dict[str, Any]]:
        if not connection.names:
            local, remote = connection.ends
            connection.names = [self._unique(f"{local} > {remote}"), self._unique(f"{remote} > {local}")]
        connection.facts = connection.facts or _as_json(_facts(connection))
        for direction in (0, 1) if connection.receives else (0,):
            yield _row(flow, direction, connection, status)

    def _unique(self, name: str) -> str:
        """The name, with a number from its second use on: ports are reused."""
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name} #{self._names[name]}"


def _row(flow: int, direction: int, connection: Connection, status: str) -> dict[str, Any]:
    sampled = connection.sampled
    over = status != "running"
    traffic_class = sampled["traffic_class"]
    return {
        "flow": flow + direction,
        "name": connection.names[direction],
        "kind": "tcp",
        "direction": ("up", "down")[direction],
        "runner": "kernel",
        "host": sampled["remote_address"],
        "address": sampled["remote_address"],
        "ip_version": 6 if ":" in sampled["remote_address"] else 4,
        # The DSCP that this host sets is on the packets that it sends.
        "dscp": traffic_class >> 2 if traffic_class is not None and not direction else None,
        "congestion_control": sampled["congestion_control"] if not direction else None,
        "start_ns": sampled["seen_ns"],
        "end_ns": connection.last_ns if over else None,
        "payload_bytes": connection.payload_bytes[direction] if over else None,
        "status": status,
        "facts": connection.facts,
    }


def _facts(connection: Connection) -> dict[str, Any]:
    local, remote = connection.ends
    facts: dict[str, Any] = {"local": local, "remote": remote}
    facts |= {name: connection.sampled[name] for name in _COPIED if connection.sampled[name] not in (None, False)}
    if connection.owner is not None:
        pid, process, cgroup = connection.owner
        facts |= {"pid": pid, "process": process} | ({} if cgroup is None else {"cgroup": cgroup})
    return facts


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=tables.FLOWS)
