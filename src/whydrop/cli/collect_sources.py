"""The sources that the collector polls, and how it complains."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from whydrop.cli import ending

if TYPE_CHECKING:
    from whydrop.collect.switches.config import Config
    from whydrop.collect.switches.snmp import SnmpSource


def complain(line: str) -> None:
    """A line on standard error; nothing in it commands the terminal."""
    # A terminal that was closed must not end what it once began.
    with contextlib.suppress(OSError):
        print(f"whydrop: {ending.printable(line)}", file=sys.stderr, flush=True)


def sources_of(config: Config, say: Any) -> list[SnmpSource]:
    """The SNMP sources of a configuration, one for each switch."""
    from whydrop.collect.switches.snmp import SnmpSource

    return [SnmpSource(switch, config.interval_ns, say=say) for switch in config.switches]
