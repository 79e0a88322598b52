"""One answer of a switch: what its counters were at a tick."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Port:
    """A port to be watched, as the operator named it and as it was found on the switch."""

    name: str  # goes into the table: uplink, local, or what the operator chose
    index: int  # ifIndex
    machine: str | None = None  # the host behind it
    speed_bps: int | None = None  # ifHighSpeed
    alias: str | None = None
    ifname: str | None = None  # as the switch calls it, whatever the operator does: another one is another port


@dataclass(frozen=True)
class Counter:
    """A counter to be asked for, such as octets.tx."""

    name: str  # as in the store's table: octets.rx, discards.tx, queue.0.discards.tx
    oid: str  # dotted, without the port's index
    bits: int  # 32 or 64: SNMP's answers do not tell
    suffix: str = ""  # behind the port's index, such as ".0" of a queue


@dataclass(frozen=True)
class Reading:
    """Result of one poll of one switch.

    ``values`` holds, by port and counter, what was answered; a counter that the switch did not answer for is not in
    it. A failed poll has ``status`` other than ``ok`` and no values.
    """

    switch: str
    site: str
    metro: str
    due_ns: int  # the tick
    start_ns: int | None
    end_ns: int | None
    status: str  # ok, timeout, refused, late, error
    message: str | None = None
    uptime_ns: int | None = None  # sysUpTime: smaller than before, the switch (or its agent) began anew
    values: dict[tuple[Port, Counter], int] = field(default_factory=dict)
    # CLOCK_BOOTTIME at end_ns: how long it was since the reading before, even where the wall clock was set in between
    steady_ns: int | None = None
    asked_at: str | None = None  # address and port of the switch: by these it is the same one as before
