"""Bursts and controls in turns: in each, one packet ends at each hop, behind a burst or without it."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable

from whydrop.measure.depth.result import Depth
from whydrop.measure.depth.rounds import WIRE_BYTES, Budget
from whydrop.measure.depth.tracing.judging import Expected, judge
from whydrop.measure.depth.tracing.packets import Packet
from whydrop.measure.depth.tracing.place import Hop, Place
from whydrop.measure.depth.tracing.probing import (
    ANSWER_S,
    MOST_DISCOVERING_PACKETS,
    MOST_PACKETS_BEFORE,
    RATE_TEST_PACKETS,
    Prober,
)  # fmt: skip
from whydrop.measure.engine import EngineError, looked_up
from whydrop.text.quantities import plural, rate, size

# Turns of each kind: before the first look, between looks, and at most.
_FIRST_LOOK, _LOOK_EVERY, _MOST_TURNS = 8, 2, 40
# Bursts are longer than it takes to overflow the queue, by this factor and so many packets.
_BEYOND, _PACKETS_BEYOND = 1.3, 16
# Packets among which those that end at the hops are, and packets behind them.
_LEAST_TAIL, _TAIL_FOR_EACH_HOP, _BEHIND_TAIL = 32, 4, 16
_IDLE_S = 0.1
_CONTROL_GAP_S = 0.003
# A line that is faster by less takes longer to overflow a queue than anything else on the path stays the same.
_LEAST_STEP = 0.0005
# This host's rate during the bursts of the trace, over that of the measurement: below, bursts must be longer.
_AS_FAST = 0.98
# A host that answers each packet of a burst loads the return path, where answers of routers may be lost.
_MOST_REFUSALS, _FEW_REFUSALS = 0.1, 20
# Answers of one hop by several routers.
_MOST_WANDERERS = 0.05


def trace(name: str, ip_version: int | None, found: Depth, budget: Budget, say: Callable[[str], None]) -> Place:
    """Find the hop of the queue that was measured.

    Args:
        name: the host, or its address.
        ip_version: as for the measurement.
        found: the queue.
        budget: what may still be sent; the cost of the bursts is taken out of it.
        say: called with the current step.

    Raises:
        EngineError: the packets cannot be sent.
    """
    if (place := without_packets(found)) is not None:
        return place
    family, address = looked_up(name, ip_version, 9)
    prober = Prober(family, address, found.large_bytes)
    try:
        return _Tracer(prober, found, budget, say).run()
    finally:
        prober.close()


def without_packets(found: Depth) -> Place | None:
    """The outcome where no packet need be sent, or none can show anything."""
    if found.kind in ("none", "unknown"):
        what = (
            "no queue and no policer" if found.kind == "none" else "neither a queue nor a policer that fits the losses"
        )
        return Place(reason=f"the measurement found {what}")
    if found.at_sender:
        return Place(at_sender=True, after_hop=0)
    if not found.lost:
        return Place(reason="the bursts of the measurement did not fill it")
    if found.line_rate_bit_s is None or found.rate_bit_s is None or found.room_bytes is None:
        return Place(reason="its size and rate, or the rate of the line, are not known")
    if found.line_rate_bit_s.value <= (1 + _LEAST_STEP) * found.rate_bit_s.value:
        return Place(reason="this host's line is hardly faster than the queue")
    return None


class _Tracer:
    def __init__(self, prober: Prober, found: Depth, budget: Budget, say: Callable[[str], None]) -> None:
        assert found.rate_bit_s is not None
        assert found.line_rate_bit_s is not None
        assert found.room_bytes is not None
        self.prober, self.found, self.budget, self.say = prober, found, budget, say
        self.drain_bps, self.line_bps = found.rate_bit_s.value, found.line_rate_bit_s.value
        self.room_bytes = found.room_bytes.high or found.room_bytes.value
        self.chance = random.Random()
        if budget.caps.max_rate_bps is not None:
            prober.packets.gap_s = (found.large_bytes + WIRE_BYTES) * 8 / budget.caps.max_rate_bps
        self.bursts = 0
        self.filling = self._filling(self.line_bps)

    def run(self) -> Place:
        """Find the hops, then send bursts and controls in turns until the place is known."""
        if self._lacks(self._cost_bytes() + MOST_PACKETS_BEFORE * self._wire_bytes, ANSWER_S):
            return Place(reason=self._too_little_left())
        self.say("trace: looking for the routers of the path")
        self.budget.take(MOST_DISCOVERING_PACKETS * self._wire_bytes)
        self.prober.discover()
        if not self.prober.asked():
            return Place(reason="no router of the path answers packets that end there")
        self.say(f"trace: {plural(len(self.prober.asked()), 'hop')} of {self.prober.length} answer")
        self.budget.take(RATE_TEST_PACKETS * len(self.prober.asked()) * self._wire_bytes)
        every_s = self.prober.allowed_every_s()
        turns = 0
        while turns < _MOST_TURNS:
            wait_s = max(every_s, self._draining_s())
            if self._lacks(self._cost_bytes(), 2 * wait_s + ANSWER_S):
                return self._ended_early()
            self._turn(wait_s)
            turns += 1
            if turns == 1 and self._is_slower():
                turns = 0
            if turns >= _FIRST_LOOK and turns % _LOOK_EVERY == 0:
                place = self._judged()
                if place.is_narrow:
                    return place
        self.prober.collect(ANSWER_S)
        return self._judged()

    def _turn(self, wait_s: float) -> None:
        """A burst and a control, in random order."""
        if not self.bursts:
            self.say(f"trace: bursts of {plural(self._packets(), 'packet')}, {size(self._cost_bytes())} each, in turns "
                     "with none")  # fmt: skip
        steps = [self._burst, self._alone]
        self.chance.shuffle(steps)
        for step in steps:
            until_s = time.monotonic() + wait_s
            step()
            self.prober.collect(max(until_s - time.monotonic(), 0.0))

    def _is_slower(self) -> bool:
        """True if this host's bursts must be longer, since it sends them more slowly than those of the measurement.

        Raises:
            EngineError: it sends them no faster than the queue drains.
        """
        sent_bps = self._sent_bps()
        if sent_bps is None or sent_bps >= _AS_FAST * self.line_bps:
            return False
        if sent_bps <= (1 + _LEAST_STEP) * self.drain_bps:
            raise EngineError(
                f"this host sent the bursts of the trace at {rate(sent_bps)}, no faster than the queue drains"
            )
        self.line_bps = sent_bps
        self.filling = self._filling(sent_bps)
        self.bursts = 0
        self.prober.forget()
        return True

    def _sent_bps(self) -> float | None:
        """The rate of the last burst, by the stamps of its first packet and of the last before its tail."""
        stamps = [one.left_ns for one in self.prober.markers() if one.hop == 0]
        if len(stamps) < 2 or stamps[0] is None or stamps[1] is None or stamps[1] <= stamps[0]:
            return None
        return self.found.counted_bytes * (self.filling + 1) * 8e9 / (stamps[1] - stamps[0])

    # The outcome.

    def _judged(self) -> Place:
        hops = [self._hop(number) for number in range(1, self.prober.length + 1)]
        place = dataclasses.replace(judge(hops, self._expected()), bursts=self.bursts, packets=self._packets())
        reason = None
        if self.prober.refusals > max(_FEW_REFUSALS * self.bursts, _MOST_REFUSALS * self.bursts * self.filling):
            reason = "the host answers the packets of the bursts, and answers of routers may be lost on the return path"
        elif self.prober.wanderers > _MOST_WANDERERS * len(self.prober.markers()):
            reason = "packets of one flow take several paths"
        if reason is None:
            return place
        return dataclasses.replace(place, after_hop=None, before_hop=None, evidence=(), reason=reason)

    def _hop(self, number: int) -> Hop:
        def times_s(in_burst: bool) -> tuple[float | None, ...]:
            return tuple(
                None if marker.answered_ns is None else (marker.answered_ns - marker.left_ns) / 1e9
                for marker in self.prober.markers()
                # A packet that did not leave this host was dropped by its own interface.
                if marker.hop == number and marker.in_burst == in_burst and marker.left_ns is not None
            )

        address = self.prober.addresses.get(number)
        return Hop(number, address, number == self.prober.host_hop, times_s(True), times_s(False))

    def _expected(self) -> Expected:
        delay_s = None
        if self.found.kind != "policer" and self.found.limit_bytes is not None:
            delay_s = self.found.limit_bytes.value * 8 / self.drain_bps
        return Expected(1 - self.drain_bps / self.line_bps, delay_s)

    def _ended_early(self) -> Place:
        self.prober.collect(min(ANSWER_S, max(self.budget.left_s, 0.0)))
        place = self._judged()
        if place.hop is not None:
            return place
        short = self._too_little_left()
        return dataclasses.replace(place, reason=short if place.reason is None else f"{place.reason}; {short}")

    def _lacks(self, cost_bytes: float, seconds: float) -> bool:
        return cost_bytes > self.budget.left_bytes or seconds > self.budget.left_s

    def _too_little_left(self) -> str:
        option = "--max-bytes" if self._cost_bytes() > self.budget.left_bytes else "--max-duration"
        each = size(self._cost_bytes())
        return f"the limits allowed {plural(self.bursts, 'burst')} of {each} for the trace (raise {option})"

    # Packets.

    def _filling(self, line_bps: float) -> int:
        """The packets that overflow the queue at the rate of the line."""
        overflowing = self.room_bytes / self.found.counted_bytes / (1 - self.drain_bps / line_bps)
        return math.ceil(_BEYOND * overflowing) + _PACKETS_BEYOND

    def _tail(self) -> int:
        return max(_LEAST_TAIL, _TAIL_FOR_EACH_HOP * len(self.prober.asked()))

    def _packets(self) -> int:
        """The packets of a burst."""
        return self.filling + 2 + self._tail() + _BEHIND_TAIL

    def _cost_bytes(self) -> float:
        """Bytes of a burst and a control."""
        return (self._packets() + len(self.prober.asked())) * self._wire_bytes

    @property
    def _wire_bytes(self) -> int:
        """Bytes of a packet on the wire."""
        return self.found.large_bytes + WIRE_BYTES

    def _draining_s(self) -> float:
        """The time in which a burst is sent and the path becomes idle."""
        return 1.2 * self._packets() * self.found.counted_bytes * 8 / self.drain_bps + _IDLE_S

    def _burst(self) -> None:
        """Fill the queue; one packet for each hop is among the last of the burst."""
        self.budget.take(self._cost_bytes())
        self.bursts += 1
        within_s = 2 * self._draining_s() + 1
        prober = self.prober
        prober.send([prober.marked(0, in_burst=True)], within_s)
        prober.packets.fill(self.filling, time.monotonic() + within_s)
        batch = [prober.marked(0, in_burst=True)]
        hops = prober.asked()
        slots = dict(zip(self.chance.sample(range(self._tail()), len(hops)), hops, strict=True))
        for slot in range(self._tail() + _BEHIND_TAIL):
            hop = slots.get(slot)
            if hop is not None and hop == prober.host_hop:
                prober.send(batch, within_s)
                batch = []
                prober.echo(hop, in_burst=True)
            else:
                batch.append(Packet() if hop is None else prober.marked(hop, in_burst=True))
        prober.send(batch, within_s)

    def _alone(self) -> None:
        """One packet for each hop, each alone on the path."""
        gap_s = max(_CONTROL_GAP_S, 2 * self.found.counted_bytes * 8 / self.drain_bps)
        hops = self.prober.asked()
        self.chance.shuffle(hops)
        for hop in hops:
            self.prober.send_one(hop)
            self.prober.collect(gap_s)
