"""Finds the configured ports of a switch, their present index, and the counters that they have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from whydrop.monitoring.switches import bridge_tables, oids
from whydrop.monitoring.switches.config import Switch
from whydrop.monitoring.switches.readings import Counter, Port
from whydrop.monitoring.switches.schema import PortEntry
from whydrop.monitoring.switches.sessions import AskingError, SwitchSession, Value
from whydrop.text import quantities

_LONGEST_TEXT = 255  # DisplayString (RFC 2579)
_LACKING, _STOPPED = "the switch lacks the 64-bit counter", "the 64-bit counter stands still"
_UNKNOWN_SPEED_BPS = 2**32 - 1  # ifSpeed of a port that is too fast for its 32 bits (RFC 2863)


@dataclass(frozen=True)
class Interface:
    """A row of the switch's interface table."""

    index: int
    name: str
    alias: str = ""
    speed_bps: int | None = None
    name_oid: str = ""


@dataclass(frozen=True)
class Found:
    """The ports and counters to poll on a switch.

    Attributes:
        ports: the matching ports, in the order of their indexes.
        asked: object identifiers, each with its port and counter.
        places: the ifIndex of each configured MAC address that was found.
        missing: entries of the configuration without a matching port, as sentences.
        notes: for the operator, as sentences.
        names: of each port the object with its name on the switch, and the name. Another name there means another
            port, even if the switch does not report a change of its table.
    """

    ports: tuple[Port, ...] = ()
    asked: dict[str, tuple[Port, Counter]] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)


async def find(
    switch: Switch,
    session: SwitchSession,
    interval_s: float,
    before: Found | None = None,
    stuck: Collection[tuple[str, str]] = (),
) -> Found:
    """Find the present ports and counters of ``switch``.

    Args:
        switch: the configuration.
        session: asks the switch.
        interval_s: between polls, for a warning about counters that wrap faster.
        before: the last result, if the switch has not restarted since. A MAC address leaves the bridge table after
            minutes of silence; its port is then the former one.
        stuck: ports and counters of which the 64-bit counter stands still while its 32-bit twin counts.

    Raises:
        AskingError: the switch does not answer.
    """
    table = await interfaces(session)
    macs = {entry.mac for entry in switch.ports if entry.mac is not None}
    places = await bridge_tables.locate(switch, session, macs) if macs else {}
    if before is not None:
        places |= {mac: index for mac, index in before.places.items() if not isinstance(places.get(mac), int)}
    ports, missing, notes = chosen(switch.ports, table, places)
    asked, more = await _counted(switch, session, ports, interval_s, stuck)
    known = {mac: index for mac, index in places.items() if isinstance(index, int)}
    names = {table[port.index].name_oid: table[port.index].name for port in ports}
    return Found(ports, asked, known, missing, (*notes, *more), names)


async def interfaces(session: SwitchSession) -> dict[int, Interface]:
    """The switch's interfaces, by ifIndex."""
    root = oids.IF_NAME
    names = await _column(session, root)
    if not names:
        root = oids.IF_DESCR
        names = await _column(session, root)
    aliases = await _column(session, oids.IF_ALIAS)
    fast = await _column(session, oids.IF_HIGH_SPEED)
    slow = {} if any(fast.values()) else await _column(session, oids.IF_SPEED)
    return {
        index: Interface(
            index,
            text(names[index]),
            text(aliases.get(index)),
            _speed_bps(fast.get(index), slow.get(index)),
            f"{root}.{index}",
        )
        for index in sorted(names)
    }


def text(value: Value) -> str:
    """A name from a switch, which may be no valid text."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value or "").replace("\x00", "").strip()[:_LONGEST_TEXT]


def chosen(
    entries: Sequence[PortEntry],
    table: dict[int, Interface],
    places: dict[str, int | str],
) -> tuple[tuple[Port, ...], tuple[str, ...], tuple[str, ...]]:
    """The matching ports, sentences about entries without one, and notes.

    Each interface belongs to the first entry that it matches.

    Args:
        entries: of the configuration.
        table: the switch's interfaces.
        places: for each MAC address its ifIndex, or why it has none.
    """
    taken: dict[int, Port] = {}
    missing: list[str] = []
    notes: list[str] = []
    for entry in entries:
        fits = [one for one in table.values() if one.index not in taken and _fits(entry, one, places)]
        if not fits:
            missing.append(_nothing_fits(entry, table, places))
        for interface in fits:
            taken[interface.index] = _port(entry, interface, taken.values(), notes)
    return tuple(taken[index] for index in sorted(taken)), tuple(missing), tuple(notes)


def _fits(entry: PortEntry, interface: Interface, places: dict[str, int | str]) -> bool:
    if entry.all:
        return True
    if entry.index is not None:
        return entry.index == interface.index
    if entry.mac is not None:
        return places.get(entry.mac) == interface.index
    pattern, name = (entry.alias, interface.alias) if entry.alias is not None else (entry.ifname, interface.name)
    assert pattern is not None
    # A name may contain brackets, so the name itself always matches.
    return bool(name) and (name == pattern or fnmatchcase(name, pattern))


def _nothing_fits(entry: PortEntry, table: dict[int, Interface], places: dict[str, int | str]) -> str:
    if entry.mac is not None:
        place = places.get(entry.mac, "it was not searched for")
        why = place if isinstance(place, str) else f"its bridge port has ifIndex {place}, which does not exist"
        return f"no port for mac = {bridge_tables.written(entry.mac)}: {why}"
    if entry.index is not None:
        return f"no port has index = {entry.index}; there are {some(map(str, table))}"
    if entry.alias is not None:
        aliases = some(one.alias for one in table.values())
        return f"no port has an alias (ifAlias) that matches {entry.alias!r}; there are {aliases}"
    if entry.ifname is not None:
        names = some(one.name for one in table.values())
        return f"no port has a name (ifName) that matches {entry.ifname!r}; there are {names}"
    return "the switch lists no ports (ifTable), or earlier entries match all of them"


def some(names: Iterable[str], most: int = 8) -> str:
    """The first names, and how many more there are."""
    known = [name for name in names if name]
    more = f" and {quantities.count(len(known) - most)} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more if known else "none"


def _port(entry: PortEntry, interface: Interface, others: Iterable[Port], notes: list[str]) -> Port:
    name = _filled(entry.name, interface) or interface.name or str(interface.index)
    machine = _filled(entry.machine, interface) if entry.machine is not None else None
    # Two ports with one name would make one series: the second one gets a longer name.
    first = next((port for port in others if (port.name, port.machine) == (name, machine)), None)
    if first is not None:
        longer = f"{name}:{interface.name or interface.index}"
        notes.append(
            f"ports {first.index} and {interface.index} are both named {name!r}; the second is kept as {longer!r}. "
            'Use a name such as "{ifname}" or "{alias}"'
        )
        name = longer
    return Port(
        name, interface.index, machine or None, interface.speed_bps, interface.alias or None, interface.name or None
    )


def _filled(pattern: str, interface: Interface) -> str:
    values = {"alias": interface.alias, "ifname": interface.name, "index": str(interface.index)}
    for key, value in values.items():
        pattern = pattern.replace(f"{{{key}}}", value)
    return pattern[:_LONGEST_TEXT]


async def _counted(
    switch: Switch,
    session: SwitchSession,
    ports: Sequence[Port],
    interval_s: float,
    stuck: Collection[tuple[str, str]] = (),
) -> tuple[dict[str, tuple[Port, Counter]], list[str]]:
    """The configured counters that each port has; 32-bit ones where 64-bit ones are missing or stand still."""
    wanted = {oids.of_port(counter, port.index): (port, counter) for port in ports for counter in switch.counters}
    if wanted:
        await session.learn_size(list(wanted))
    values = await _values(session, list(wanted))
    dead = await _dead(session, wanted, values, stuck)
    found = {oid: pair for oid, pair in wanted.items() if oid in values and oid not in dead}
    lacking = [pair for oid, pair in wanted.items() if oid not in found]
    narrow = {
        oids.of_port(oids.NARROW[counter.name], port.index): (port, oids.NARROW[counter.name])
        for port, counter in lacking
        if counter.name in oids.NARROW and counter.bits == 64
    }
    there = await _values(session, list(narrow))
    narrow = {oid: pair for oid, pair in narrow.items() if oid in there}
    instead = {(port, counter.name) for port, counter in narrow.values()}
    absent = [(port, counter) for port, counter in lacking if (port, counter.name) not in instead]
    # In the order of ports, so that one or two messages read the counters of a port.
    both = found | narrow
    order = {port: number for number, port in enumerate(ports)}
    asked = dict(sorted(both.items(), key=lambda item: order[item[1][0]]))
    stopped = {(port.name, counter.name) for port, counter in (wanted[oid] for oid in dead)}
    by_reason: dict[str, list[tuple[Port, Counter]]] = {_LACKING: [], _STOPPED: []}
    for port, counter in narrow.values():
        by_reason[_STOPPED if (port.name, counter.name) in stopped else _LACKING].append((port, counter))
    notes = [note for why, pairs in by_reason.items() for note in _narrow_notes(pairs, interval_s, why)]
    return asked, [*notes, *_absent_notes(absent, len(ports))]


async def _values(session: SwitchSession, wanted: list[str]) -> dict[str, int]:
    """The counters that exist."""
    if not wanted:
        return {}
    answer = await session.get(wanted)
    if answer.unanswered:
        raise AskingError("timeout", unanswered(len(answer.unanswered), len(wanted)))
    return {oid: value for oid in wanted if isinstance(value := answer.values.get(oid), int)}


def unanswered(count: int, of: int) -> str:
    """The sentence for counters without an answer."""
    return f"{quantities.count(count)} of {quantities.plural(of, 'counter')} had no answer in time"


async def _dead(
    session: SwitchSession,
    wanted: dict[str, tuple[Port, Counter]],
    values: dict[str, int],
    stuck: Collection[tuple[str, str]],
) -> set[str]:
    """64-bit counters that do not count: they were seen to stand still, or are zero while their 32-bit twin is not."""
    twins = {oid: twin for oid, pair in wanted.items() if oid in values and (twin := twin_of(*pair)) is not None}
    dead = {oid for oid in twins if (wanted[oid][0].name, wanted[oid][1].name) in stuck}
    zero = [oid for oid in twins if values[oid] == 0 and oid not in dead]
    # Both are read again, together: the port may have begun to count in between.
    both = await _values(session, [one for oid in zero for one in (oid, twins[oid])])
    return dead | {oid for oid in zero if both.get(oid) == 0 and both.get(twins[oid], 0) > 0}


def twin_of(port: Port, counter: Counter) -> str | None:
    """The object that counts the same in 32 bits; ``None`` where no such object exists."""
    narrow = oids.NARROW.get(counter.name) if counter.bits == 64 else None
    return None if narrow is None else oids.of_port(narrow, port.index)


def _narrow_notes(narrow: Iterable[tuple[Port, Counter]], interval_s: float, why: str) -> list[str]:
    notes = []
    for name, ports in _by_counter(narrow):
        note = f"{name} of {_ports(ports)} has only 32 bits ({why})"
        fastest = max((port.speed_bps or 0 for port in ports), default=0)
        wraps_s = 2**32 * 8 / fastest if fastest and name.startswith("octets") else None
        if wraps_s is not None and wraps_s < 2 * interval_s:
            after = quantities.duration(wraps_s)
            note += f"; at {quantities.rate(fastest)} it wraps after {after}: poll more often, or ignore it"
        notes.append(note)
    return notes


def _absent_notes(absent: Iterable[tuple[Port, Counter]], count: int) -> list[str]:
    grouped: dict[tuple[Port, ...], list[str]] = {}
    for name, lacking in _by_counter(absent):
        grouped.setdefault(tuple(lacking), []).append(name)
    notes = []
    for ports, names in grouped.items():
        verb = "does" if len(ports) == 1 else "do"
        lack = "no port has" if len(ports) == count else f"{_ports(ports)} {verb} not have"
        notes.append(f"{lack} {', '.join(names)}")
    return notes


def _by_counter(pairs: Iterable[tuple[Port, Counter]]) -> list[tuple[str, list[Port]]]:
    grouped: dict[str, list[Port]] = {}
    for port, counter in pairs:
        grouped.setdefault(counter.name, []).append(port)
    return list(grouped.items())


def _ports(ports: Sequence[Port]) -> str:
    return (
        f"port {ports[0].name}"
        if len(ports) == 1
        else f"{quantities.count(len(ports))} ports ({some(port.name for port in ports)})"
    )


def indexes(found: Found) -> dict[tuple[str, str | None], int]:
    """The index of each port, by its name and machine."""
    return {(port.name, port.machine): port.index for port in found.ports}


def _speed_bps(high: Value, low: Value) -> int | None:
    if isinstance(high, int) and high > 0:
        return high * 1_000_000
    if isinstance(low, int) and 0 < low < _UNKNOWN_SPEED_BPS:
        return low
    return None


async def _column(session: SwitchSession, root: str) -> dict[int, Value]:
    rows = await session.walk(root)
    return {int(place): value for place, value in rows if place.isdecimal()}
