"""The simulated twin of a recorded path: what was configured, and nothing that was fitted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from transfers import Line, Scenario

from whydrop import _core
from whydrop.explaining.predicting.described import Described, of_text, setting_of

# Queues of tc count the Ethernet header of each packet; policers, where packets arrive, do not.
FRAME_BYTES = 14
_PACKET_BYTES = 1500
# htb sends while it is not in debt: its burst and the packet that runs into debt.
_BURST_BYTES = 1600 + _PACKET_BYTES + FRAME_BYTES
# `avpkt 1000 burst 50 min 30000` of tc: the first power of two for which the average follows so long a burst.
_RED_WEIGHT = 1 / 32
# 15 ms in ticks of 4 ms are four, and a timer of Linux fires one later.
_PIE_PERIOD = "period=20ms"


def setting(scenario: Scenario, duration_s: float) -> dict[str, Any]:
    """The setting of one scenario, as ``_core.predict`` takes it."""
    line = scenario.line
    path = of_text(path_of(line)).path
    found = setting_of(Described(path, rtt_s=line.rtt_ms / 1e3), scenario.control)
    flow = {**found["flows"][0], "ecn": line.ecn}
    # Linux's shapers send a packet when its turn begins, our links when it has ended.
    bits = 8 * (_PACKET_BYTES + FRAME_BYTES)
    service_ns = round(bits * 1e9 / bits_per_second(line.rate)) if line.in_turn and line.rate else 0
    return {
        **found,
        "round_trip_ns": found["round_trip_ns"] - service_ns,
        "duration_ns": round(duration_s * 1e9),
        "flows": [dict(flow) for _ in range(scenario.flows)],
    }


def path_of(line: Line, seed: int | None = None, rate_bps: float | None = None) -> str:
    """The element of a line in the text form of paths.

    Args:
        seed: of an element with chance.
        rate_bps: the rate at which it sent; that which was configured if it is not given.
    """
    chance = "" if seed is None else f",seed={seed}"
    if line.police:
        _, rate, _, burst = line.police.split()
        return f"linux-police:rate={_rate(rate)},burst={burst}B"
    if line.rate is None:
        raise ValueError("a line without a rate")
    rest = f"overhead={FRAME_BYTES}B"
    rate = f"rate={_rate(line.rate)}" if rate_bps is None else f"rate={rate_bps:.0f}"
    words = line.queue.split()
    law = words[0].replace("_", "-")
    marks = ",marks" if line.ecn else ""
    limit = f"limit={words[-1]}packets"
    link = f"fifo:{rate},{limit},{rest}" if line.in_turn else f"shaper:{rate},burst={_BURST_BYTES}B,{limit},{rest}"
    match law:
        case "pfifo":
            return link
        case "netem":
            return f"random-loss:probability={words[3]}{chance}+{link}"
        case "codel":
            return f"codel:{rate},limit=1000packets{marks},linux,{rest}"
        case "pie":
            return f"pie:{rate},limit=1000packets,{_PIE_PERIOD}{marks},linux,{rest}{chance}"
        case "fq-codel":
            return f"fq-codel:{rate},limit=10240packets{marks},linux,{rest}{chance}"
        case "fq-pie":
            return f"fq-pie:{rate},limit=10240packets,{_PIE_PERIOD}{marks},linux,{rest}{chance}"
        case "cake":
            return f"cake:{rate},limit=4MB,{rest}{chance}"
        case "red":
            low, high = (float(words[words.index(name) + 1]) / (_PACKET_BYTES + FRAME_BYTES) for name in ("min", "max"))
            share = float(words[words.index("probability") + 1])
            thresholds = f"min={low}packets,max={high}packets,max-probability={share},weight={_RED_WEIGHT}"
            return f"red:{rate},{thresholds},limit={words[2]}B{marks},{rest}{chance}"
    raise ValueError(f"{line.queue}: no element stands for it")


def bits_per_second(rate: str) -> float:
    """A rate in tc's syntax."""
    return float(rate.removesuffix("mbit")) * 1e6


def _rate(rate: str) -> str:
    return rate.removesuffix("mbit") + "M"


def outcomes(scenario: Scenario, duration_s: float, seeds: int) -> list[dict[str, Any]]:
    """Runs of the twin, one for each seed."""
    return json.loads(_core.predict(_core.dumps(setting(scenario, duration_s)), list(range(1, seeds + 1))))  # type: ignore[no-any-return]
