"""Constants, templates and arithmetic that the tables of words share."""

from __future__ import annotations

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from whydrop.text.phrases import Phrase

    # Of a fact, and those that phrases need beside them.
    Values = Mapping[str, Any]
    Derived = dict[str, Any]
    Phrases = dict[str, Phrase]
    # By cause and detail: sentences, and commands, which begin with "$ "; those that are empty once filled are left out
    Advice = dict[tuple[str, str | None], tuple[str, ...]]
else:
    Values = Derived = Phrases = Advice = dict

# Pace this far below a limit: the rate is known to a few per cent, and its byte basis may not be.
PACED_SHARE = 0.95

BBR = "$ sysctl -w net.ipv4.tcp_congestion_control=bbr"

# Beyond this share of missing packets nothing else is said about a capture's flows.
MOST_MISSING = 0.4

# A window that is closed for so much of the time is not too small: the application does not read.
MOSTLY_CLOSED = 0.1

BESIDES = "[; this does not explain {lost_besides|loss}]"


def kbit(rate_bps: float) -> str:
    """A rate a little below a limit, as tc reads it."""
    return f"{rate_bps * PACED_SHARE / 1e3:.0f}kbit"
