"""The hop of the queue from the answers of routers: the right hop, a range of hops or ``unknown``; no false one."""

from __future__ import annotations

import dataclasses
import random

import pytest

from depth.test_result import result
from whydrop.measure.depth.result import Depth, sentences
from whydrop.measure.depth.tracing.judging import Expected, judge
from whydrop.measure.depth.tracing.place import Hop, Place
from whydrop.measure.depth.tracing.turns import without_packets

STEEP = Expected(loss=0.9, delay_s=0.015)
FLAT = Expected(loss=0.05, delay_s=0.015)
Times = tuple[float | None, ...]


def hop(number: int, in_bursts: Times, alone: Times = (0.001,) * 12, *, is_host: bool = False) -> Hop:
    return Hop(number, f"10.0.0.{number}", is_host, in_bursts, alone)


AS_EVER: Times = (0.0011,) * 12
LOST: Times = (None,) * 11 + (0.016,)
DELAYED: Times = (0.016,) * 12
SILENT: Times = (None,) * 12


def path(*in_bursts: Times) -> list[Hop]:
    """Routers that answer without a burst, and the host at the end."""
    return [hop(number, times, is_host=number == len(in_bursts)) for number, times in enumerate(in_bursts, 1)]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(("expected", "behind", "evidence"), [(STEEP, LOST, "loss"), (FLAT, DELAYED, "delay")])
def test_the_queue_is_at_the_egress_of_the_last_hop_that_answers_as_without_a_burst(
    place: int, expected: Expected, behind: Times, evidence: str
) -> None:
    found = judge(path(*[AS_EVER] * place, *[behind] * (5 - place)), expected)
    assert (found.hop, found.after_hop, found.before_hop) == (place, place, place + 1)
    assert evidence in found.evidence
    assert found.reason is None


def test_a_silent_router_at_the_queue_leaves_two_places() -> None:
    hops = path(AS_EVER, AS_EVER, LOST, LOST, LOST)
    hops[2] = hop(3, SILENT, SILENT)
    found = judge(hops, STEEP)
    assert (found.hop, found.after_hop, found.before_hop) == (None, 2, 4)
    assert found.sentences()[0] == (
        "The queue is between hop 2 (10.0.0.2) and hop 4 (10.0.0.4): 2 possible places, as hop 3 does not answer."
    )


def test_routers_that_are_all_silent_leave_the_place_unknown() -> None:
    found = judge([hop(number, SILENT, SILENT) for number in range(1, 5)], STEEP)
    assert (found.hop, found.after_hop, found.before_hop) == (None, None, None)
    assert "no router of the path answers" in found.sentences()[0]


def test_a_router_that_omits_answers_behind_bursts_is_no_queue_where_hops_beyond_it_answer() -> None:
    found = judge(path(AS_EVER, LOST, AS_EVER, AS_EVER, LOST), STEEP)
    assert found.hop == 4


def test_a_host_that_omits_answers_without_delaying_any_may_limit_them_itself() -> None:
    for times in (SILENT, (None,) * 10 + (0.0011,) * 2):
        found = judge(path(AS_EVER, AS_EVER, AS_EVER, AS_EVER, times), STEEP)
        assert (found.hop, found.before_hop) == (None, None)
    found = judge(path(AS_EVER, AS_EVER, AS_EVER, AS_EVER, SILENT), STEEP)
    assert found.reason is not None
    assert "may limit them itself" in found.reason
    # Of a policer there is no delay to support it.
    assert judge(path(AS_EVER, AS_EVER, AS_EVER, AS_EVER, LOST), Expected(0.9, None)).hop is None
    assert judge(path(AS_EVER, AS_EVER, AS_EVER, LOST, LOST), Expected(0.9, None)).hop == 3


def test_one_router_alone_without_answers_shows_nothing() -> None:
    hops = [hop(1, AS_EVER), hop(2, LOST), hop(3, SILENT, SILENT)]
    found = judge(hops, STEEP)
    assert (found.after_hop, found.before_hop) == (None, None)
    assert found.reason is not None
    assert "only hop 2" in found.reason


def test_answers_that_are_limited_with_and_without_a_burst_show_nothing() -> None:
    half: Times = (None, 0.001) * 6
    found = judge([hop(number, half, half) for number in range(1, 5)], STEEP)
    assert found.hop is None
    assert found.reason is not None
    assert "limit their answers" in found.reason


def test_a_delay_that_grows_at_two_hops_does_not_say_which_queue_drops() -> None:
    slower: Times = (0.009,) * 12
    found = judge(path(AS_EVER, slower, slower, DELAYED, DELAYED), FLAT)
    assert found.hop is None


def test_a_long_queue_ahead_that_only_delays_is_not_the_one_that_drops() -> None:
    both: Times = (None,) * 11 + (0.03,)
    found = judge(path(AS_EVER, DELAYED, DELAYED, both, both), STEEP)
    assert found.hop == 3


def test_without_answers_beyond_the_last_router_it_is_said_how_far_the_queue_is_at_least() -> None:
    found = judge([hop(1, AS_EVER), hop(2, AS_EVER)], STEEP)
    assert (found.hop, found.after_hop, found.before_hop) == (None, 2, None)
    assert "it is beyond hop 2 (10.0.0.2)" in found.sentences()[0]


def test_chance_and_limits_of_routers_give_a_false_hop_in_less_than_one_of_a_hundred_traces() -> None:
    """Routers that answer a random share of the packets, with any delay of their own up to a fifth of the queue's."""
    false = [seed for seed in range(400) if not _is_true(random.Random(seed))]
    assert len(false) < 4, false


def _is_true(chance: random.Random) -> bool:
    """True if what a trace of a drawn path says of the queue's place is true, or nothing."""
    place, loss = chance.randint(0, 5), chance.choice([0.03, 0.09, 0.3, 0.5, 0.9])
    answering, with_delay = chance.uniform(0.05, 1.0), chance.random() < 0.5
    shares = [chance.choice([1.0, answering, 0.0]) for _ in range(5)] + [1.0]

    def times(number: int, in_burst: bool) -> Times:
        behind = in_burst and number > place
        return tuple(
            None
            if chance.random() > shares[number - 1] or (behind and chance.random() < loss)
            else 0.001 + chance.uniform(0, 0.003) + 0.015 * behind
            for _ in range(20)
        )

    hops = [hop(n, times(n, True), times(n, False), is_host=n == 6) for n in range(1, 7)]
    found = judge(hops, Expected(loss, 0.015 if with_delay else None))
    after_is_true = found.after_hop is None or found.after_hop <= place
    before_is_true = found.before_hop is None or found.before_hop > place
    return found.hop in (None, place) and after_is_true and before_is_true


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (result("none"), "no queue and no policer"),
        (result("unknown"), "neither a queue nor a policer"),
        (result(lost=0), "did not fill it"),
        (result(line_bit_s=None), "are not known"),
        (result(line_bit_s=9.9e9), "hardly faster than the queue"),
    ],
)
def test_where_packets_can_show_nothing_none_are_sent(found: Depth, said: str) -> None:
    place = without_packets(found)
    assert place is not None
    assert place.reason is not None
    assert said in place.reason


def test_a_queue_of_this_host_needs_no_packets() -> None:
    place = without_packets(dataclasses.replace(result(), at_sender=True))
    assert place is not None
    assert place.hop == 0
    assert place.sentences() == ["The queue is at hop 0: this host's own interface."]


def test_a_recording_keeps_the_place_with_every_answer() -> None:
    place = dataclasses.replace(judge(path(AS_EVER, AS_EVER, LOST, LOST, LOST), STEEP), bursts=12, packets=700)
    found = dataclasses.replace(result(), trace=place)
    assert Depth.of_document(found.document()) == found
    assert found.document()["trace"]["hop"] == 2
    said = " ".join(sentences(found)).replace("\N{NO-BREAK SPACE}", " ")
    assert "between hop 2 (10.0.0.2) and hop 3 (10.0.0.3): at the egress of hop 2, or in a switch behind it." in said
    assert "11 of 12 at hop 3 and 0 of 12 at hop 2; 0 without a burst." in said
    with pytest.raises(ValueError, match="queue's depth"):
        Depth.of_document({**found.document(), "trace": {**place.document(), "hops": [{"hop": -1}]}})
    assert Place.of_document(place.document()) == place
