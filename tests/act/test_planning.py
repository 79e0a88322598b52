"""From the measured bottleneck to rate, burst and the words for the operator."""

from __future__ import annotations

import json

import pytest

from plain_text import plain
from whydrop.act.planning import (
    Bottleneck,
    Estimate,
    NoPlanError,
    for_the_other_side,
    from_depth,
    from_verdict,
    pace_for,
)


def test_a_depth_measurement_gives_a_rate_below_it_and_a_burst_that_the_queue_takes() -> None:
    told = {
        "kind": "queue",
        "rate_bit_s": {"value": 100e6, "low": 99e6, "high": 101e6},
        "limit_packets": {"value": 45, "low": 44, "high": 46},
        "limit_bytes": None,
        "burst_bytes": None,
    }
    found = from_depth(json.dumps(told), "depth.json")
    pace = pace_for(found)
    assert (found.kind, found.holds_bytes) == ("queue", 45 * 1514)
    assert pace.rate_bps == pytest.approx(97e6)
    assert pace.burst_bytes == 1600


def test_a_rate_that_is_known_too_little_is_to_be_searched_for() -> None:
    assert Bottleneck("policer", Estimate(10e6, 4e6, 12e6)).is_uncertain
    assert Bottleneck("policer", Estimate(10e6, 9.9e6, None)).is_uncertain
    assert not Bottleneck("policer", Estimate(10e6, 9.8e6, 10.2e6)).is_uncertain
    assert not Bottleneck("policer", Estimate(10e6)).is_uncertain


def test_a_small_bucket_bounds_the_burst() -> None:
    pace = pace_for(Bottleneck("policer", Estimate(10e9, 9.6e9, 10.2e9), Estimate(9000.0)))
    assert (pace.rate_bps, pace.burst_bytes) == (9.6e9, 4500)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "none"}', '{"kind": "queue", "rate_bit_s": true}', "{" * 9999]
)
def test_what_is_no_depth_measurement_is_refused_with_the_name_of_the_file(text: str) -> None:
    with pytest.raises(NoPlanError, match=r"x\.json"):
        from_depth(text, "x.json")


def test_verdicts_that_name_a_rate_are_plans_and_others_are_none() -> None:
    parameters = {"rate_bps": {"value": 20e6, "low": 19e6, "high": None}, "burst_bytes": {"value": 50e3}}
    policer = from_verdict({"cause": "policer", "parameters": parameters, "sentence": "A policer."})
    assert policer is not None
    assert (policer.kind, policer.rate_bps, policer.holds_bytes) == ("policer", Estimate(20e6, 19e6, None), 50e3)
    assert from_verdict({"cause": "random-loss", "parameters": parameters, "sentence": ""}) is None
    assert from_verdict({"cause": "policer", "parameters": {}, "sentence": ""}) is None


def test_the_words_for_the_other_side_have_the_numbers_that_it_must_configure() -> None:
    rate, rtt_s = Estimate(20e6), 0.040
    policer = plain(for_the_other_side(Bottleneck("policer", rate, Estimate(50e3)), rtt_s))
    assert all(words in policer for words in ("20.0 Mbit/s", "CBS", "384 kB"))
    shallow = plain(for_the_other_side(Bottleneck("queue", rate, limit_packets=Estimate(45.0)), rtt_s))
    # 20 Mbit/s * 40 ms = 100 kB; 45 packets of 1514 bytes are 68.1 kB.
    assert all(words in shallow for words in ("100 kB", "31.9 kB"))
    deep = plain(for_the_other_side(Bottleneck("queue", rate, limit_bytes=Estimate(1e6)), rtt_s))
    assert all(words in deep for words in ("400 ms", "RFC 8290"))


def test_a_search_alone_names_neither_queue_nor_policer_as_the_culprit() -> None:
    words = plain(for_the_other_side(Bottleneck("unknown", Estimate(10e6)), 0.120))
    assert all(part in words for part in ("If it is a queue", "if it is a policer", "150 kB", "10.0 Mbit/s"))
