"""The rate and burst at which to pace to a bottleneck, and the advice for a permanent fix."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from whydrop.act.changes import FRAME_BYTES, Pace, least_burst_bytes
from whydrop.errors import Error
from whydrop.explaining.words.policers import sawtooth_burst_bytes
from whydrop.text.quantities import duration, size
from whydrop.text.quantities import rate as rate_text

Kind = Literal["queue", "policer", "shaper", "unknown"]

# Of a rate that was estimated: pacing at the limit itself overflows whatever stands before it in the end, and the layer
# on which it counts is seldom known (between IP and Ethernet lies 1 %).
_BELOW = 0.97
# A rate that is known no better than this (half of its interval's width) is searched for within the interval.
_KNOWN = 0.05
# Of what a bucket or a queue takes at once: other traffic is in it, too.
_OF_BURST = 0.5
_CAUSES: dict[str, Kind] = {
    "policer": "policer", "shallow-queue": "queue", "deep-queue": "queue", "shaper": "shaper", "aqm": "queue",
}  # fmt: skip


class NoPlanError(Error):
    """Raised where nothing known gives a rate to pace at; the message says what is missing."""


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval; an open end is ``None``."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, given: Any) -> Estimate | None:
        """From JSON: a number, or ``{"value", "low", "high"}``; None where it is neither.

        >>> Estimate.of(5), Estimate.of({"value": 5, "low": 4, "high": None}), Estimate.of("5")
        (Estimate(value=5.0, low=None, high=None), Estimate(value=5.0, low=4.0, high=None), None)
        """
        fields = given if isinstance(given, Mapping) else {"value": given}
        numbers = {name: _number(fields.get(name)) for name in ("value", "low", "high")}
        value = numbers["value"]
        return None if value is None else cls(value, numbers["low"], numbers["high"])


def _number(given: Any) -> float | None:
    known = isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given) and given >= 0
    return float(given) if known else None


@dataclass(frozen=True)
class Bottleneck:
    """The path element that drops or delays, as far as it is known, from any source.

    Attributes:
        kind: what it is.
        rate_bps: at which it drains or polices.
        burst_bytes: of a policer or shaper: what it lets through at once.
        limit_bytes, limit_packets: of a queue: what it holds.
        found: how this is known, for people.
    """

    kind: Kind
    rate_bps: Estimate
    burst_bytes: Estimate | None = None
    limit_bytes: Estimate | None = None
    limit_packets: Estimate | None = None
    found: str = ""

    @property
    def is_uncertain(self) -> bool:
        """True if its rate is known too little to pace at it: by a wide interval, or one with an open end."""
        rate = self.rate_bps
        if rate.low is None and rate.high is None:
            return False
        return rate.low is None or rate.high is None or rate.high - rate.low > 2 * _KNOWN * rate.value

    @property
    def holds_bytes(self) -> float | None:
        """The bytes that it takes at once."""
        most = self.burst_bytes if self.kind in ("policer", "shaper") else self.limit_bytes
        if most is not None:
            return most.value
        return self.limit_packets.value * FRAME_BYTES if self.limit_packets is not None else None


def from_depth(text: str, source: str) -> Bottleneck:
    """From what ``whydrop depth --json`` prints.

    Raises:
        NoPlanError: it is no such document, or found no bottleneck.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise NoPlanError(f"{source}: expected the JSON document of `whydrop depth --json`, or a capture")
    rate = Estimate.of(document.get("rate_bit_s"))
    kind = document.get("kind")
    if kind not in ("queue", "policer", "shaper") or rate is None or not rate.value:
        raise NoPlanError(f"{source}: it names no bottleneck with a rate (kind {kind!r})")
    found = {name: Estimate.of(document.get(name)) for name in ("burst_bytes", "limit_bytes", "limit_packets")}
    return Bottleneck(kind, rate, **found, found=f"measured by whydrop depth ({source})")


def from_verdict(verdict: Mapping[str, Any]) -> Bottleneck | None:
    """From a verdict of the JSON contract; None where it names no bottleneck with a rate."""
    kind = _CAUSES.get(verdict["cause"])
    parameters = {name: Estimate.of(value) for name, value in verdict["parameters"].items()}
    rate = parameters.get("rate_bps") or parameters.get("drain_rate_bps")
    if kind is None or rate is None or not rate.value:
        return None
    limits = {name: parameters.get(name) for name in ("burst_bytes", "limit_bytes", "limit_packets")}
    return Bottleneck(kind, rate, **limits, found=verdict["sentence"])


def pace_for(bottleneck: Bottleneck) -> Pace:
    """A rate and a burst that it carries; the addresses are still to be filled in."""
    rate = bottleneck.rate_bps
    paced = min(rate.value * _BELOW, rate.low if rate.low is not None and not bottleneck.is_uncertain else math.inf)
    return Pace(paced, burst_for(paced, bottleneck.holds_bytes))


def burst_for(rate_bps: float, holds_bytes: float | None = None, frame_bytes: int = FRAME_BYTES) -> int:
    """The least burst that holds the rate, within what the bottleneck takes; a frame at least."""
    least = least_burst_bytes(rate_bps, frame_bytes)
    if holds_bytes is None:
        return least
    return max(least_burst_bytes(0.0, frame_bytes), min(least, round(holds_bytes * _OF_BURST)))


_TICKETS = {
    "policer": "A policer at {rate} on the path drops what exceeds it.{takes} {Over} one TCP flow (RFC 5681) needs a "
    "burst (CBS) of {bucket} to fill it. Please raise the policer's burst to that, or replace it by a shaper at {rate} "
    "with a queue of {product}.",
    "shaper": "A shaper at {rate} delays what exceeds it.{takes} Please put a managed queue (CoDel, RFC 8289, or "
    "FQ-CoDel, RFC 8290) before it, or limit its queue to {product}, the bandwidth-delay product {over}.",
    "long queue": "A queue that drains at {rate} holds {holds}, a queueing delay of {delay}. {Over} a TCP flow needs "
    "{product}. Please limit it to that, or put a managed queue (FQ-CoDel, RFC 8290) in its place.",
    "unknown": "A hop on the path drops packets in bursts; paced at {rate}, all arrive. If it is a queue, one TCP flow "
    "needs a buffer of {product} {over} (the bandwidth-delay product); if it is a policer, a burst (CBS) of {bucket}. "
    "Please look for a port with a buffer of a few packets, or for a policer with a small burst; `whydrop depth` shows "
    "which it is.",
    "queue": "A queue that drains at {rate} overflows.{takes} {Over} one TCP flow needs {product} (the bandwidth-delay "
    "product){missing}; n flows need that over the square root of n. Please raise the buffer of that port (shared or "
    "dynamic buffers, where the switch has them), or let flow control (IEEE 802.3x) pause the sender where a faster "
    "port feeds a slower one.",
}


def for_the_other_side(bottleneck: Bottleneck, rtt_s: float, mss_bytes: float = 1448.0) -> str:
    """Advice for the operator of the bottleneck, with numbers; text to paste into a ticket.

    The buffer that one TCP flow needs is the bandwidth-delay product (C. Villamizar and C. Song, "High performance TCP
    in ANSNET", 1994), that of n flows at the same time the product over the square root of n (G. Appenzeller, I.
    Keslassy and N. McKeown, "Sizing router buffers", 2004).
    """
    rate, holds = bottleneck.rate_bps.value, bottleneck.holds_bytes
    product, round_trip = rate / 8 * rtt_s, f"a path with a round trip of {duration(rtt_s)}"
    kind: str = bottleneck.kind
    if kind in ("queue", "unknown") and holds is not None and holds > 2 * product:
        kind = "long queue"
    return _TICKETS[kind].format(
        rate=rate_text(rate),
        takes="" if holds is None else f" It takes {size(holds)} at once.",
        over=f"over {round_trip}",
        Over=f"Over {round_trip}",
        product=size(product),
        bucket=size(sawtooth_burst_bytes(rate, rtt_s, mss_bytes)),
        holds=size(holds or 0.0),
        delay=duration((holds or 0.0) * 8 / rate),
        missing="" if holds is None else f"; {size(max(0.0, product - holds))} are missing",
    )
