"""A switch polled by SNMP: finds its ports, polls their counters, and finds ports again that may have moved."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Switch
from whydrop.monitoring.switches.elapsed import Moment, between, moment
from whydrop.monitoring.switches.growth import is_beyond_line_rate
from whydrop.monitoring.switches.ports import Found, find, indexes, some, text, twin_of, unanswered
from whydrop.monitoring.switches.readings import Counter, Port, Reading
from whydrop.monitoring.switches.schedule import SECOND_NS, Clock
from whydrop.monitoring.switches.sessions import Answer, AskingError, SwitchSession, Value
from whydrop.text import quantities

# The switch does not report changed aliases and moved cables; once an hour is soon enough for those.
FIND_AGAIN_NS = 3600 * SECOND_NS
# A missing port (a silent MAC address) is searched for more often, and so are all ports of a switch that started
# recently: its tables fill one after the other.
FIND_SOON_NS = 60 * SECOND_NS
_SETTLED_NS = 600 * SECOND_NS
# Signs that ports moved although the switch went on and did not report it.
_RENAMED, _ROSE = "a port has another name", "a port rose by more than it can carry"
# Tables of large switches take a minute. An agent with rows without end, or one row at a time, must not delay its polls
# for hours.
_FIND_WITHIN_S = 300.0

# Both may be copied from the chip at different times: after so many polls it is no coincidence.
_FEWEST_POLLS = 3


class SnmpSource:
    """Readings of one switch.

    Args:
        switch: the switch, and its ports and counters.
        interval_ns: between polls.
        clock: dates the readings.
        say: takes one line for the operator.
    """

    def __init__(
        self,
        switch: Switch,
        interval_ns: int,
        clock: Clock | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.switch = switch
        self.found: Found | None = None
        self._interval_ns = interval_ns
        self._clock = clock or Clock()
        self._say = say or (lambda _line: None)
        self._session = SwitchSession(switch)
        self._found_at_ns = 0
        self._settled = True
        self._table_change: object = None  # ifTableLastChange when the ports were found
        self._last: Moment | None = None
        self._last_values: dict[tuple[Port, Counter], int] = {}
        self._looked_in_vain_ns: dict[str, int] = {}  # by reason: when a search found no port moved
        self._stuck = StuckCounters()
        self._polls = 0
        self._said: set[str] = set()
        # Switches are not all searched at the same time.
        self._hour_ns = FIND_AGAIN_NS + zlib.crc32(switch.name.encode()) % (FIND_AGAIN_NS // 4 // SECOND_NS) * SECOND_NS

    @property
    def name(self) -> str:
        """The name of the switch."""
        return self.switch.name

    async def prepare(self) -> None:
        """Find the ports; if that fails, the first poll tries again and says why."""
        with contextlib.suppress(AskingError):
            await self.find()

    async def find(self) -> None:
        """Find the ports now.

        Raises:
            AskingError: the switch does not answer.
        """
        await self._find(self._session)

    async def read(self, due_ns: int) -> Reading:
        """Poll the switch."""
        start_ns = self._clock.wall_ns()
        try:
            if self.found is None:
                await self._find(self._session)
                start_ns = self._clock.wall_ns()
            answer = await self._ask()
            reading = self._reading(due_ns, start_ns, answer)
            why = self._may_have_moved(reading, answer)
            if why is not None:
                before = self.found
                await self._find(self._session, afresh=True)
                if before is None or self.found is None or _differs(before, self.found):
                    # The values belong to other ports.
                    self._report_moves(before, why)
                    start_ns = self._clock.wall_ns()
                    reading = self._reading(due_ns, start_ns, await self._ask())
                else:
                    self._looked_in_vain_ns[why] = self._clock.steady_ns()
        except AskingError as reason:
            return self._failed(due_ns, start_ns, reason.status, str(reason))
        self._remember(reading)
        return reading

    def missed(self, due_ns: int, why: str) -> Reading:
        """The reading of a tick without a poll."""
        return Reading(self.name, self.switch.site, self.switch.metro, due_ns, None, None, "late", why)

    async def settle(self) -> None:
        """Find the ports again where that is due, in a session of its own: polls go on."""
        found = self.found
        if found is None:
            return
        age_ns = self._clock.steady_ns() - self._found_at_ns
        if age_ns < (FIND_SOON_NS if found.missing or not self._settled else self._hour_ns):
            return
        session = self._session.beside()
        try:
            await self._find(session)
        except AskingError:
            # The former ports stay in use, and the next poll reports the fault.
            self._found_at_ns += FIND_SOON_NS
        finally:
            session.close()

    def close(self) -> None:
        """Close the socket."""
        self._session.close()

    async def _find(self, session: SwitchSession, *, afresh: bool = False) -> None:
        before = self.found
        try:
            async with asyncio.timeout(_FIND_WITHIN_S):
                first = await session.get([oids.IF_TABLE_LAST_CHANGE])
                found = await find(
                    self.switch,
                    session,
                    self._interval_ns / SECOND_NS,
                    None if afresh else before,
                    self._stuck.found,
                )
        except TimeoutError:
            session.close()
            why = f"the switch answers, but its ports could not be found within {_FIND_WITHIN_S:g} s"
            raise AskingError("timeout", f"{self.switch.address}: {why}") from None
        if self.found is not before and not afresh:
            return  # Found by another session in the meantime, after a restart of the switch.
        self.found = found
        self._table_change = first.values.get(oids.IF_TABLE_LAST_CHANGE)
        self._settled = first.uptime_ns is None or first.uptime_ns > _SETTLED_NS
        self._found_at_ns = self._clock.steady_ns()
        self._stuck.watch(found.asked)
        self._report(found)

    def _report(self, found: Found) -> None:
        """Say what is new since the last search."""
        lines = {*found.missing, *found.notes}
        for line in (*found.missing, *found.notes):
            if line not in self._said:
                self._say(f"{self.name}: {line}")
        self._said = lines

    async def _ask(self) -> Answer:
        assert self.found is not None
        if not self.found.asked:
            why = "; ".join(self.found.missing) or "its ports have none of the configured counters"
            raise AskingError("error", f"there is nothing to poll: {why}")
        # Each name is polled beside the counters of its port, so no message grows by many names.
        names = {int(oid.rpartition(".")[2]): oid for oid in self.found.names}
        wanted = [oids.IF_TABLE_LAST_CHANGE]
        for oid, (port, _) in self.found.asked.items():
            if port.index in names:
                wanted.append(names.pop(port.index))
            wanted.append(oid)
        return await self._session.get([*wanted, *self._stuck.twins()])

    def _reading(self, due_ns: int, start_ns: int, answer: Answer) -> Reading:
        assert self.found is not None
        values: dict[tuple[Port, Counter], int] = {}
        odd: list[str] = []
        for oid, (port, counter) in self.found.asked.items():
            value = answer.values.get(oid)
            if isinstance(value, int) and 0 <= value < 2**64:
                values[port, counter] = value
            elif value is not None:
                odd.append(f"{counter.name} of {port.name}")
        return Reading(
            switch=self.name,
            site=self.switch.site,
            metro=self.switch.metro,
            due_ns=due_ns,
            start_ns=start_ns,
            end_ns=self._clock.wall_ns(),
            status="ok",
            message=self._remark(answer, odd),
            uptime_ns=answer.uptime_ns,
            steady_ns=self._clock.steady_ns(),
            values=values,
            asked_at=f"{self.switch.address} {self.switch.port}",
        )

    def _remark(self, answer: Answer, odd: list[str]) -> str | None:
        """The reasons why an answer is incomplete."""
        assert self.found is not None
        parts = list(self.found.missing)
        if answer.unanswered:
            parts.append(unanswered(len(answer.unanswered), len(self.found.asked)))
        gone = len(self.found.asked) - len(answer.unanswered) - sum(oid in answer.values for oid in self.found.asked)
        if gone > 0:
            parts.append(f"no longer on the switch: {quantities.plural(gone, 'counter')}")
            self._settled = False
        if odd:
            parts.append(f"not a counter: {', '.join(odd[:3])}")
        return "; ".join(parts) or None

    def _report_moves(self, before: Found | None, why: str) -> None:
        """Say which ports moved without a report from the switch."""
        if before is None or self.found is None or why not in (_RENAMED, _ROSE):
            return
        old = {port.ifname: port.index for port in before.ports if port.ifname}
        moved = [
            f"{port.ifname} from {old[port.ifname]} to {port.index}"
            for port in self.found.ports
            if port.ifname in old and old[port.ifname] != port.index
        ]
        if moved:
            self._say(f"{self.name}: ports changed their ifIndex: {some(moved, 4)}; their counters start again")

    def _may_have_moved(self, reading: Reading, answer: Answer) -> str | None:
        """The reason why the ports must be found again; None where there is none.

        The switch restarted, its table of ports changed, a port has another name, or a port rose by more than it can
        carry.
        """
        if not reading.values and not answer.unanswered:
            return "none of its counters exists"
        if self._stuck.take(answer.values):
            return "a counter stands still"
        change = answer.values.get(oids.IF_TABLE_LAST_CHANGE)
        if change is not None and self._table_change is not None and change != self._table_change:
            return "the table of ports changed"
        if self._are_renamed(answer) and self._may_look(_RENAMED):
            return _RENAMED
        now = moment(reading, self._polls + 1)
        if self._last is None or now is None:
            return None
        since = between(self._last, now, self._interval_ns)
        if since.restarted is True:
            return "the switch restarted"
        return _ROSE if self._rose_impossibly(reading, since.elapsed_ns) and self._may_look(_ROSE) else None

    def _may_look(self, why: str) -> bool:
        """True unless a search for the same reason found nothing a short time ago."""
        last_ns = self._looked_in_vain_ns.get(why)
        return last_ns is None or self._clock.steady_ns() - last_ns >= FIND_SOON_NS

    def _are_renamed(self, answer: Answer) -> bool:
        assert self.found is not None
        asked = {port.index for port, _ in self.found.asked.values()}
        lost = set(answer.unanswered)
        return any(
            text(answer.values.get(oid)) != name
            for oid, name in self.found.names.items()
            if oid not in lost and int(oid.rpartition(".")[2]) in asked
        )

    def _rose_impossibly(self, reading: Reading, elapsed_ns: int | None) -> bool:
        return any(
            pair in self._last_values and is_beyond_line_rate(*pair, total - self._last_values[pair], elapsed_ns)
            for pair, total in reading.values.items()
        )

    def _remember(self, reading: Reading) -> None:
        self._last_values = reading.values
        self._polls += 1
        self._last = moment(reading, self._polls)

    def _failed(self, due_ns: int, start_ns: int, status: str, message: str) -> Reading:
        end_ns, steady_ns = self._clock.wall_ns(), self._clock.steady_ns()
        missed = self.missed(due_ns, message)
        return replace(missed, status=status, start_ns=start_ns, end_ns=end_ns, steady_ns=steady_ns)


def _differs(before: Found, now: Found) -> bool:
    """True if an index means another port, or a counter has another object."""
    return indexes(before) != indexes(now) or before.names != now.names or before.asked.keys() != now.asked.keys()


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
    """Finds 64-bit octets that stand still while their 32-bit twins count: some agents never update them.

    Each port is watched until they move; on most ports they do at once.

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
