"""The paths over which simulated senders and queues are compared with Linux's: none of them is one of bench/changes.

`paths`: twenty paths, each with every congestion control that is simulated. `laws`: several connections through each
law of queue management, with drops and with marks.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from transfers import Line, Scenario

CONTROLS = ("cubic", "reno", "bbr")

_RED = "red limit 400000 min 30000 max 90000 avpkt 1000 burst 50 bandwidth {} probability 0.1"

PATHS = {
    "shallow-12": Line(20, "9mbit", "pfifo limit 12"),
    "shallow-18": Line(35, "5mbit", "pfifo limit 18"),
    "shallow-30": Line(90, "6mbit", "pfifo limit 30"),
    "shallow-40": Line(120, "10mbit", "pfifo limit 40"),
    "deep-80": Line(15, "4mbit", "pfifo limit 80"),
    "deep-120": Line(55, "6mbit", "pfifo limit 120"),
    "deep-130": Line(75, "5mbit", "pfifo limit 130"),
    "deep-250": Line(100, "9mbit", "pfifo limit 250"),
    "policer-25kB": Line(20, police="rate 5mbit burst 25000"),
    "policer-40kB": Line(65, police="rate 8mbit burst 40000"),
    "policer-60kB": Line(35, police="rate 9mbit burst 60000"),
    "policer-120kB": Line(110, police="rate 6mbit burst 120000"),
    "loss-0.3%": Line(25, "8mbit", "netem loss random 0.3% limit 400"),
    "loss-0.2%": Line(90, "10mbit", "netem loss random 0.2% limit 400"),
    "codel-30ms": Line(30, "5mbit", "codel", in_turn=True),
    "codel-110ms": Line(110, "9mbit", "codel", in_turn=True),
    "fq_codel": Line(100, "8mbit", "fq_codel", in_turn=True),
    "pie-25ms": Line(25, "6mbit", "pie", in_turn=True),
    "pie-85ms": Line(85, "10mbit", "pie", in_turn=True),
    "red": Line(45, "8mbit", _RED.format("8mbit"), in_turn=True),
}
"""By name."""


# Drops and marks of each law, in tc's syntax, at a rate.
_LAWS = {
    "pie": ("pie", "pie ecn"),
    "red": (_RED, _RED + " ecn"),
    "codel": ("codel", "codel ecn"),
    "fq_pie": ("fq_pie", "fq_pie ecn"),
    "cake": ("cake", "cake"),
    "fq_codel": ("fq_codel noecn", "fq_codel"),
}
# Round trip, rate, congestion control, and whether packets are marked.
_KINDS = {
    "marks-30ms": (30, "9mbit", "cubic", True),
    "drops-20ms": (20, "6mbit", "cubic", False),
    "marks-50ms": (50, "7mbit", "reno", True),
    "drops-70ms": (70, "10mbit", "reno", False),
    "marks-40ms": (40, "8mbit", "reno", True),
    "marks-70ms": (70, "6mbit", "cubic", True),
}


def _managed(law: str, kind: str) -> Scenario:
    rtt_ms, rate, control, ecn = _KINDS[kind]
    return Scenario(Line(rtt_ms, rate, _LAWS[law][ecn].format(rate), ecn=ecn, in_turn=True), control, flows=4)


SETS: dict[str, dict[str, Scenario]] = {
    "paths": {f"{name}/{control}": Scenario(line, control) for name, line in PATHS.items() for control in CONTROLS},
    "laws": {f"{law}-{kind}": _managed(law, kind) for kind in _KINDS for law in _LAWS},
}
"""The scenarios of each set, by the folder of their recording."""
