"""Better and not better, on runs with known values."""

from __future__ import annotations

import numpy as np
import pytest

from whydrop.act.proving import Effect, Proof
from whydrop.recording.statistics.differences import of_groups


def effect(key: str, without: list[float], with_it: list[float]) -> Effect:
    return Effect(key, tuple(without), tuple(with_it), of_groups(np.array(without), np.array(with_it)))


def proof(*effects: Effect) -> Proof:
    return Proof(effects[0].key, effects, (), ())


def test_a_gain_beyond_the_noise_is_kept() -> None:
    assert proof(effect("goodput-up", [10, 11, 10.5], [30, 31, 30])).holds
    assert proof(effect("rtt-median", [90, 95, 99], [12, 11, 12])).holds


def test_a_gain_within_the_noise_is_not() -> None:
    assert not proof(effect("goodput-up", [10, 20, 15], [17, 22, 16])).holds


def test_a_difference_too_small_to_matter_is_no_gain_however_certain() -> None:
    assert not proof(effect("goodput-up", [10, 10.001, 10.002], [10.05, 10.051, 10.052])).holds


@pytest.mark.parametrize(("key", "worse"), [("goodput-up", [8.0, 8.1, 8.0]), ("rtt-median", [160.0, 161.0, 159.0])])
def test_what_costs_too_much_of_another_metric_is_not_kept(key: str, worse: list[float]) -> None:
    before = {"goodput-up": [10.0, 10.1, 10.0], "rtt-median": [100.0, 101.0, 99.0]}[key]
    found = proof(effect("retransmits", [5, 5.2, 5.1], [0, 0.01, 0]), effect(key, before, worse))
    assert not found.holds
    assert [one.key for one in found.costs] == [key]


def test_runs_that_agree_to_the_last_digit_count_by_their_difference() -> None:
    assert proof(effect("goodput-up", [10, 10, 10], [20, 20, 20])).holds
    assert not proof(effect("goodput-up", [10, 10, 10], [10, 10, 10])).holds


def test_a_price_in_goodput_stands_in_the_first_sentence() -> None:
    found = proof(
        effect("rtt-median", [212, 210, 211], [31, 30, 32]),
        effect("goodput-up", [9.10, 9.11, 9.09], [8.74, 8.73, 8.75]),
    )
    assert found.holds
    assert found.sentence() == (
        "It helps: round-trip time under load −85 % (from 211 to 31.0 ms), "
        "at the price of goodput −4.0 % (from 9.10 to 8.74 Mbit/s)."
    )
    assert [one.key for one in found.price] == ["goodput-up"]


def test_what_varies_as_much_as_it_lost_and_little_is_no_price() -> None:
    found = proof(
        effect("rtt-median", [212, 210, 211], [31, 30, 32]), effect("goodput-up", [9.0, 9.2, 9.1], [9.0, 9.1, 9.1])
    )
    assert (found.price, "price" in found.sentence()) == ([], False)


def test_fewer_retransmissions_are_not_worth_a_larger_share_of_the_goodput() -> None:
    goodput = effect("goodput-up", [9.10, 9.11, 9.09], [8.74, 8.73, 8.75])
    bad = proof(effect("retransmits", [0.5, 0.52, 0.51], [0, 0, 0]), goodput)
    good = proof(effect("retransmits", [6.0, 6.1, 6.2], [0, 0, 0]), goodput)
    assert (bad.holds, good.holds) == (False, True)
    assert bad.sentence().startswith("It costs more than it gains: goodput −4.0 %")


def test_what_helps_nothing_says_so_and_what_it_cost() -> None:
    found = proof(
        effect("retransmits", [0.5, 0.52, 0.51], [0.5, 0.51, 0.52]),
        effect("goodput-up", [9.1, 9.1, 9.1], [8.5, 8.5, 8.5]),
    )
    assert not found.holds
    assert found.sentence().startswith("It does not help: retransmitted segments from 0.510 to 0.510 %")
    assert "it costs goodput −6.6 %" in found.sentence()
