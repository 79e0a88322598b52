"""``whydrop collect check`` and ``once``: the ports and counters of the switches of a configuration, right now."""

from __future__ import annotations

import asyncio
import time
from itertools import groupby
from typing import TYPE_CHECKING

import click

from whydrop.cli import aligned, ending
from whydrop.cli.collect_sources import complain, sources_of
from whydrop.collect.switches.sessions import AskingError
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.collect.switches.config import Config
    from whydrop.collect.switches.finding import Found
    from whydrop.collect.switches.readings import Counter, Port, Reading
    from whydrop.collect.switches.snmp import SnmpSource


async def examine(config: Config, *, poll: bool) -> int:
    """Ask every switch, and print its ports, or with ``poll`` its counters; the exit status."""
    sources = sources_of(config, lambda _line: None)
    results = await asyncio.gather(*(_examined(source, poll) for source in sources))
    failed = 0
    for source, result in zip(sources, results, strict=True):
        if isinstance(result, AskingError):
            complain(f"{source.name}: {result}")
            failed += 1
            continue
        assert source.found is not None
        _print_head(source, source.found)
        _print_counters(result) if result is not None else _print_ports(source.found)
        failed += bool(source.found.missing or (result is not None and result.status != "ok"))
        for line in (*source.found.missing, *source.found.notes):
            click.echo(aligned.paragraph(line, "  ! "))
        if result is not None and result.status != "ok":
            complain(f"{source.name}: {result.status}: {result.message}")
        source.close()
    if not poll:
        well = (
            f"{len(sources) - failed} of {len(sources)} switches are as {ending.printable(str(config.path))} has them"
        )
        click.echo(well)
    return 1 if failed else 0


async def _examined(source: SnmpSource, poll: bool) -> Reading | AskingError | None:
    try:
        await source.find()
    except AskingError as reason:
        return reason
    return await source.read(time.time_ns()) if poll else None


def _print_head(source: SnmpSource, found: Found) -> None:
    switch = source.switch
    place = f"{switch.address}:{switch.port}" if ":" not in switch.address else f"[{switch.address}]:{switch.port}"
    click.echo(
        click.style(ending.printable(f"{switch.name} at {place}"), bold=True)
        + f": {len(found.ports)} port{'s' if len(found.ports) != 1 else ''}, {len(found.asked)} counters"
    )


def _print_ports(found: Found) -> None:
    rows = [("port", "machine", "index", "speed", "counters", "alias")]
    for port in found.ports:
        count = sum(owner is port for owner, _ in found.asked.values())
        speed = quantities.rate(port.speed_bps) if port.speed_bps else "?"
        rows.append((port.name, port.machine or "-", str(port.index), speed, str(count), port.alias or "-"))
    if found.ports:
        for line in aligned.columns(rows):
            click.echo(line)


def _print_counters(reading: Reading) -> None:
    """Each port's counters, both directions beside each other."""
    rows = [("port", "machine", "counter", "received", "sent")]
    by_port = groupby(reading.values.items(), lambda item: item[0][0])
    for port, items in by_port:
        rows += _rows(port, [(counter, value) for (_, counter), value in items])
    widths = [max(len(row[place]) for row in rows) for place in range(5)]
    for row in rows:
        words = [cell.ljust(width) if place < 3 else cell.rjust(width)
                 for place, (cell, width) in enumerate(zip(row, widths, strict=True))]  # fmt: skip
        click.echo("  " + ending.printable("  ".join(words)))


def _rows(port: Port, counters: list[tuple[Counter, int]]) -> list[tuple[str, str, str, str, str]]:
    kinds: dict[str, dict[str, str]] = {}
    for counter, value in counters:
        kind, _, direction = counter.name.rpartition(".")
        kinds.setdefault(kind, {})[direction] = f"{value:,}".replace(",", " ")
    rows = []
    for number, (kind, ways) in enumerate(kinds.items()):
        first = (port.name, port.machine or "-") if number == 0 else ("", "")
        rows.append((*first, kind, ways.get("rx", "-"), ways.get("tx", "-")))
    return rows
