"""The paths over which each congestion control of Linux is recorded: a set for training, and one kept for the test.

The two sets have no path in common: rates, round-trip times, queues and losses differ.
"""

from __future__ import annotations

from dataclasses import dataclass

CONTROLS = (
    "reno",
    "cubic",
    "bbr",
    "dctcp",
    "vegas",
    "westwood",
    "illinois",
    "htcp",
    "hybla",
    "yeah",
    "scalable",
    "bic",
    "veno",
    "nv",
    "lp",
    "cdg",
)
"""All of Debian's kernel."""

MODULES = tuple(f"tcp_{control}" for control in CONTROLS if control not in ("reno", "cubic"))


@dataclass(frozen=True)
class Path:
    """One path from a sender to a receiver.

    Attributes:
        kind: the column of the score.
        rate: rate of the bottleneck, in tc's syntax; ``None`` without one.
        queue: queue at the bottleneck, in tc's syntax.
        rtt_ms: round-trip time without queueing.
        police: policer before the bottleneck, in tc's syntax.
        ecn: true if both hosts ask for ECN.
    """

    kind: str
    rtt_ms: float
    rate: str | None = None
    queue: str = "pfifo limit 1000"
    police: str | None = None
    ecn: bool = False


SETS: dict[str, tuple[Path, ...]] = {
    "training": (
        Path("loss", 60, "6mbit", "netem loss random 0.4% limit 400"),
        Path("fifo-shallow", 60, "5mbit", "pfifo limit 14"),
        Path("fifo-deep", 60, "5mbit", "pfifo limit 70"),
        Path("aqm", 80, "5mbit", "fq_codel"),
        Path("policer", 60, None, police="rate 5mbit burst 30k"),
        Path("ecn", 70, "5mbit", "codel ecn", ecn=True),
    ),
    "held-out": (
        Path("loss", 80, "7mbit", "netem loss random 0.3% limit 500"),
        Path("fifo-shallow", 75, "6mbit", "pfifo limit 20"),
        Path("fifo-deep", 50, "6mbit", "pfifo limit 80"),
        Path("aqm", 95, "5mbit", "pie"),
        Path("policer", 45, None, police="rate 6mbit burst 40k"),
        Path("ecn", 60, "6mbit", "fq_codel ecn", ecn=True),
    ),
}
