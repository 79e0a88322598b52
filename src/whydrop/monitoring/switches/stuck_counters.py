"""Finds 64-bit counters that stand still while their 32-bit twins count: some agents never update them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whydrop.monitoring.switches.ports import twin_of
from whydrop.monitoring.switches.readings import Counter, Port
from whydrop.monitoring.switches.sessions import Value

# Both may be copied from the chip at different times: after so many polls it is no coincidence.
_FEWEST_POLLS = 3


@dataclass
class _Watched:
    """A 64-bit counter that has not moved since its port was found, and its 32-bit twin."""

    port: Port
    counter: Counter
    twin: str
    total: int | None = None
    twin_total: int | None = None
    polls: int = 0


class StuckCounters:
    """Watches the octets of each port until they move; on most ports they do at once.

    Attributes:
        found: names of the ports and counters that stand still.
    """

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._watched: dict[str, _Watched] = {}

    def watch(self, asked: Mapping[str, tuple[Port, Counter]]) -> None:
        """Begin again with the counters that are polled."""
        self._watched = {
            oid: _Watched(port, counter, twin)
            for oid, (port, counter) in asked.items()
            if counter.name.startswith("octets.") and (twin := twin_of(port, counter)) is not None
        }

    def twins(self) -> list[str]:
        """The 32-bit twins to poll as well: none once everything moved."""
        return [one.twin for one in self._watched.values() if one.total is not None]

    def take(self, values: Mapping[str, Value]) -> bool:
        """Take an answer; true if a counter was found to stand still."""
        before = len(self.found)
        for oid, one in list(self._watched.items()):
            total, twin = values.get(oid), values.get(one.twin)
            if not isinstance(total, int):
                continue
            if one.total is not None and total != one.total:
                del self._watched[oid]
                continue
            one.total = total
            if not isinstance(twin, int):
                continue
            one.polls += one.twin_total is not None and twin != one.twin_total
            one.twin_total = twin
            if one.polls >= _FEWEST_POLLS:
                self.found.add((one.port.name, one.counter.name))
                del self._watched[oid]
        return len(self.found) > before
