"""Which bursts are sent: never more than the caps, and no burst without a use."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.measure.depth.result import Depth, depth, sentences
from whydrop.measure.depth.rounds import SESSION_BYTES, Budget, Caps, Round
from whydrop.measure.depth.searching import CountingSearch, Search, Seen, is_narrow

LINE_BPS = 100e6


def told(**changed: Any) -> dict[str, Any]:
    """The result of bursts that met nothing, but for what is ``changed``."""
    nothing = {
        "packets": 200, "lost": 0, "marked": 0, "line_rate_bps": LINE_BPS, "drain_rate_bps": None, "burst_bytes": None,
        "bucket": None,
        "longest_wait_s": 0.0, "most_packets": 1.0, "most_bytes": 1500.0, "lost_found_packets": None,
        "passed_with_more": 0, "limit": None, "byte_basis": None, "verdict": None,
    }  # fmt: skip
    drain = changed.get("drain_rate_bps")
    return {**nothing, "arrival_rate_bps": drain and drain["value"], **changed}


def around(value: float, share: float = 0.001) -> dict[str, float]:
    return {"value": value, "low": value * (1 - share), "high": value * (1 + share)}


def full(limited_by: str | None, packets: float = 45.0, rate_share: float = 0.001) -> dict[str, Any]:
    limit = {
        "limited_by": limited_by, "certainty": 0.99, "bytes": around(packets * 1500),
        "packets": {"value": packets, "low": packets - 1, "high": packets + 1},
    }  # fmt: skip
    verdict = {"cause": "aqm", "confidence": 0.9, "parameters": {}, "byte_basis": None}
    return told(lost=100, limit=limit, drain_rate_bps=around(50e6, rate_share), byte_basis="ethernet", verdict=verdict)


@given(
    max_bytes=st.floats(1e5, 1e10),
    max_time_s=st.floats(0.1, 1000.0),
    rate_bps=st.floats(1e5, 1e10),
    queue=st.integers(1, 10_000),
)
def test_no_search_spends_more_bytes_or_time_than_there_are(
    max_bytes: float, max_time_s: float, rate_bps: float, queue: int
) -> None:
    """Of a queue that takes whatever it takes: what was lost is what does not fit."""
    now = [0.0]
    budget = Budget(Caps(max_bytes, max_time_s), now=lambda: now[0])
    search = Search(1500)
    upcoming: Round | None = search.first()
    spent = 0
    while upcoming is not None and budget.affords(upcoming):
        budget.spend(upcoming)
        spent += upcoming.cost_bytes
        now[0] += upcoming.cost_s
        seen = search.seen.setdefault(upcoming.ip_bytes, Seen())
        seen.longest = max(seen.longest, upcoming.packets)
        if upcoming.packets > 2 * queue:
            seen.lost += upcoming.packets // 2 - queue // 2
            seen.first_lost = 2 * queue
        found = told(line_rate_bps=2 * rate_bps, drain_rate_bps=around(rate_bps, 0.1))
        upcoming = search.next(depth(found, 1500), found, budget)
    assert spent <= max_bytes
    assert now[0] <= max_time_s


@given(
    max_bytes=st.floats(1e5, 1e10),
    max_time_s=st.floats(0.1, 1000.0),
    rate_bps=st.floats(1e5, 1e10),
    step=st.floats(1.0, 100.0),
    queue=st.integers(1, 10_000),
)
def test_trains_that_are_only_counted_stay_within_the_caps_too(
    max_bytes: float, max_time_s: float, rate_bps: float, step: float, queue: int
) -> None:
    now = [0.0]
    budget = Budget(Caps(max_bytes, max_time_s), now=lambda: now[0])
    search = CountingSearch(1500)
    upcoming: Round | None = search.first()
    spent = rounds = 0
    while upcoming is not None and budget.affords(upcoming):
        budget.spend(upcoming)
        spent += upcoming.cost_bytes
        now[0] += upcoming.cost_s
        rounds += 1
        bits = 8 * upcoming.ip_bytes
        sending_s = upcoming.packets * bits / min(upcoming.rate_bps or math.inf, step * rate_bps)
        received = min(upcoming.packets, queue + int(rate_bps * sending_s / bits))
        search.note(upcoming, received, sending_s, sending_s + queue * bits / rate_bps)
        found = told(drain_rate_bps=around(rate_bps) if search.paced else None)
        upcoming = search.next(depth(found, 1500), found, budget)
    assert spent <= max_bytes
    assert now[0] <= max_time_s
    assert rounds < 40


def test_a_line_that_delayed_trains_makes_the_search_start_again_below_its_rate() -> None:
    budget = Budget(Caps(), now=lambda: 0.0)
    search = Search(1500, 400e6, first_packets=368, first_bursts=1)
    search.seen[1500] = Seen(lost=60, first_lost=90, longest=368)
    search.slow_down(38e6)
    found = full(None)
    again = search.next(depth(found, 1500), found, budget)
    assert again is not None
    assert (again.packets, again.rate_bps) == (368, 38e6)


def test_what_does_not_fit_is_not_sent() -> None:
    budget = Budget(Caps(max_bytes=SESSION_BYTES + 1e5), now=lambda: 0.0)
    with pytest.raises(ValueError, match="does not fit"):
        budget.spend(Round(1500, 100, 1, 0.1))
    assert budget.left_bytes == SESSION_BYTES + 1e5


def test_bursts_grow_until_packets_are_lost_then_both_sizes_overflow_the_queue() -> None:
    budget = Budget(Caps(), now=lambda: 0.0)
    search = Search(1500)
    search.seen[1500] = Seen(lost=0, longest=50)
    longer = search.next(depth(told(), 1500), told(), budget)
    assert longer is not None
    assert (longer.packets, longer.ip_bytes) == (200, 1500)
    search.seen[1500] = Seen(lost=60, first_lost=90, longest=200)
    found = full(None)
    rounds = [search.next(depth(found, 1500), found, budget) for _ in range(2)]
    assert {one.ip_bytes for one in rounds if one} == {375, 1500}
    by_bytes = {one.ip_bytes: one.packets * one.ip_bytes for one in rounds if one}
    assert by_bytes[375] == by_bytes[1500] > 90 * 1500
    # Both have been sent, and all is known.
    enough = full("packets")
    assert search.next(depth(enough, 1500), enough, budget) is None


def test_a_burst_at_a_rate_between_those_of_line_and_queue_is_long_enough_to_overflow_it() -> None:
    search = Search(1500)
    search.seen[1500] = Seen(lost=60, first_lost=90, longest=200)
    found = full(None)
    budget = Budget(Caps(), now=lambda: 0.0)
    rounds = [search.next(depth(found, 1500), found, budget) for _ in range(4)]
    stepped = [one for one in rounds if one is not None and one.rate_bps is not None]
    assert stepped
    for one in stepped:
        assert 50e6 < one.rate_bps < LINE_BPS
        assert one.packets * (1 - 50e6 / one.rate_bps) >= 90 * (1 - 50e6 / LINE_BPS)


@pytest.mark.parametrize(
    ("found", "enough"),
    [
        (full("packets"), True),
        (full("bytes"), True),
        (full(None), False),
        (full("packets", rate_share=0.05), False),
        (told(), False),
    ],
)
def test_the_search_ends_where_intervals_are_narrow(found: dict[str, Any], enough: bool) -> None:
    assert is_narrow(depth(found, 1500)) is enough


def said(found: dict[str, Any]) -> str:
    return " ".join(sentences(depth(found, 1500)))


def test_the_answer_stands_first_in_words_and_numbers() -> None:
    in_packets = said(full("packets"))
    assert in_packets.startswith("A queue of 45 packets (44 to 46 packets) that drains at 50.")
    assert "Its limit counts packets" in in_packets
    assert "Its limit counts bytes" in said(full("bytes"))
    assert "do not show whether its limit counts packets or bytes" in said(full(None))
    never_full = said(told(drain_rate_bps=around(1e7), most_packets=312.0))
    assert "never full: it holds more than 312 packets" in never_full
    assert said(told()).startswith("No queue and no policer")
    assert "marked" in said(told(marked=12, drain_rate_bps=around(1e7)))


def test_kinds_follow_the_evidence_and_a_policer_has_its_own_numbers() -> None:
    policed = {
        "cause": "policer", "confidence": 0.97, "byte_basis": "ip",
        "parameters": {"rate_bps": around(1e7), "burst_bytes": around(51_200)},
    }  # fmt: skip

    def kind(found: dict[str, Any]) -> str:
        return depth(found, 1500).kind

    bucket = {"rate_bps": around(1.001e7, 0.01), "burst_bytes": around(51_500, 0.03)}
    found: Depth = depth(told(lost=50, verdict=policed, bucket=bucket), 1500)
    assert (found.kind, found.burst_bytes and found.burst_bytes.value) == ("policer", 51_200)
    # Where the fit of all fates follows something else, the packets before the first losses decide.
    other_bucket = {**bucket, "burst_bytes": around(20_000, 0.03)}
    other_found = depth(told(lost=50, verdict=policed, bucket=other_bucket), 1500)
    assert other_found.burst_bytes is not None
    assert other_found.burst_bytes.value == 20_000
    assert found.limit_packets is None
    other = {**policed, "parameters": {}}
    assert kind(told(lost=5, verdict={**other, "cause": "random-loss"})) == "none"
    managed = {**other, "cause": "aqm"}
    assert kind(told(lost=50, verdict=managed, passed_with_more=25)) == "managed-queue"
    assert kind(told(lost=50, verdict=managed, passed_with_more=24)) == "unknown"
    assert kind(told(lost=5, verdict={**other, "cause": "unknown"})) == "unknown"
    # Next to nothing passed behind the first losses: the fit of a rate to that is none.
    assert kind(told(lost=50, verdict=policed)) == "unknown"
    assert kind(told(marked=5, drain_rate_bps=around(1e7))) == "managed-queue"
    # What no mark slows down fills a managed queue too: it drops then, at its limit.
    filled = depth({**full("packets"), "marked": 5}, 1500)
    assert filled.kind == "managed-queue"
    assert " ".join(sentences(filled)).startswith("A managed queue of 45 packets (44 to 46 packets) that drains")
    assert kind(told(drain_rate_bps=around(1e7), burst_bytes=around(20_000))) == "shaper"


def test_short_queues_are_sent_to_at_twice_the_rate_at_which_packets_came_so_that_every_second_passes() -> None:
    search = Search(1500)
    search.seen[1500] = Seen(lost=180, first_lost=3, longest=50)
    found = {**full(None, packets=3.0), "line_rate_bps": 2.5e9, "arrival_rate_bps": 5e6}
    budget = Budget(Caps(), now=lambda: 0.0)
    rounds = [search.next(depth(found, 1500), found, budget) for _ in range(4)]
    stepped = [one for one in rounds if one is not None and one.rate_bps is not None]
    assert {(one.ip_bytes, one.rate_bps) for one in stepped} == {(375, 1e7), (1500, 1e7)}
    assert all(one.packets >= 256 for one in stepped)
