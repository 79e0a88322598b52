"""Connections as flows of a recording: one for what this host sends, one for what it receives, if anything."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.collect.sockets.sampling import Taken
from whydrop.recording import tables

# To look through all processes takes milliseconds where there are many.
_OWNERS_EVERY_S = 1.0
_COPIED = ("cookie", "uid", "interface", "mark", "cgroup_id", "upper_layer", "mptcp_token", "ecn", "older")

# Of thousands of connections: `json.dumps` would make an encoder for each.
_as_json = json.JSONEncoder(ensure_ascii=False).encode

Owners = Callable[[set[int]], dict[int, tuple[int, str, str | None]]]


@dataclass
class Connection:
    """One connection that is there.

    Attributes:
        told: what the sampler says of it.
        owner: number and name of its process, and that one's control group.
        payload_bytes: sent and acknowledged, received; in the recording that is written.
        receives: whether there is a flow of what it receives.
        facts: of table ``flows``, once they are written; empty when something of them has changed since.
    """

    told: dict[str, Any]
    owner: tuple[int, str, str | None] | None = None
    payload_bytes: list[int] = field(default_factory=lambda: [0, 0])
    last_ns: int = 0
    receives: bool = False
    names: list[str] = field(default_factory=list)
    facts: str = ""

    @cached_property
    def ends(self) -> tuple[str, str]:
        """This end and the other one."""
        told = self.told
        return place(told["local_address"], told["local_port"]), place(told["remote_address"], told["remote_port"])


def place(address: str, port: int) -> str:
    """An end of a connection.

    >>> place("192.0.2.1", 80), place("2001:db8::1", 80)
    ('192.0.2.1:80', '[2001:db8::1]:80')
    """
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Connections:
    """All connections that are there, by the numbers of their flows.

    Attributes:
        seen: how many there were, since the beginning.
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
        """Take note of what was seen; the rows of table ``flows`` that are new or have changed."""
        for told in taken.connections:
            self._describe(told)
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
        """For a new recording: the rows of those that are there."""
        self._names.clear()
        rows: list[dict[str, Any]] = []
        for flow, connection in self.there.items():
            connection.payload_bytes, connection.names, connection.receives = [0, 0], [], False
            rows += self._rows(flow, connection, "running")
        return _frame(rows)

    def close(self, now_ns: int) -> pl.DataFrame:
        """For a recording that ends: the rows of those that are still there."""
        rows: list[dict[str, Any]] = []
        for flow, connection in self.there.items():
            connection.last_ns = max(now_ns, connection.last_ns)
            rows += self._rows(flow, connection, "stopped")
        return _frame(rows)

    def _describe(self, told: dict[str, Any]) -> None:
        flow = told["flow"]
        known = self.there.get(flow)
        if known is None:
            self.seen += 1
            self.there[flow] = known = Connection(told, last_ns=told["seen_ns"])
        else:
            # Since when it is there, and whether it was before us, was said at first.
            known.told = {**told, "seen_ns": known.told["seen_ns"], "older": known.told["older"]}
            known.facts = ""
        if known.owner is None and told["inode"]:
            self._unowned.add(flow)
        self._changed.add(flow)

    def _count(self, intervals: pl.DataFrame | None) -> None:
        if intervals is None:
            return
        sums = intervals.group_by("flow").agg(pl.col("payload_bytes").sum(), pl.col("end_ns").max())
        for flow, payload_bytes, end_ns in sums.iter_rows():
            own, way = flow - flow % 2, flow % 2
            connection = self.there.get(own)
            if connection is None:
                continue
            connection.payload_bytes[way] += payload_bytes
            connection.last_ns = max(connection.last_ns, end_ns)
            if way and not connection.receives:
                connection.receives = True
                self._changed.add(own)

    def _find_owners(self) -> None:
        if not self._unowned or time.monotonic() < self._owners_due_s:
            return
        self._owners_due_s = time.monotonic() + _OWNERS_EVERY_S
        by_inode = {self.there[flow].told["inode"]: flow for flow in self._unowned}
        for inode, owner in self._owners(set(by_inode)).items():
            self.there[by_inode[inode]].owner = owner
            self.there[by_inode[inode]].facts = ""
            self._changed.add(by_inode[inode])
        # Of the others nobody tells us, now or later.
        self._unowned.clear()

    def _rows(self, flow: int, connection: Connection, status: str) -> Iterator[dict[str, Any]]:
        if not connection.names:
            local, remote = connection.ends
            connection.names = [self._unique(f"{local} > {remote}"), self._unique(f"{remote} > {local}")]
        connection.facts = connection.facts or _as_json(_facts(connection))
        for way in (0, 1) if connection.receives else (0,):
            yield _row(flow, way, connection, status)

    def _unique(self, name: str) -> str:
        """Ports are used again: the second of the same name is told from the first."""
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name} #{self._names[name]}"


def _row(flow: int, way: int, connection: Connection, status: str) -> dict[str, Any]:
    told = connection.told
    over = status != "running"
    traffic_class = told["traffic_class"]
    return {
        "flow": flow + way,
        "name": connection.names[way],
        "kind": "tcp",
        "direction": ("up", "down")[way],
        "runner": "kernel",
        "host": told["remote_address"],
        "address": told["remote_address"],
        "ip_version": 6 if ":" in told["remote_address"] else 4,
        # What this host sets is on what it sends.
        "dscp": traffic_class >> 2 if traffic_class is not None and not way else None,
        "congestion_control": told["congestion_control"] if not way else None,
        "start_ns": told["seen_ns"],
        "end_ns": connection.last_ns if over else None,
        "payload_bytes": connection.payload_bytes[way] if over else None,
        "status": status,
        "facts": connection.facts,
    }


def _facts(connection: Connection) -> dict[str, Any]:
    local, remote = connection.ends
    facts: dict[str, Any] = {"local": local, "remote": remote}
    facts |= {name: connection.told[name] for name in _COPIED if connection.told[name] not in (None, False)}
    if connection.owner is not None:
        pid, process, cgroup = connection.owner
        facts |= {"pid": pid, "process": process} | ({} if cgroup is None else {"cgroup": cgroup})
    return facts


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=tables.FLOWS)
