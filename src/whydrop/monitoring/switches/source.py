"""Sources of readings: they give the counters of a switch at a tick."""

from __future__ import annotations

from typing import Protocol

from whydrop.monitoring.switches.readings import Reading


class Source(Protocol):
    """One switch.

    `snmp.SnmpSource` asks it at each tick. A source that receives changes (gNMI, OpenConfig's streaming telemetry)
    would keep the last values in its own task and return them here, with their times.
    """

    @property
    def name(self) -> str:
        """The name of the switch, as in the tables."""
        ...

    async def prepare(self) -> None:
        """Do what takes time before the first tick; the first reading reports failures."""
        ...

    async def read(self, due_ns: int) -> Reading:
        """The reading for a tick. Never raises: a failure is a reading with another status."""
        ...

    def missed(self, due_ns: int, why: str) -> Reading:
        """The reading of a tick at which nothing was asked."""
        ...

    async def settle(self) -> None:
        """Do slow work after a reading; the next readings may run at the same time."""
        ...

    def close(self) -> None:
        """Close sockets."""
        ...
