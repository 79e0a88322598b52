"""One answer of a switch: its counters at a tick."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Port:
    """A port, as the operator named it and as it was found on the switch."""

    name: str  # goes into the table: uplink, local, or what the operator chose
    index: int  # ifIndex
    machine: str | None = None  # the host behind it
    speed_bps: int | None = None  # ifHighSpeed
    alias: str | None = None
    ifname: str | None = None  # the switch's own name: another name is another port


@dataclass(frozen=True)
class Counter:
    """A counter to poll, such as octets.tx."""

    name: str  # as in the store's table: octets.rx, discards.tx, queue.0.discards.tx
    oid: str  # dotted, without the port's index
    bits: int  # 32 or 64: SNMP's answers do not say
    suffix: str = ""  # behind the port's index, such as ".0" of a queue


@dataclass(frozen=True)
class Reading:
    """Result of one poll of one switch.

    ``values`` has the answers by port and counter, each of 0 to 2^64 - 1; a counter without an answer is not in it. A
    failed poll has a ``status`` other than ``ok`` and no values.
    """

    switch: str
    site: str
    metro: str
    due_ns: int  # the tick
    start_ns: int | None
    end_ns: int | None
    status: str  # ok, timeout, refused, late, error
    message: str | None = None
    uptime_ns: int | None = None  # sysUpTime: smaller than before, the switch (or its agent) restarted
    values: dict[tuple[Port, Counter], int] = field(default_factory=dict)
    # CLOCK_BOOTTIME at end_ns: gives the time since the reading before, even where the wall clock was set in between
    steady_ns: int | None = None
    asked_at: str | None = None  # address and port of the switch: they identify it
