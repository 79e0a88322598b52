"""Signs of BBR, which sets its rate by a model of the path and not by losses (Cardwell et al., "BBR", ACM Queue 14(5)).

- *Gain cycle*: of eight round trips one sends at 1.25 times the rate of the bottleneck, the next at 0.75 times, and the
  others at that rate.
- *ProbeRTT*: after ten seconds without a shorter round-trip time, four segments are in flight for 200 ms and a round
  trip; then the former flight returns at once.
- *Long-term rate*: where losses show a policer, it keeps the rate that passes for 48 round trips. Then it tries more,
  and after losses keeps the same rate again.
- *Pacing*: it sends by a timer, and all others of Linux in answer to acknowledgments, unless the host paces them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from whydrop.explaining.predicting.control.observed import Ack, Sender

# Both signs, or so many cycles, in a row of eight round trips.
_LEAST_CYCLES = 4
_LEAST_CYCLES_WITH_PROBE = 1
_CYCLE_ROUNDS = (7.0, 10.0)
_REGULAR = 0.4
# Rate in a pulse and after it, as a part of the rate of the round trips around them.
_UP, _DOWN = 1.12, 0.88
_FLAT = 0.12
_STEPS = 4
_AROUND_ROUNDS = 5
# A reduction so soon after a pulse is the reason of the low rate, unless the sender is paced.
_REDUCED_ROUNDS = 3.0
# Segments in a round trip that show a gain.
_LEAST_SEGMENTS = 8
# Senders that have so many in fewer than one of so many round trips show none.
_MOST_IDLE = 4
# Without pacing, this share of the data is sent within a part of the time between acknowledgments.
_CLOCKED_SHARE = 0.7
_CLOCKED_PARTS = 4

# Round trips of a kept rate: the first and the last of the 48 are not whole, and each may be longer than the shortest
# one. How far their rates are apart, how far one kept rate is from the next, and what the sender tries between the two.
_KEPT_ROUNDS = 40
_MOST_KEPT_ROUNDS = 60
_KEPT_SEGMENTS = 1.5
_MOST_ROUNDS = 20_000
_KEPT_SHARE = 0.1
_SAME_SHARE = 1 / 16
_TRIED = 1.15

_PROBE_SEGMENTS = 5
_LEAST_PROBE_NS = 180_000_000
_MOST_PROBE_NS = 1_500_000_000
_LEAST_SENT = 3
_BUSY_SEGMENTS = 10
# The flight before a probe, and how much of it returns within so many round trips.
_BEFORE_ACKS = 200
_RETURNED = 0.5
_RETURN_ROUNDS = 2


def is_bbr(seen: Sender) -> bool:
    """True if the sender has the gain cycle of BBR, its ProbeRTT and pacing or some of the cycle, or long-term rates.

    Where BBR believes in a policer it has no cycle for 48 round trips.
    """
    cycles = count_cycles(seen)
    if cycles >= _LEAST_CYCLES:
        return True
    if not is_paced(seen):
        return cycles >= _LEAST_CYCLES_WITH_PROBE and bool(probes(seen))
    return bool(probes(seen)) or keeps_rate(seen)


def has_gain_cycle(seen: Sender) -> bool:
    """True if the sender has the gain cycle for some time: an application that sends at a rate has none."""
    return count_cycles(seen) >= _LEAST_CYCLES


def count_cycles(seen: Sender) -> int:
    """The number of pulses that are followed by another one after eight round trips; 0 if most pulses are not."""
    rounds = [ack.rtt_ns for ack in seen.acks if ack.rtt_ns]
    if not rounds or not seen.sends:
        return 0
    pulses = _pulses(seen, float(min(rounds)))
    gaps = np.diff(pulses)
    cycles = int(np.count_nonzero((gaps >= _CYCLE_ROUNDS[0]) & (gaps <= _CYCLE_ROUNDS[1])))
    return cycles if cycles >= _REGULAR * len(gaps) else 0


def _pulses(seen: Sender, rtt_ns: float) -> np.ndarray[Any, Any]:
    """The times of pulses, in round trips; without pacing not those before reductions, as regular losses cause."""
    times = np.array([time_ns for time_ns, _ in seen.sends], dtype=float)
    rounds = (times[-1] - times[0]) / rtt_ns
    # Of a capture at the receiver these are no round trips of the path, and too many.
    if rounds < 2 * _AROUND_ROUNDS or rounds * _LEAST_SEGMENTS > _MOST_IDLE * len(times):
        return np.array([])
    step_ns = rtt_ns / _STEPS
    counts, _ = np.histogram(times, np.arange(times[0], times[-1] + step_ns, step_ns))
    sent = np.convolve(counts, np.ones(_STEPS), "valid")
    around = _AROUND_ROUNDS * _STEPS
    losses = [] if is_paced(seen) else [ack for ack in seen.acks if _is_loss(ack)]
    reductions = np.array([(ack.time_ns - times[0]) / rtt_ns for ack in losses])
    found: list[float] = []
    at = around
    while at < len(sent) - around:
        base = float(np.median(sent[at - around : at + around]))
        if base >= _LEAST_SEGMENTS and _is_pulse(sent[at - around : at + around] / base, around):
            after = reductions - at / _STEPS
            if not np.any((after >= 0) & (after <= _REDUCED_ROUNDS)):
                found.append(at / _STEPS)
            at += 2 * _STEPS
        else:
            at += 1
    return np.array(found)


def is_paced(seen: Sender) -> bool:
    """True if data are sent at any time between two acknowledgments."""
    acks = np.array([ack.time_ns for ack in seen.acks])
    times = np.array([time_ns for time_ns, _ in seen.sends])
    times = times[(times >= acks[0]) & (times <= acks[-1])]
    if len(acks) < _LEAST_SEGMENTS or len(times) < _LEAST_SEGMENTS:
        return False
    since = np.sort(times - acks[np.searchsorted(acks, times, side="right") - 1])
    part_ns = float(np.median(np.diff(acks))) / _CLOCKED_PARTS
    most = np.max(np.searchsorted(since, since + part_ns, side="right") - np.arange(len(since)))
    return bool(most < _CLOCKED_SHARE * len(since))


def keeps_rate(seen: Sender) -> bool:
    """True if the sender keeps one rate for long, tries more until data are lost, and keeps the same rate again."""
    rtt_ns = min((ack.rtt_ns for ack in seen.acks if ack.rtt_ns), default=0)
    if not rtt_ns or not seen.sends:
        return False
    times = np.array([time_ns for time_ns, _ in seen.sends])
    rounds = (times - times[0]) // rtt_ns
    # Shortest round trips far below those of most packets are not of the path.
    if rounds[-1] > _MOST_ROUNDS:
        return False
    counts = np.bincount(rounds)
    losses = {int(ack.time_ns - times[0]) // rtt_ns for ack in seen.acks if _is_loss(ack)}
    for (first, end, rate), (begin, _, again) in pairwise(_kept(counts)):
        if end - first > _MOST_KEPT_ROUNDS or abs(rate - again) > _SAME_SHARE * rate:
            continue
        if max(counts[end:begin], default=0) >= _TRIED * rate and any(end <= loss <= begin for loss in losses):
            return True
    return False


def _kept(counts: np.ndarray[Any, Any]) -> list[tuple[int, int, float]]:
    """First round trip, end and segments in a round trip of each rate that is kept."""
    found: list[tuple[int, int, float]] = []
    at = 0
    while at + _KEPT_ROUNDS <= len(counts):
        rate = float(np.median(counts[at : at + _KEPT_ROUNDS]))
        length = _kept_rounds(counts[at : at + _KEPT_ROUNDS], rate)
        if rate >= _LEAST_SEGMENTS and length == _KEPT_ROUNDS:
            length = _kept_rounds(counts[at:], rate)
            found.append((at, at + length, rate))
            at += length
        else:
            at += 1
    return found


def _kept_rounds(counts: np.ndarray[Any, Any], rate: float) -> int:
    """For how many round trips a rate is kept from the first on."""
    is_apart = np.abs(counts - rate) > max(_KEPT_SEGMENTS, _KEPT_SHARE * rate)
    return int(np.argmax(is_apart)) if is_apart.any() else len(is_apart)


def _is_loss(ack: Ack) -> bool:
    # BBR ignores marks, so they do not explain its rates.
    return ack.begins and ack.state != "cwr"


def _is_pulse(rates: np.ndarray[Any, Any], at: int) -> bool:
    """True if the rate is high at ``at``, low soon after, and flat in the round trips before and after both."""
    if rates[at] < _UP or rates[at] < rates[at - 1 : at + 2].max():
        return False
    if rates[at + 1 : at + 2 * _STEPS + 2].min() > _DOWN:
        return False
    before, after = rates[at - 4 * _STEPS : at - _STEPS], rates[at + 3 * _STEPS :]
    return float(np.quantile(np.abs(np.concatenate([before, after]) - 1), 0.75)) < _FLAT


def probes(seen: Sender) -> list[tuple[int, int]]:
    """Begin and end of each ProbeRTT, in nanoseconds."""
    found: list[tuple[int, int]] = []
    flights = [(ack.nxt - ack.una) / seen.segment_bytes for ack in seen.acks]
    begin: int | None = None
    for at, ack in enumerate(seen.acks):
        if flights[at] <= _PROBE_SEGMENTS and ack.state != "loss":
            begin = at if begin is None else begin
        elif begin is not None:
            if _is_probe(seen, flights, begin, at):
                found.append((seen.acks[begin].time_ns, ack.time_ns))
            begin = None
    return found


def _is_probe(seen: Sender, flights: list[float], begin: int, end: int) -> bool:
    """True if a low flight is a ProbeRTT by its length, its segments and the flights before and after it."""
    acks = seen.acks
    end_ns = acks[end].time_ns
    if not _LEAST_PROBE_NS <= end_ns - acks[begin].time_ns <= _MOST_PROBE_NS:
        return False
    before = max(flights[max(0, begin - _BEFORE_ACKS) : begin], default=0.0)
    if before < _BUSY_SEGMENTS or sum(ack.sent for ack in acks[begin + 1 : end]) < _LEAST_SENT:
        return False
    until_ns = end_ns + _RETURN_ROUNDS * min((ack.rtt_ns for ack in acks if ack.rtt_ns), default=0)
    last = next((at for at in range(end, len(acks)) if acks[at].time_ns > until_ns), len(acks))
    return max(flights[end:last]) >= _RETURNED * before
