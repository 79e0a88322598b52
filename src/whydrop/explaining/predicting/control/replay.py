"""Replay of a law over the acknowledgments of a flow, and its distance from the observed windows.

The law sees each acknowledgment as the sender did. Every few round trips its window is compared with the observed one
and set to it; the same at each reduction. So errors do not accumulate, and each comparison is a test of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from whydrop.explaining.predicting.control.laws.law import Law
from whydrop.explaining.predicting.control.observed import Ack, Sender

# Rounds between comparisons, in congestion avoidance.
_ROUNDS = 4
# Growth in one round that only slow start has.
_SLOW_START = 1.3
# Standard deviation of an observed window: a part in segments and a part of its size.
_DEVIATION = 0.8
_SHARE = 0.02
_SHARE_SLOW_START = 0.1
# The most that one comparison counts, in nats: the capture may miss a packet, or the sender was limited.
_MOST = 6.0
# One standard deviation costs half a nat.
_NEAR = 1.0
# Segments by which a window grows in a round after a reduction without loss, and the share of reductions that may
# come back faster.
_GROWTH = 2
_MOST_REGAINED = 0.2
# A fall of the window by more than this within one round is a reduction.
_LEAST_FALL = 3
_LEAST_FALL_SHARE = 0.08


@dataclass
class Fall:
    """A reduction of the window in the open state: with neither loss nor timeout.

    Attributes:
        first: position of the acknowledgment at which it begins.
        last: position of the first acknowledgment with the reduced window.
        before: window before it.
        after: window after it.
        is_sudden: true if the sender was silent until the flight had fallen to the reduced window.
    """

    first: int
    last: int
    before: int
    after: int
    is_sudden: bool


@dataclass
class Fit:
    """Distance of a law from the observed windows.

    Attributes:
        name: the law.
        growth: cost of each comparison between reductions, in nats.
        reductions: cost of each reduction.
        falls: cost of each reduction without loss.
        surprise: cost of chance in the law: of reductions that came, and of those that did not.
        chances: reductions without loss that the law explains by chance.
    """

    name: str
    growth: list[float] = field(default_factory=list)
    reductions: list[float] = field(default_factory=list)
    falls: list[float] = field(default_factory=list)
    surprise: float = 0.0
    chances: int = 0

    @property
    def cost(self) -> float:
        """Total cost in nats."""
        return sum(self.costs) + self.surprise

    @property
    def costs(self) -> list[float]:
        """Cost of each comparison: those of growth, of reductions, and of reductions without loss."""
        return [*self.growth, *self.reductions, *self.falls]

    @property
    def near(self) -> float:
        """Part of the comparisons in which the law is near the observed window."""
        return sum(cost <= _NEAR for cost in self.costs) / max(1, self.count)

    @property
    def count(self) -> int:
        """Number of comparisons."""
        return len(self.costs)


def falls(acks: list[Ack]) -> list[Fall]:
    """The reductions in the open state."""
    found: list[Fall] = []
    at = 0
    while at < len(acks):
        fall = _fall(acks, at) if acks[at].window is not None else None
        if fall:
            found.append(fall)
            at = fall.last
        else:
            at += 1
    return found


def _fall(acks: list[Ack], first: int) -> Fall | None:
    """The fall that begins at an acknowledgment; ``None`` if the window does not fall from there."""
    before = acks[first].window
    assert before is not None
    least, last, silent = before, first, 0
    end = acks[first].nxt
    quiet = 0
    for at in range(first + 1, len(acks)):
        ack = acks[at]
        if ack.state != "open":
            break
        if ack.window is None:
            quiet += 1
            continue
        silent = max(silent, quiet)
        quiet = 0
        if ack.window > least or (ack.window == least and ack.una > end):
            break
        if ack.window < least:
            least, last = ack.window, at
            end = ack.nxt
        if ack.una > end:
            break
    if before - least < max(_LEAST_FALL, _LEAST_FALL_SHARE * before):
        return None
    return Fall(first, last, before, least, silent >= 0.7 * (before - least))


def is_steady(sender: Sender, reductions: list[Fall]) -> bool:
    """True if few reductions are regained faster than a window grows: those are bursts or jitter of the flight."""
    rtt_ns = min((ack.rtt_ns for ack in sender.acks if ack.rtt_ns), default=0)
    regained = 0
    for fall, after in pairwise(reductions):
        rounds = (sender.acks[after.first].time_ns - sender.acks[fall.last].time_ns) / max(1, rtt_ns)
        regained += after.before - fall.after > _GROWTH * (rounds + 1)
    return regained <= _MOST_REGAINED * len(reductions)


def replay(sender: Sender, law: Law, reductions: list[Fall]) -> Fit:
    """Run a law over a flow."""
    return _Replay(sender, law, reductions).run()


class _Replay:
    def __init__(self, sender: Sender, law: Law, reductions: list[Fall]) -> None:
        self.acks = sender.acks
        self.law = law
        self.fit = Fit(law.name)
        self.falls = {fall.first: fall for fall in reductions}
        self.seen: int | None = None
        self.expected = 0
        self.pending: tuple[int, int, str] | None = None
        self.has_timeout = False
        self.round_end = -1
        self.round_window = 0
        self.rounds = 0
        self.fall: Fall | None = None
        self.own_fall = 0

    def run(self) -> Fit:
        state = "open"
        for at, ack in enumerate(self.acks):
            law = self.law
            law.time_ns, law.una, law.nxt = ack.time_ns, ack.una, ack.nxt
            law.delivered(ack.delivered, ack.is_echo)
            before = law.window
            law.acked(ack.packets, ack.rtt_ns, ack.flight_bytes, state)
            if ack.state != "open":
                if ack.begins and self.pending is not None and ack.state != "loss":
                    self._open()
                if ack.begins or self.pending is None:
                    self._reduce(ack.state)
            else:
                if state != "open":
                    self._open()
                self._advance(at, ack, before)
            state = ack.state
        self.fit.surprise += self.law.surprise
        return self.fit

    def _reduce(self, state: str) -> None:
        law = self.law
        self.fall = None
        if self.seen is not None and self.pending is None:
            if self.rounds:
                self.fit.growth.append(_cost(self.expected - self.seen, self.seen, _SHARE))
            law.correct(self.seen)
        self.has_timeout = state == "loss" or (self.pending is not None and self.has_timeout)
        after = law.marked_reduction() if state == "cwr" else law.reduction()
        law.reduced(state)
        self.pending = (law.window, after, state)
        law.count = 0
        law.window = law.threshold = after

    def _open(self) -> None:
        assert self.pending is not None
        before, after, state = self.pending
        if self.law.name == "westwood" and state != "loss":
            after = self.law.window = self.law.reduction()
        self.pending = (before, after, state)
        self.law.opened(state)

    def _advance(self, at: int, ack: Ack, before: int) -> None:
        law = self.law
        if self.fall is None and at in self.falls and self.pending is None:
            self.fall = self.falls[at]
            self.own_fall = before
        if self.fall is not None:
            if at == self.fall.first + 1:
                law.falling()
            if at < self.fall.last:
                if law.name in ("vegas", "yeah", "nv") and ack.packets:
                    law.grow(ack.packets)
                return
            self._fallen(self.fall)
            self.fall = None
            return
        # Linux grows by what arrived, at acknowledgments that advance.
        packets = -(-ack.delivered // law.segment_bytes) if ack.packets else 0
        if self.pending is not None:
            # Not while the flight falls to the reduced window.
            if ack.sent:
                law.grow(packets)
            if ack.window is not None:
                self._settled(ack)
            return
        if packets:
            law.grow(packets)
        if ack.window is not None:
            self._compare(ack)

    def _settled(self, ack: Ack) -> None:
        assert self.pending is not None
        assert ack.window is not None
        before, after, state = self.pending
        law = self.law
        if not self.has_timeout and self.seen is not None:
            cost = _cost(law.window - ack.window, ack.window, _SHARE)
            own = law.marked_drop(before, ack.window) if state == "cwr" else None
            if own is not None and own < cost:
                self.fit.surprise += own
                self.fit.chances += 1
                cost = 0.0
            self.fit.reductions.append(cost)
        law.window = ack.window
        law.threshold = max(after, 2) if state == "loss" else ack.window
        law.count = 0
        self.pending = None
        self._anchor(ack)

    def _fallen(self, fall: Fall) -> None:
        law = self.law
        cost = _cost(law.window - fall.after, fall.after, _SHARE)
        own = law.free_drop(fall.before, fall.after)
        if own is not None and own < cost:
            self.fit.surprise += own
            self.fit.chances += 1
            cost = 0.0
            law.opened("cwr")
        self.fit.falls.append(cost)
        law.window = fall.after
        if not law.is_slow_start or law.threshold > fall.after:
            law.threshold = min(law.threshold, max(2, fall.after)) if law.name != "lp" else law.threshold
        self.seen = fall.after
        self._anchor(self.acks[fall.last])

    def _anchor(self, ack: Ack) -> None:
        if ack.window is not None:
            self.seen = self.round_window = ack.window
        self.round_end = ack.nxt
        self.rounds = 0

    def _compare(self, ack: Ack) -> None:
        law = self.law
        assert ack.window is not None
        if self.seen is None:
            law.window = ack.window
            self._anchor(ack)
            return
        law.observed(ack.window)
        self.seen, self.expected = ack.window, law.window
        if ack.una <= self.round_end:
            return
        self.round_end = ack.nxt
        self.rounds += 1
        is_fast = ack.window > _SLOW_START * self.round_window
        self.round_window = ack.window
        if self.rounds < _ROUNDS and not is_fast:
            return
        self.rounds = 0
        share = _SHARE_SLOW_START if is_fast else _SHARE
        self.fit.growth.append(_cost(law.window - ack.window, ack.window, share))
        if abs(law.window - ack.window) > 1:
            law.correct(ack.window)


def _cost(error: float, window: int, share: float) -> float:
    deviation = _DEVIATION + share * window
    return float(min(_MOST, error * error / (2 * deviation * deviation)))
