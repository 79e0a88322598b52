"""The sources that the collector polls, and its error lines."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from whydrop.cli import ending

if TYPE_CHECKING:
    from whydrop.collect.switches.config import Config
    from whydrop.collect.switches.snmp import SnmpSource


def complain(line: str) -> None:
    """Print a line on standard error, with control characters escaped."""
    # The collector outlives the terminal that started it.
    with contextlib.suppress(OSError):
        print(f"whydrop: {ending.printable(line)}", file=sys.stderr, flush=True)


def sources_of(config: Config, say: Any) -> list[SnmpSource]:
    """The SNMP sources of a configuration, one for each switch."""
    from whydrop.collect.switches.snmp import SnmpSource

    return [SnmpSource(switch, config.interval_ns, say=say) for switch in config.switches]
