"""A collector as a configuration describes it: its sockets, its sources, and its outputs."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import Callable
from typing import Any

from whydrop.monitoring.switches.collector import Collector
from whydrop.monitoring.switches.config import Config
from whydrop.monitoring.switches.delivery import Delivery
from whydrop.monitoring.switches.disco_files import DiscoFiles
from whydrop.monitoring.switches.exporter import Exporter
from whydrop.monitoring.switches.keeper import Keeper
from whydrop.monitoring.switches.readings import Reading
from whydrop.monitoring.switches.sessions import AskingError
from whydrop.monitoring.switches.snmp import SnmpSource

Say = Callable[[str], None]

# Files beside the sockets: the store, its database, the libraries.
_OTHER_FILES = 256


def allow_sockets(switches: int, say: Say) -> None:
    """Raise the limit of open files: one socket for each switch; many systems start with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = switches + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        say(f"only {most} files may be open, {wanted} are needed for {switches} switches: ulimit -n {wanted}")


def delivery(config: Config, say: Say) -> Delivery:
    """Open the outputs.

    Raises:
        RecordingError, ExporterError, OSError: one of them cannot be opened.
    """
    with contextlib.ExitStack() as opened:
        outputs: list[Any] = []
        if config.exporter is not None:
            outputs.append(opened.enter_context(Exporter(*config.exporter)))
        disco = DiscoFiles(config.disco.folder, config.disco.hostname) if config.disco else None
        keeper = opened.enter_context(Keeper(config.store, config.host, disco=disco, say=say))
        found = Delivery(config.interval_ns, [keeper, *outputs], say, keeper.last_readings())
        opened.pop_all()
        return found


def collector(
    config: Config, outputs: Delivery, say: Say, watch: Callable[[Collector], None] | None = None
) -> Collector:
    """The collector of a configuration, to be run in an event loop."""
    sources = [SnmpSource(switch, config.interval_ns, say=say) for switch in config.switches]
    return Collector(sources, config.interval_ns, outputs, say, watch=watch)


async def examined(config: Config, *, poll: bool) -> list[tuple[SnmpSource, Reading | AskingError | None]]:
    """Each switch with its ports (``source.found``); with ``poll`` a reading of its counters, or why there is none."""
    sources = [SnmpSource(switch, config.interval_ns, say=lambda _line: None) for switch in config.switches]
    results = await asyncio.gather(*(_examined(source, poll) for source in sources))
    for source in sources:
        source.close()
    return list(zip(sources, results, strict=True))


async def _examined(source: SnmpSource, poll: bool) -> Reading | AskingError | None:
    try:
        await source.find()
    except AskingError as reason:
        return reason
    return await source.read(time.time_ns()) if poll else None
