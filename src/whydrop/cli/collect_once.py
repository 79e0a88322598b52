"""``whydrop collect check`` and ``once``: the ports and counters of the switches of a configuration, right now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

from whydrop.cli import ending
from whydrop.monitoring.switches import running
from whydrop.monitoring.switches.sessions import AskingError
from whydrop.show.document import Column, Columns, Document, Items, Section, Table, Text, parts
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.monitoring.switches.config import Config
    from whydrop.monitoring.switches.ports import Found
    from whydrop.monitoring.switches.readings import Counter, Port, Reading
    from whydrop.monitoring.switches.snmp import SnmpSource


def examine(config: Config, complain: Callable[[str], None], *, poll: bool) -> int:
    """Ask every switch, and print its ports, or with ``poll`` its counters; the exit status."""
    results = asyncio.run(running.examined(config, poll=poll))
    failed = 0
    for source, result in results:
        if isinstance(result, AskingError):
            complain(f"{source.name}: {result}")
            failed += 1
            continue
        assert source.found is not None
        shown = _counters(result) if result is not None else _ports(source.found)
        problems = tuple(Text(line, "warning") for line in (*source.found.missing, *source.found.notes))
        title = _title(source, source.found)
        ending.show(Document(title, (Section(title, parts(shown, Items(problems))),)))
        failed += bool(source.found.missing or (result is not None and result.status != "ok"))
        if result is not None and result.status != "ok":
            complain(f"{source.name}: {result.status}: {result.message}")
    if not poll:
        well = f"{len(results) - failed} of {len(results)} switches"
        print(f"{well} are as {ending.printable(str(config.path))} has them")
    return 1 if failed else 0


def _title(source: SnmpSource, found: Found) -> str:
    switch = source.switch
    place = f"{switch.address}:{switch.port}" if ":" not in switch.address else f"[{switch.address}]:{switch.port}"
    ports, counters = quantities.plural(len(found.ports), "port"), quantities.plural(len(found.asked), "counter")
    return f"{switch.name} at {place}: {ports}, {counters}"


def _ports(found: Found) -> Table:
    def counters(port: Port) -> str:
        return str(sum(owner is port for owner, _ in found.asked.values()))

    columns: Columns[Port] = {
        Column("Port"): lambda port: port.name,
        Column("Machine", rank=2): lambda port: port.machine or "–",
        Column("Index", True, 3): lambda port: str(port.index),
        Column("Speed", True, 1): lambda port: quantities.rate(port.speed_bps) if port.speed_bps else "?",
        Column("Counters", number=True): counters,
        Column("Alias", rank=4): lambda port: port.alias or "–",
    }
    return Table.of("", columns, found.ports)


def _counters(reading: Reading) -> Table:
    """Each port's counters, both directions beside each other."""
    columns = (Column("Port"), Column("Machine", rank=1), Column("Counter"), Column("Received", number=True),
               Column("Sent", number=True))  # fmt: skip
    by_port = groupby(reading.values.items(), lambda item: item[0][0])
    rows = [row for port, items in by_port for row in _rows(port, [(name, value) for (_, name), value in items])]
    return Table("", columns, tuple(rows))


def _rows(port: Port, counters: list[tuple[Counter, int]]) -> list[tuple[str, str, str, str, str]]:
    kinds: dict[str, dict[str, str]] = {}
    for counter, value in counters:
        kind, _, direction = counter.name.rpartition(".")
        kinds.setdefault(kind, {})[direction] = quantities.count(value)
    rows = []
    for number, (kind, directions) in enumerate(kinds.items()):
        first = (port.name, port.machine or "–") if number == 0 else ("", "")
        rows.append((*first, kind, directions.get("rx", "–"), directions.get("tx", "–")))
    return rows
