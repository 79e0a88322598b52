"""Laws that reduce the window before losses: NV, LP, CDG."""

from __future__ import annotations

import math

from whydrop.explaining.predicting.control.laws.law import INFINITE, JIFFY_NS, Law

_HZ = 1_000_000_000 // JIFFY_NS


class Nv(Law):
    """Brakmo, "TCP-NV", Linux Plumbers 2010: as many segments as the best rate needs at the least RTT, and ten more."""

    name = "nv"

    _PAD = 10
    _PAD_BUFFER = 2

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.may_grow = True
        self.is_reset = False
        self.growth = 0
        self.last_us = 0
        self.least_us = self.next_least_us = INFINITE
        self.switch_ns: int | None = None
        self.best = 0.0
        self.start = 0
        self.calls = 0
        self.rounds = 0
        self.calm = 0

    def _reset(self) -> None:
        self.is_reset = False
        self.calm = self.rounds = self.last_us = self.calls = 0
        self.best = 0.0
        self.start = self.una

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if rtt_ns is None or state != "open" or not flight_bytes:
            return
        rtt_us = rtt_ns // 1000
        if self.last_us:
            mean = (rtt_us + self.last_us) >> 1
        else:
            mean = rtt_us
            self.least_us = mean << 1
        self.last_us = mean
        self.best = max(self.best, flight_bytes * 80_000 / max(1, mean))
        self.calls = min(255, self.calls + 1)
        self.least_us = min(self.least_us, mean)
        self.next_least_us = min(self.next_least_us, mean)
        if self.switch_ns is None:
            self.switch_ns = self.time_ns + 2_000_000_000
        elif self.time_ns >= self.switch_ns:
            self.least_us, self.next_least_us = self.next_least_us, INFINITE
            self.switch_ns = self.time_ns + 5_000_000_000
        if self.start < self.una:
            self.start = self.nxt
            self.rounds = min(255, self.rounds + 1)
            self._decide()

    def _decide(self) -> None:
        most = int(self.best * self.least_us / (80_000 * self.segment_bytes)) + self._PAD
        if self.window > most:
            if not self._is_congested():
                return
            self.may_grow = False
            self.threshold = most
            if self.window - most > 2:
                self.window -= max(2, ((self.window - most) * 38) >> 7)
            else:
                self.window = most
            self.growth = min(self.growth, 0)
            self.calm = 0
        elif self.window <= most - self._PAD_BUFFER:
            if self.calls < 20:
                return
            self.may_grow = True
            self.calm += 1
            if self.growth < 0 and self.calm > 8:
                self.growth += 1
                self.calm = 0
        else:
            return
        self.calls = self.rounds = 0
        self.best = 0.0
        self.window = max(self.window, 2)

    def _is_congested(self) -> bool:
        if self.rounds < 2:
            return False
        if self.threshold == INFINITE:
            return self.calls >= 30
        if self.calls < 60:
            if self.may_grow and self.rounds > 10:
                self.may_grow = False
            return False
        return True

    def grow(self, packets: int) -> None:
        if not self.may_grow:
            return
        packets = self.slow_start(packets)
        if packets:
            self.avoid(packets, self.window << -self.growth if self.growth < 0 else max(4, self.window))

    def reduction(self) -> int:
        return max((self.window * 819) >> 10, 2)

    def reduced(self, state: str) -> None:
        self.is_reset = True
        self.may_grow = False
        if state == "loss":
            self.growth = max(self.growth - 1, -8)

    def opened(self, state: str) -> None:
        if self.is_reset:
            self._reset()


class Lp(Law):
    """Kuzmanovic and Knightly, "TCP-LP", INFOCOM 2003: half, then one segment, as soon as one-way delay rises.

    Linux takes one-way delay from the receiver's timestamps, which begin at a random number, and multiplies it by eight
    in 32 bits. In seven of eight connections that overflows and no reduction comes: then it is Reno. In the others its
    reductions cannot be foreseen from a capture.
    """

    name = "lp"

    _DROP_NATS = 0.7

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.rtt_ns = 0
        self.fell_ns = 0
        self.dropped_ns: int | None = None
        self.is_one = False

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        self.rtt_ns = rtt_ns or self.rtt_ns

    def falling(self) -> None:
        self.fell_ns = self.time_ns

    def observed(self, window: int) -> None:
        # How often Linux goes back to one segment, and so how long it stays there, is not seen.
        if self.is_one:
            self.window = window
            self.is_one = window <= 2

    def grow(self, packets: int) -> None:
        is_still = self.dropped_ns is not None and self.time_ns < self.dropped_ns + 3 * self.rtt_ns
        if not is_still and not self.is_one:
            super().grow(packets)

    def free_drop(self, before: int, after: int) -> float | None:
        # The window may have grown since it was seen.
        is_half = -1 <= after - max(before >> 1, 1) <= 2
        if not is_half and after > 2:
            return None
        self.dropped_ns = self.fell_ns
        self.is_one = after <= 2
        return self._DROP_NATS


class Cdg(Law):
    """Hayes and Armitage, "Revisiting TCP congestion control using delay gradients", IFIP Networking 2011.

    In each round with a positive gradient the window is reduced by chance, the more likely the larger the gradient.
    """

    name = "cdg"

    _FACTOR = 724
    _ROUNDS = 8
    _PER_US = 42e-6
    _MOST_INEFFECTUAL = 5

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.shadow = self.window
        self.end = 0
        self.least_us = self.longest_us = 0
        self.before: tuple[int, int] | None = None
        self.gradients: list[tuple[int, int]] = []
        self.chance = 0.0
        self.reductions = 0
        self.base_us = 0
        self.began_ns = self.last_ns = 0
        self.samples = 0
        self.delayed = 0
        self.chance_before = 0.0

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if rtt_ns is None or rtt_ns <= 0:
            return
        rtt_us = rtt_ns // 1000
        if packets == 1 and self.delayed:
            self.least_us = min(self.least_us, rtt_us)
            self.delayed -= 1
            return
        if packets > 1 and self.delayed < 5:
            self.delayed += 1
        self.least_us = min(self.least_us, rtt_us) if self.least_us else rtt_us
        self.longest_us = max(self.longest_us, rtt_us)

    def grow(self, packets: int) -> None:
        if self.is_slow_start:
            self._hystart()
        if self.una > self.end and self.least_us:
            self._round()
        before = self.window
        super().grow(packets)
        self.shadow += self.window - before

    def correct(self, window: int) -> None:
        self.shadow += window - self.window
        self.window = window

    def _round(self) -> None:
        # The round before ended without a reduction.
        self.surprise += self.chance
        gradient = self._gradient()
        self.chance = gradient * self._PER_US if gradient > 0 and self.reductions < self._MOST_INEFFECTUAL else 0.0
        self.end = self.nxt
        self.before = (self.least_us, self.longest_us)
        self.least_us = self.longest_us = 0
        self.last_ns = 0
        self.samples = 0

    def _gradient(self) -> float:
        if self.before is None:
            return 0.0
        step = (self.least_us - self.before[0], self.longest_us - self.before[1])
        self.gradients = [*self.gradients, step][-self._ROUNDS :]
        least, longest = (sum(step[side] for step in self.gradients) for side in (0, 1))
        if least <= -32 or longest <= -32:
            self.reductions = 0
        gradient = least if least > 0 else longest
        return gradient * self._ROUNDS / len(self.gradients)

    def _hystart(self) -> None:
        if not self.least_us:
            return
        self.base_us = min(self.base_us, self.least_us) if self.base_us else self.least_us
        if not self.last_ns:
            self.last_ns = self.began_ns = self.time_ns
        elif self.time_ns < self.last_ns + 3_000_000:
            self.last_ns = self.time_ns
            if self.time_ns > self.began_ns + max(self.base_us // 2, 125) * 1000:
                self.threshold = self.window
                return
        if self.samples < 8:
            self.samples += 1
        elif self.least_us > max(self.base_us + self.base_us // 8, 125):
            self.threshold = self.window

    def reduction(self) -> int:
        return max(2, min(self.shadow >> 1, self.window), self.window >> 1)

    def reduced(self, state: str) -> None:
        self.chance_before = self.chance
        self.chance = 0.0
        self.shadow = min(self.shadow >> 1, self.window)

    def opened(self, state: str) -> None:
        self.end = self.nxt
        self.before = (self.least_us, self.longest_us) if self.least_us else self.before
        self.least_us = self.longest_us = 0

    def free_drop(self, before: int, after: int) -> float | None:
        if not self._is_own(before, after):
            return None
        self.shadow = max(self.shadow, before)
        self.threshold = after
        self.reductions += 1
        chance, self.chance = self.chance, 0.0
        return _nats(chance)

    def marked_drop(self, before: int, after: int) -> float | None:
        # In the state after a reduction of its own, Linux does not reduce by a mark.
        return _nats(self.chance_before) if self._is_own(before, after) else None

    def _is_own(self, before: int, after: int) -> bool:
        return abs(after - max(2, (before * self._FACTOR) >> 10)) <= max(1, math.ceil(0.03 * before))


def _nats(chance: float) -> float:
    """The cost of an event, from its expected number."""
    return 3.0 if chance <= 0.0 else min(3.0, -math.log(-math.expm1(-chance)))
