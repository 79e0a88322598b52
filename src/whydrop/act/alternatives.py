"""Other settings with the effect of a planned change, as commands: fq, a socket's own pacing, an interface's MTU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from whydrop.act.changes import Change
from whydrop.act.pacing import Plan

_SPLITTING_LEAF = re.compile(r"tc qdisc add (dev \S+ parent \S+) handle \S+ tbf ")


@dataclass(frozen=True)
class Alternative:
    """Another setting.

    Attributes:
        words: what it does, and what it needs.
        commands: to paste; none for a setting of programs.
    """

    words: str
    commands: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For the document of pacing."""
        return {"words": self.words, "commands": list(self.commands)}


def alternatives(plan: Plan, change: Change) -> list[Alternative]:
    """The other settings, the most specific one first."""
    if plan.mtu_bytes is not None:
        return [
            Alternative(
                f"all packets of {change.interface}, to any host, are kept to that size",
                (f"ip link set dev {change.interface} mtu {plan.mtu_bytes}",),
            )
        ]
    rate = f"{round(plan.rate_bps / 8) * 8}bit"
    leaves = filter(None, map(_SPLITTING_LEAF.match, change.commands()))
    below = [
        Alternative(
            "after these commands, fq in the place of tbf spaces the packets of each flow to the host; it needs sch_fq",
            (f"tc qdisc replace {leaf[1]} fq maxrate {rate}",),
        )
        for leaf in leaves
    ]
    return [
        *below,
        Alternative(
            "without HTB, fq limits each flow to any host, and not their sum; it needs sch_fq",
            (f"tc qdisc replace dev {change.interface} root fq maxrate {rate}",),
        ),
        Alternative(
            f"a program sets SO_MAX_PACING_RATE of its socket to {round(plan.rate_bps / 8)} bytes a second, as iperf3 "
            f"does with --fq-rate {rate.removesuffix('bit')}; the first ten segments still leave at once"
        ),
    ]
