"""Paths and senders, and changes of them: what is recorded, and the words in which `whydrop predict` is asked.

Paths are those of the laboratory (`transfers.Line`): a policer, a queue, queue management or random loss, with Linux's
TCP. Each change is made for real in a second recording.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from transfers import Line, Scenario

# Paths and changes on which predictions were tuned.
_SEEN = {
    "policer-30kB": Scenario(Line(40, police="rate 8mbit burst 30000")),
    "policer-20kB": Scenario(Line(25, police="rate 6mbit burst 20000"), "reno"),
    "policer-100kB": Scenario(Line(60, police="rate 10mbit burst 100000")),
    "fifo-15": Scenario(Line(50, "8mbit", "pfifo limit 15")),
    "fifo-10": Scenario(Line(30, "6mbit", "pfifo limit 10"), "reno"),
    "fifo-100": Scenario(Line(30, "6mbit", "pfifo limit 100")),
    "fifo-200": Scenario(Line(60, "8mbit", "pfifo limit 200"), "reno"),
    "fq-codel": Scenario(Line(40, "7mbit", "fq_codel")),
    "codel": Scenario(Line(70, "6mbit", "codel"), "reno"),
    "loss": Scenario(Line(40, "8mbit", "netem loss random 0.5% limit 400")),
}

_SEEN_CHANGES = {
    "policer-30kB": (
        *("policer.burst=60kB", "policer.burst=120kB", "policer.burst=300kB", "policer.rate=5M", "policer.rate=12M"),
        *("pace=7M", "cc=reno", "cc=bbr", "rtt=20ms", "rtt=100ms"),
    ),
    "policer-20kB": ("policer.burst=80kB", "policer.rate=4M", "pace=5.5M", "cc=cubic", "cc=bbr", "rtt=80ms"),
    "policer-100kB": ("policer.burst=30kB", "policer.burst=400kB", "policer.rate=7M", "pace=9M", "cc=bbr", "rtt=20ms"),
    "fifo-15": (
        *("queue.limit=8packets", "queue.limit=30packets", "queue.limit=60packets", "queue.limit=150packets"),
        *("aqm=fq_codel", "aqm=codel", "aqm=pie", "pace=7M", "cc=reno", "cc=bbr", "rtt=20ms", "rtt=120ms"),
    ),
    "fifo-10": (
        *("queue.limit=25packets", "queue.limit=80packets", "aqm=fq_codel", "pace=5.5M"),
        *("cc=cubic", "cc=bbr", "rtt=90ms"),
    ),
    "fifo-100": (
        *("queue.limit=15packets", "queue.limit=40packets", "aqm=fq_codel", "aqm=codel", "aqm=pie"),
        *("pace=5.5M", "cc=bbr", "rtt=100ms"),
    ),
    "fifo-200": ("queue.limit=50packets", "aqm=fq_codel", "cc=cubic", "rtt=20ms", "fifo.rate=5M"),
    "fq-codel": ("pace=6M", "cc=reno", "cc=bbr", "rtt=100ms"),
    "codel": ("cc=cubic", "cc=bbr", "rtt=30ms"),
    "loss": ("cc=reno", "cc=bbr", "rtt=100ms"),
}

# Others, for the test.
_FRESH = {
    "policer-45kB": Scenario(Line(30, police="rate 7mbit burst 45000")),
    "policer-15kB": Scenario(Line(50, police="rate 5mbit burst 15000"), "reno"),
    "policer-80kB": Scenario(Line(80, police="rate 9mbit burst 80000"), "bbr"),
    "fifo-25": Scenario(Line(40, "7mbit", "pfifo limit 25")),
    "fifo-12": Scenario(Line(70, "5mbit", "pfifo limit 12"), "reno"),
    "fifo-60": Scenario(Line(25, "8mbit", "pfifo limit 60"), "bbr"),
    "fifo-150": Scenario(Line(45, "7mbit", "pfifo limit 150")),
    "fq-codel-60ms": Scenario(Line(60, "6mbit", "fq_codel"), "reno"),
    "pie": Scenario(Line(50, "8mbit", "pie")),
    "loss-1%": Scenario(Line(30, "6mbit", "netem loss random 1% limit 400")),
}
_FRESH_CHANGES = {
    "policer-45kB": (
        *("policer.burst=90kB", "policer.burst=200kB", "policer.burst=20kB", "policer.rate=4M", "policer.rate=9M"),
        *("pace=6M", "cc=reno", "cc=bbr", "rtt=60ms"),
    ),
    "policer-15kB": (
        *("policer.burst=30kB", "policer.burst=100kB", "policer.rate=3M", "policer.rate=7M"),
        *("pace=4M", "cc=cubic", "cc=bbr", "rtt=20ms"),
    ),
    "policer-80kB": ("policer.burst=200kB", "policer.rate=6M", "pace=8M", "cc=cubic", "cc=reno", "rtt=30ms"),
    "fifo-25": (
        *("queue.limit=10packets", "queue.limit=50packets", "queue.limit=100packets", "aqm=fq_codel", "aqm=codel"),
        *("aqm=pie", "pace=6M", "cc=reno", "cc=bbr", "rtt=90ms"),
    ),
    "fifo-12": (
        *("queue.limit=30packets", "queue.limit=60packets", "aqm=fq_codel", "aqm=pie", "pace=4.5M"),
        *("cc=cubic", "cc=bbr", "rtt=30ms"),
    ),
    "fifo-60": ("queue.limit=20packets", "queue.limit=120packets", "aqm=codel", "cc=cubic", "cc=reno", "rtt=60ms"),
    "fifo-150": (
        *("queue.limit=25packets", "queue.limit=60packets", "aqm=fq_codel", "aqm=codel", "aqm=pie"),
        *("pace=6M", "cc=reno", "cc=bbr", "fifo.rate=5M"),
    ),
    "fq-codel-60ms": ("pace=5M", "cc=cubic", "cc=bbr", "rtt=20ms"),
    "pie": ("pace=7M", "cc=reno", "cc=bbr", "rtt=100ms"),
    "loss-1%": ("cc=reno", "cc=bbr", "rtt=80ms"),
}

SETS = {"seen": (_SEEN, _SEEN_CHANGES), "fresh": (_FRESH, _FRESH_CHANGES)}
"""For each set the scenarios without a change, by name, and the changes of each, as `--change` takes them."""


def changed(before: Scenario, change: str) -> Scenario:
    """The scenario with the change made for real."""
    name, _, value = change.partition("=")
    number = re.sub(r"[A-Za-z]+$", "", value)
    line = before.line
    match name:
        case "cc":
            return replace(before, control=value)
        case "pace":
            return replace(before, pace=value)
        case "rtt":
            return replace(before, line=replace(line, rtt_ms=float(number)))
        case "aqm":
            return replace(before, line=replace(line, queue=value))
        case "queue.limit":
            return replace(before, line=replace(line, queue=f"pfifo limit {number}"))
        case "fifo.rate":
            return replace(before, line=replace(line, rate=f"{number}mbit"))
        case "policer.burst" | "policer.rate" if line.police:
            word, made = ("burst", f"{number}000") if name.endswith("burst") else ("rate", f"{number}mbit")
            return replace(before, line=replace(line, police=re.sub(rf"{word} \S+", f"{word} {made}", line.police)))
    raise ValueError(f"{change}: no such change in the laboratory")


def file_name(scenario: str, change: str = "") -> str:
    """The folder of one recording."""
    return f"{scenario}+{change}" if change else scenario
