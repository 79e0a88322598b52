"""The place of the queue from the answers of each hop: behind bursts that fill the queue, against without a burst.

A packet with a time to live that ends at hop n passes the queues at the egress of hops 0 to n - 1. Behind a burst,
packets that end ahead of the queue are answered as without it; those that end behind it share its losses and its delay.
A router that limits its answers does so without a burst too. Answers that a busy router omits do not move the queue: a
hop further on that answers as without a burst shows that the queue is behind that hop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from whydrop.measure.depth.tracing.place import Evidence, Finding, Hop, Place
from whydrop.recording.statistics.distributions import binomial_cdf, fisher_greater

# By chance alone, a hop is found to be behind the queue less often than this, and ahead of it less often than that.
_CHANCE_BEHIND = 0.0005
_CHANCE_AHEAD = 0.005
# Of the loss and the delay of the queue: less than this share is not its loss; of its delay, less than a quarter is not
# it, more than half is, and twice as much is another's.
_OF_LOSS = 0.5
_LITTLE_DELAY, _MUCH_DELAY, _TOO_MUCH_DELAY = 0.25, 0.5, 1.75
# A second step of the delay on the path that is larger is another queue's.
_SECOND_STEP = 0.25
_FEWEST_ANSWERS = 8
# A router that answers fewer of the packets without a burst limits its answers, or others use them up.
_LIMITED = 0.7


@dataclass(frozen=True)
class Expected:
    """The effect of the full queue on a packet.

    Attributes:
        loss: the share that it drops of a burst.
        delay_s: the delay of the packets that it does not drop; ``None``: none, or unknown.
    """

    loss: float
    delay_s: float | None


def judge(hops: Sequence[Hop], expected: Expected) -> Place:
    """The place of the queue, and the finding on each hop."""
    judged = [_judged(one, expected) for one in hops]
    ahead = max((one.hop for one in judged if one.finding == "ahead"), default=0)
    behind = [one for one in judged if one.finding == "behind" and one.hop > ahead]
    place = Place(hops=tuple(judged))
    if not behind:
        return dataclasses.replace(place, after_hop=ahead or None, reason=_none_behind(judged, ahead))
    if len(behind) == 1 and behind[0].is_host and not _is_delayed(behind[0], expected):
        # Packets for the host may use up its own limit on answers: it would omit them, but not delay them.
        alone = "only the host lacks answers, and it may limit them itself"
        return dataclasses.replace(place, after_hop=ahead or None, reason=alone)
    if len(behind) == 1 and not behind[0].is_host:
        alone = f"only {behind[0]} lacks answers or delays them, and none beyond it answers: its router may do so"
        return dataclasses.replace(place, reason=alone)
    evidence = _evidence(judged, behind, ahead)
    if "loss" not in evidence and (reason := _several_steps(behind)):
        return dataclasses.replace(place, reason=reason)
    before = behind[0].hop
    between = [one for one in judged if ahead < one.hop < before]
    missing = _why_not(between) if between or before > ahead + 1 else None
    return dataclasses.replace(place, after_hop=ahead, before_hop=before, evidence=evidence, reason=missing)


def _evidence(judged: Sequence[Hop], behind: Sequence[Hop], ahead: int) -> tuple[Evidence, ...]:
    """The evidence that both sides of the queue share."""
    sides = [one for one in judged if one.hop == ahead] + [behind[0]]
    kinds: tuple[Evidence, ...] = ("loss", "delay")
    shared = tuple(kind for kind in kinds if all(kind in one.evidence for one in sides))
    return shared or behind[0].evidence


def _several_steps(behind: Sequence[Hop]) -> str | None:
    """The complaint if the delay grows at more than one place."""
    added = [one for one in (_added_s(hop) for hop in behind) if one is not None]
    if len(added) > 1 and max(added) - min(added) > _SECOND_STEP * max(added):
        return "the delay grows at several hops, and too few packets are lost to show which of their queues drops them"
    return None


def _added_s(hop: Hop) -> float | None:
    loaded, alone = hop.delay_in_bursts_s(), hop.delay_alone_s()
    return None if loaded is None or alone is None else loaded - alone


def _judged(hop: Hop, expected: Expected) -> Hop:
    if not any(one is not None for one in (*hop.in_bursts_s, *hop.alone_s)):
        return dataclasses.replace(hop, finding="silent")
    loss, delay = by_loss(hop, expected.loss), by_delay(hop, expected.delay_s)
    if loss == "behind" and _is_delayed(hop, expected) is False:
        # Answers are missing, but those that come did not wait in a full queue.
        loss = "unclear"
    # Losses are what is looked for. The delay decides where they are too few, and supports them where they are not.
    finding = loss if loss != "unclear" else delay
    kinds: tuple[tuple[Evidence, Finding], ...] = (("loss", loss), ("delay", delay))
    evidence = tuple(kind for kind, found in kinds if found == finding != "unclear")
    return dataclasses.replace(hop, finding=finding, evidence=evidence)


def _is_delayed(hop: Hop, expected: Expected) -> bool | None:
    """True if answers behind bursts have the delay of the full queue; ``None`` if no answer shows it."""
    added_s = _added_s(hop)
    if expected.delay_s is None or added_s is None:
        return None
    return added_s >= _LITTLE_DELAY * expected.delay_s


def by_loss(hop: Hop, expected: float) -> Finding:
    """The side of the queue on which a hop is, by its lost answers."""
    lost, sent = hop.lost_in_bursts, len(hop.in_bursts_s)
    lost_alone, sent_alone = hop.lost_alone, len(hop.alone_s)
    if not sent or not sent_alone or lost_alone == sent_alone:
        return "unclear"
    answered_alone = 1 - lost_alone / sent_alone
    # A packet behind the queue is answered if it passes, and if the router answers.
    least = 1 - (1 - _OF_LOSS * expected) * answered_alone
    is_fewer = binomial_cdf(lost, sent, least) < _CHANCE_AHEAD
    if fisher_greater((lost, sent - lost), (lost_alone, sent_alone - lost_alone)) < _CHANCE_BEHIND:
        return "unclear" if is_fewer else "behind"
    return "ahead" if is_fewer and not _is_limited(hop) else "unclear"


def by_delay(hop: Hop, expected_s: float | None) -> Finding:
    """The side of the queue on which a hop is, by the delay of its answers."""
    loaded = sorted(one for one in hop.in_bursts_s if one is not None)
    alone = [one for one in hop.alone_s if one is not None]
    if expected_s is None or not expected_s > 0 or len(loaded) < _FEWEST_ANSWERS or len(alone) < _FEWEST_ANSWERS:
        return "unclear"
    first = _rank_of_median_bound(len(loaded))
    low_s, high_s = (loaded[place] - median(alone) for place in (first, -1 - first))
    if high_s < _LITTLE_DELAY * expected_s:
        return "ahead"
    is_much = low_s > _MUCH_DELAY * expected_s and high_s < _TOO_MUCH_DELAY * expected_s
    # The delay without a burst must not reach so far, or the router itself is that slow.
    return "behind" if is_much and max(alone) - median(alone) < low_s else "unclear"


def _rank_of_median_bound(samples: int) -> int:
    """The rank, from 0, of a sample that is below the median but for a small chance."""
    rank = 0
    while binomial_cdf(rank + 1, samples, 0.5) < _CHANCE_AHEAD:
        rank += 1
    return rank


def _is_limited(hop: Hop) -> bool:
    return bool(hop.alone_s) and 1 - hop.lost_alone / len(hop.alone_s) < _LIMITED


def _none_behind(judged: Sequence[Hop], ahead: int) -> str:
    """The reason where no hop was found behind the queue."""
    answering = [one for one in judged if one.finding != "silent"]
    if not answering:
        return "no router of the path answers packets that end there"
    if ahead and ahead == max(one.hop for one in answering):
        last = next(one for one in judged if one.hop == ahead)
        if last.is_host:
            return "these bursts did not fill it: the host answered as without them"
        return f"it is beyond {last}, and neither routers there nor the host answer"
    reason = _why_not([one for one in answering if one.hop > ahead])
    return f"it is beyond hop {ahead}, but {reason}" if ahead else reason


def _why_not(unclear: Sequence[Hop]) -> str:
    """The reason why hops could not be judged."""
    limited = [one.hop for one in unclear if one.finding == "unclear" and _is_limited(one)]
    silent = [one.hop for one in unclear if one.finding == "silent"]
    rest = [one.hop for one in unclear if one.finding == "unclear" and one.hop not in limited]
    said = []
    if limited:
        said.append(f"{_numbered(limited)} limits its answers" if len(limited) == 1 else f"{_numbered(limited)} limit "
                    "their answers")  # fmt: skip
    if silent or not unclear:
        said.append(
            f"{_numbered(silent)} does not answer" if len(silent) == 1 else f"{_numbered(silent)} do not answer"
        )
    if rest:
        said.append(f"the answers of {_numbered(rest)} show too small a difference")
    return " and ".join(said)


def _numbered(hops: Sequence[int]) -> str:
    if len(hops) == 1:
        return f"hop {hops[0]}"
    return f"hops {', '.join(map(str, hops[:-1]))} and {hops[-1]}" if hops else "hops between"
