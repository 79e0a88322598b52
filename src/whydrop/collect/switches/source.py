"""Where readings come from: anything that can say what a switch's counters are at a tick."""

from __future__ import annotations

from typing import Protocol

from whydrop.collect.switches.readings import Reading


class Source(Protocol):
    """One switch.

    `snmp.SnmpSource` asks it at each tick. A source that is told of changes (gNMI, OpenConfig's streaming telemetry)
    would keep the last values in its own task and hand them out here, with the times at which they were true.
    """

    @property
    def name(self) -> str:
        """Of the switch, as in the tables."""
        ...

    async def prepare(self) -> None:
        """Do what takes time before the first tick; failures are told by the first reading."""
        ...

    async def read(self, due_ns: int) -> Reading:
        """The reading for a tick. Never raises: a failure is a reading with another status."""
        ...

    def missed(self, due_ns: int, why: str) -> Reading:
        """The reading of a tick at which nothing was asked."""
        ...

    async def settle(self) -> None:
        """Do after a reading what need not be done at a tick, beside readings that may come in between."""
        ...

    def close(self) -> None:
        """Let go of sockets."""
        ...
