"""Which burst to send next: longer ones until packets are lost, then both sizes until the intervals are narrow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whydrop.measure.depth.result import Depth, Quantity
from whydrop.measure.depth.rounds import MOST_PACKETS, Budget, Round

# Of large packets to small ones: far enough apart that a limit in packets and one in bytes differ fourfold.
SIZES = 4

# From one length to the next where nothing was lost: all the shorter ones together cost a third of the longest.
_GROWTH = 4
# Losses that show the limit: fewer may be chance.
_LEAST_LOSSES = 8
_PACKETS_BEYOND = 24
_CONFIRMING_BURSTS = 2
# For the path to fall silent between two bursts.
_IDLE_S = 0.05
# From one burst to the next at least: a busy host may begin so late, and what was due before it is not sent.
_LEAST_EVERY_S = 0.5
# On average, however fast a burst is: an open responder takes 1 Gbit/s of one client.
_MOST_MEAN_BPS = 0.9e9
# Of what is left, the part that one round of the search may take.
_SHARE = 0.5
# Narrow enough: the limit within a packet or this share, the rate within this share, or a tenth of the step.
_NARROW_LIMIT = 0.03
_NARROW_RATE = 0.01
_TENTH_OF_STEP = 0.1
# Confirming rounds of each size: more do not narrow the result.
_MOST_ROUNDS = 4
# Of the rate at which a queue drains: at twice as much every second packet passes, so that a train of them shows the
# rate even of a queue for very few packets.
_MOST_STEP = 2.0
# Of such a train: a quarter of it shows the rate.
_LEAST_STEPPED_PACKETS = 256
# Of trains that are only counted: faster than the hop drains by this factor, one fills it three times over before it
# shows the rate.
_FASTER = 1.5
# Below the line's rate nothing waits for the line.
_BELOW_LINE = 0.97
_PROBE_S = 0.5
# Each four times as fast as the one before.
_MOST_PROBES = 6
_MOST_COUNTED_ROUNDS = 2
_FIRST_COUNTED_PACKETS = 200
# A third of them is lost at that rate: enough to count.
_FEWEST_PACKETS = 100


@dataclass
class Seen:
    """The losses of bursts of one size.

    Attributes:
        lost: packets.
        first_lost: of the bursts that lost any, the smallest number of packets before the first loss.
        longest: packets of the longest burst.
    """

    lost: int = 0
    first_lost: int | None = None
    longest: int = 0


@dataclass
class _Sizes:
    """The two sizes of packets, IP bytes, the most that is sent of them, and how many rounds of each there were."""

    large: int
    rate_cap_bps: float | None = None
    _rounds: dict[int, int] = field(default_factory=dict, kw_only=True)

    @property
    def small(self) -> int:
        """The size of small packets, IP bytes."""
        return self.large // SIZES


@dataclass
class Search(_Sizes):
    """The state of a search.

    Attributes:
        large, small: the two sizes, IP bytes.
        rate_cap_bps: of every burst, IP bytes; ``None``: as fast as the line.
        first_packets, first_bursts: of the first round.
        beyond: by this factor bursts are longer than it took to lose a packet, for losses that find the queue full.
    """

    first_packets: int = 50
    first_bursts: int = 4
    beyond: float = 1.25
    seen: dict[int, Seen] = field(default_factory=dict)

    def first(self) -> Round:
        """The round that shows the rates."""
        return Round(self.large, self.first_packets, self.first_bursts, _LEAST_EVERY_S, self.rate_cap_bps)

    def slow_down(self, rate_bps: float) -> None:
        """Start again at a lower rate: losses at a higher one do not show how long these bursts must be."""
        self.rate_cap_bps = rate_bps if self.rate_cap_bps is None else min(rate_bps, self.rate_cap_bps)
        self.seen.clear()
        self._rounds.clear()

    def next(self, found: Depth, analysis: Mapping[str, Any], budget: Budget) -> Round | None:
        """The next round, or ``None`` where it is enough or nothing more can be afforded.

        Args:
            found: the result so far.
            analysis: the result of :func:`whydrop._core.explain_bursts` so far.
            budget: what is left.
        """
        if not self.seen:
            return self.first() if budget.affords(self.first()) else None
        large = self.seen.get(self.large, Seen())
        is_full = large.lost >= _LEAST_LOSSES
        wanted = self._confirming(found, analysis) if is_full else self._longer(large, analysis, budget)
        return wanted if wanted is not None and budget.affords(wanted) else None

    def _longer(self, seen: Seen, analysis: Mapping[str, Any], budget: Budget) -> Round | None:
        """A longer burst of large packets, as far as half of what is left allows."""
        packets = min(seen.longest * _GROWTH, MOST_PACKETS)
        while packets > seen.longest:
            wanted = self._round(self.large, packets, 1, analysis)
            if wanted.cost_bytes <= _SHARE * budget.left_bytes and wanted.cost_s <= _SHARE * budget.left_s:
                return wanted
            packets = packets * 3 // 4
        return None

    def _confirming(self, found: Depth, analysis: Mapping[str, Any]) -> Round | None:
        """Bursts that exceed the limit, of the size with fewer rounds so far."""
        if self._rounds.get(self.small, 0) and self._rounds.get(self.large, 0) and is_narrow(found):
            return None
        size = min((self.small, self.large), key=lambda size: self._rounds.get(size, 0))
        if self._rounds.get(size, 0) >= _MOST_ROUNDS:
            return None
        self._rounds[size] = self._rounds.get(size, 0) + 1
        first_lost = self.seen[self.large].first_lost or 0
        packets = math.ceil(self.beyond * first_lost) + _PACKETS_BEYOND
        if size == self.small:
            # A limit in packets is reached sooner, one in bytes by as many bytes.
            packets *= SIZES
        stepped = self._stepped_rate(analysis) if self._rounds[size] % 2 == 0 else None
        if stepped is not None:
            # Slower bursts leave more time to drain.
            line, drain = analysis["line_rate_bps"], analysis["arrival_rate_bps"]
            packets = math.ceil(packets * (1 - drain / line) / (1 - drain / stepped))
            packets = max(packets, _LEAST_STEPPED_PACKETS)
        return self._round(size, min(packets, MOST_PACKETS), _CONFIRMING_BURSTS, analysis, stepped)

    def _stepped_rate(self, analysis: Mapping[str, Any]) -> float | None:
        """A rate between those of the line and of the queue: what drops must do the same at any rate above its own."""
        line, drain = analysis["line_rate_bps"], analysis["arrival_rate_bps"]
        if line is None or drain is None or line < 1.5 * drain:
            return None
        return min(math.sqrt(line * drain), _MOST_STEP * float(drain))

    def _round(
        self, ip_bytes: int, packets: int, bursts: int, analysis: Mapping[str, Any], rate_bps: float | None = None
    ) -> Round:
        slowest = slowest_bps(analysis)
        every_s = 1.1 * packets * ip_bytes * 8 / min(slowest or _MOST_MEAN_BPS, _MOST_MEAN_BPS)
        rate_bps = min((rate for rate in (rate_bps, self.rate_cap_bps) if rate is not None), default=None)
        every_s = max(every_s + _IDLE_S + 2 * analysis["longest_wait_s"], _LEAST_EVERY_S)
        return Round(ip_bytes, packets, bursts, every_s, rate_bps)


@dataclass
class CountingSearch(_Sizes):
    """Longer trains until some packets are lost, then long ones of both sizes, a little faster than what drops drains.

    Attributes:
        long_s: how long a train must last to show a rate.
    """

    long_s: float = 4.3
    line_bps: float | None = None
    longest: int = 0
    # Of a train that lost packets: how many came, and at which rate. What drops drains no faster.
    passed: int | None = None
    passed_bps: float = math.inf
    # A rate near which it may drain, until a train at some rate above it has lost packets.
    guess_bps: float = 0.0
    paced: bool = False
    _probes: int = 0

    def first(self) -> Round:
        """A train that fills a shallow queue."""
        return Round(self.large, _FIRST_COUNTED_PACKETS, 1, 1.0, self.rate_cap_bps)

    def note(self, sent: Round, received: int, sending_s: float | None, counted_s: float) -> None:
        """Take note of what came of a train.

        Args:
            sent: the train.
            received: packets of it.
            sending_s: how long it was sent, where that is known.
            counted_s: until the far end stopped counting.
        """
        if sent.ip_bytes != self.large:
            return
        bits = sent.ip_bytes * 8
        self.longest = max(self.longest, sent.packets)
        fastest = sent.rate_bps == self.rate_cap_bps
        if fastest and sending_s:
            self.line_bps = sent.packets * bits / sending_s
        if sent.packets - received >= _LEAST_LOSSES:
            self.paced |= not fastest
            self.passed = received if self.passed is None else min(received, self.passed)
            self.passed_bps = min(sent.rate_bps or math.inf, self.passed_bps)
            if sending_s:
                self.passed_bps = min(received * bits / sending_s, self.passed_bps)
            self.guess_bps = self.guess_bps or received * bits / counted_s
        elif not fastest:
            self.guess_bps *= _GROWTH

    def next(self, found: Depth, analysis: dict[str, Any], budget: Budget) -> Round | None:
        """The next train, or ``None`` where it is enough or nothing more can be afforded."""
        if self.passed is None:
            wanted = self._longer(budget)
        elif not self.paced:
            self._probes += 1
            if self._probes > _MOST_PROBES:
                return None
            wanted = self._train(self.large, min(_FASTER * self.guess_bps, self.passed_bps), _PROBE_S)
        else:
            wanted = self._long(found, analysis)
        return wanted if wanted is not None and budget.affords(wanted) else None

    def _longer(self, budget: Budget) -> Round | None:
        packets = self.longest * _GROWTH
        every_s = 1.0 if self.line_bps is None else packets * self.large * 8 / self.line_bps
        wanted = Round(self.large, packets, 1, every_s, self.rate_cap_bps)
        return wanted if 2 * wanted.cost_bytes < budget.left_bytes else None

    def _long(self, found: Depth, analysis: dict[str, Any]) -> Round | None:
        size = min((self.large, self.small), key=lambda size: self._rounds.get(size, 0))
        done = self._rounds.get(size, 0)
        if done >= _MOST_COUNTED_ROUNDS or (done and is_narrow(found)):
            return None
        self._rounds[size] = done + 1
        drain = analysis["drain_rate_bps"]
        rate_bps = _FASTER * (self.passed_bps if drain is None else drain["value"])
        return self._train(size, rate_bps, self.long_s)

    def _train(self, size: int, rate_bps: float, least_s: float) -> Round:
        """A train below the line's rate, long enough to fill what drops."""
        if self.line_bps is not None:
            rate_bps = min(rate_bps, _BELOW_LINE * self.line_bps)
        # Nearer to the rate at which it drains, it takes up to three times as many to fill it.
        filling = 3 * (self.passed or 0) * self.large // size
        packets = max(math.ceil(rate_bps / 8 / size * least_s), filling, _FEWEST_PACKETS)
        return Round(size, packets, 1, packets * size * 8 / rate_bps, rate_bps)


def slowest_bps(analysis: Mapping[str, Any]) -> float | None:
    """The lowest rate that bursts met so far, bit/s: by it the path is idle again, and a bucket full."""
    drain, bucket = analysis["drain_rate_bps"], analysis["bucket"]
    rates = [
        analysis["line_rate_bps"], analysis["arrival_rate_bps"], drain and drain["value"],
        bucket and bucket["rate_bps"]["value"],
    ]  # fmt: skip
    return min((rate for rate in rates if rate), default=None)


def is_narrow(found: Depth) -> bool:
    """True if further bursts would not narrow the result enough to matter."""
    limits = [found.limit_packets] if found.limited_by == "packets" else [found.limit_bytes]
    if found.kind == "policer":
        limits = [found.burst_bytes]
    elif found.limited_by is None:
        return False
    packet = 1.0 if found.limited_by == "packets" else float(found.large_bytes)
    narrow = all(one is not None and _half(one) <= max(2 * packet, _NARROW_LIMIT * one.value) for one in limits)
    return (
        narrow and found.rate_bit_s is not None and _half(found.rate_bit_s) <= _wanted(found) * found.rate_bit_s.value
    )


def _wanted(found: Depth) -> float:
    """How narrow the rate should be, as a share of it."""
    line, rate = found.line_rate_bit_s, found.rate_bit_s
    if line is None or rate is None or line.value <= rate.value:
        return _NARROW_RATE
    return min(_NARROW_RATE, _TENTH_OF_STEP * (line.value / rate.value - 1))


def _half(one: Quantity) -> float:
    if one.low is None or one.high is None:
        return math.inf
    return (one.high - one.low) / 2
