"""``whydrop depth --trace`` in chains of four routers: the hop of the queue is found, or it is unknown."""

from __future__ import annotations

import dataclasses

import pytest

from lab import Lab
from lab.traced import Chain, drawn, traced, verdict

pytestmark = [pytest.mark.slow, pytest.mark.needs_kernel("htb", "pfifo", "bfifo")]

CAPS = ("--max-duration", "120s", "--max-bytes", "400MB")
STEEP = Chain("steep", 3, "pfifo limit 45", 10.0, 100.0, ("free",) * 4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(24))
def test_no_drawn_chain_has_a_false_hop(lab: Lab, seed: int) -> None:
    chain = drawn(seed)
    assert verdict(chain, traced(lab, chain, *CAPS)) != "WRONG"


def test_the_hop_of_a_short_queue_is_found_and_said(lab: Lab) -> None:
    found = traced(lab, STEEP, *CAPS)
    assert verdict(STEEP, found) == "right", found["trace"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", range(5))
def test_a_queue_is_found_at_each_place_of_a_chain_with_the_limits_of_linux(lab: Lab, place: int) -> None:
    chain = dataclasses.replace(STEEP, place=place, line_mbit=100.0 if place else 10.0, answers=("limited",) * 4)
    found = traced(lab, chain, *CAPS)
    assert verdict(chain, found) == "right", found["trace"]


def test_silent_routers_leave_the_hop_unknown(lab: Lab) -> None:
    chain = dataclasses.replace(STEEP, answers=("silent",) * 4)
    place = traced(lab, chain, *CAPS)["trace"]
    assert place["hop"] is None
    assert place["reason"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("deep_at", [1, 2])
def test_a_long_queue_ahead_of_the_short_one_is_not_named(lab: Lab, deep_at: int) -> None:
    chain = dataclasses.replace(STEEP, deep_at=deep_at, place=3, queue="pfifo limit 20")
    assert verdict(chain, traced(lab, chain, *CAPS)) != "WRONG"
