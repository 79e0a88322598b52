"""The paths over which each congestion control of Linux is recorded, in four sets.

Rules were tuned on ``training`` and ``seen``. ``fresh`` was scored first when rules for all controls had been made.
That showed which controls were unknown, and after more rules, made on the other two sets, it was scored again.
``unseen`` was recorded and scored when those were made. The sets have no path in common: rates, round-trip times,
queues, losses and queue management differ.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from transfers import Line

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

SETS: dict[str, dict[str, Line]] = {
    "training": {
        "loss": Line(60, "6mbit", "netem loss random 0.4% limit 400"),
        "fifo-shallow": Line(60, "5mbit", "pfifo limit 14"),
        "fifo-deep": Line(60, "5mbit", "pfifo limit 70"),
        "aqm": Line(80, "5mbit", "fq_codel"),
        "policer": Line(60, police="rate 5mbit burst 30k"),
        "ecn": Line(70, "5mbit", "codel ecn", ecn=True),
        "policer-slow": Line(110, police="rate 3mbit burst 60k"),
        "ecn-pie": Line(100, "4mbit", "pie ecn", ecn=True),
    },
    "seen": {
        "loss": Line(80, "7mbit", "netem loss random 0.3% limit 500"),
        "fifo-shallow": Line(75, "6mbit", "pfifo limit 20"),
        "fifo-deep": Line(50, "6mbit", "pfifo limit 80"),
        "aqm": Line(95, "5mbit", "pie"),
        "policer": Line(45, police="rate 6mbit burst 40k"),
        "ecn": Line(60, "6mbit", "fq_codel ecn", ecn=True),
    },
    "fresh": {
        "loss": Line(70, "8mbit", "netem loss random 0.5% limit 500"),
        "fifo-shallow": Line(50, "7mbit", "pfifo limit 17"),
        "fifo-deep": Line(65, "4mbit", "pfifo limit 60"),
        "aqm": Line(70, "6mbit", "codel target 8ms interval 120ms"),
        "policer": Line(70, police="rate 4mbit burst 50k"),
        "ecn": Line(55, "7mbit", "pie target 20ms ecn", ecn=True),
    },
    "unseen": {
        "loss": Line(40, "9mbit", "netem loss random 0.6% limit 500"),
        "fifo-shallow": Line(85, "8mbit", "pfifo limit 25"),
        "fifo-deep": Line(35, "5mbit", "pfifo limit 100"),
        "aqm": Line(60, "8mbit", "fq_pie"),
        "policer": Line(55, police="rate 8mbit burst 45k"),
        "ecn": Line(45, "6mbit", "codel target 10ms ecn", ecn=True),
    },
}
"""The paths of each set, by the column of the score."""
