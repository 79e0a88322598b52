"""Counters of 64 bits that stand still beside those of 32 bits that count the same: some agents never fill them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from whydrop.collect.switches.finding import twin_of
from whydrop.collect.switches.readings import Counter, Port
from whydrop.collect.switches.sessions import Value

# Both may be copied from the chip at different times: so many polls in a row are no chance.
_FEWEST_POLLS = 3


@dataclass
class _Watched:
    """A counter that has not moved since its port was found, and the one of 32 bits."""

    port: Port
    counter: Counter
    twin: str
    total: int | None = None
    twin_total: int | None = None
    polls: int = 0


class StandingStill:
    """Watches the octets of each port until they move, which those of most ports do at once.

    Attributes:
        found: ports and counters whose 64 bits stand still, by name.
    """

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._watched: dict[str, _Watched] = {}

    def watch(self, asked: Mapping[str, tuple[Port, Counter]]) -> None:
        """Begin anew with the counters that are asked for."""
        self._watched = {
            oid: _Watched(port, counter, twin)
            for oid, (port, counter) in asked.items()
            if counter.name.startswith("octets.") and (twin := twin_of(port, counter)) is not None
        }

    def twins(self) -> list[str]:
        """The objects to ask for beside: none once everything moved."""
        return [one.twin for one in self._watched.values() if one.total is not None]

    def take(self, values: Mapping[str, Value]) -> bool:
        """Look at an answer; true if a counter was found to stand still."""
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
