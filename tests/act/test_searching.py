"""The search for a pacing rate, on paths with known goodput."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whydrop.act.searching import MOST_MEASUREMENTS, Tried, search

Path = Callable[[float], float]


def shallow(carries_bps: float, collapsed_bps: float) -> Path:
    """Above what it carries, losses bring the flow down; the more the further above."""

    def goodput(rate_bps: float) -> float:
        if rate_bps <= carries_bps:
            return rate_bps
        return max(collapsed_bps, carries_bps * (carries_bps / rate_bps) ** 4)

    return goodput


def full(carries_bps: float) -> Path:
    """A deep queue: what is too much waits, and goodput stays."""
    return lambda rate_bps: min(rate_bps, carries_bps)


def measured(path: Path, noise: float, seed: int) -> Callable[[float], Tried]:
    """Other traffic takes up to a share of the goodput; nothing adds to it."""
    order = random.Random(seed)

    def measure(rate_bps: float) -> Tried:
        goodput = path(rate_bps) * (1 - noise * order.random() ** 2)
        return Tried(rate_bps, goodput, 0.0 if goodput >= 0.97 * rate_bps else 0.01)

    return measure


@given(
    carries=st.floats(1e6, 9e9),
    collapsed=st.floats(0.002, 0.9),
    noise=st.floats(0, 0.03),
    seed=st.integers(0, 1000),
)
@settings(max_examples=300, deadline=None)
def test_it_reaches_nineteen_twentieths_of_the_best_in_at_most_fifteen_measurements(
    carries: float, collapsed: float, noise: float, seed: int
) -> None:
    path = shallow(carries, carries * collapsed)
    found = search(measured(path, noise, seed), 10e9, seed)
    assert len(found.tried) <= MOST_MEASUREMENTS
    assert found.best is not None
    assert path(found.best.rate_bps) >= 0.95 * carries * (1 - noise)


@given(carries=st.floats(1e6, 9e9), seed=st.integers(0, 100))
@settings(max_examples=50, deadline=None)
def test_a_path_that_pacing_cannot_help_yields_no_more_than_unpaced(carries: float, seed: int) -> None:
    found = search(measured(full(carries), 0.02, seed), 10e9, seed)
    assert found.best is not None
    assert found.best.goodput_bps == pytest.approx(found.unpaced.goodput_bps, rel=0.07)


def test_one_disturbed_measurement_does_not_cost_half_of_the_range() -> None:
    path, disturbed = shallow(1e9, 1e7), [3]

    def measure(rate_bps: float) -> Tried:
        disturbed[0] -= 1
        goodput = path(rate_bps) * (0.9 if disturbed[0] == 0 else 1.0)
        return Tried(rate_bps, goodput, math.nan)

    found = search(measure, 4e9, 1)
    assert found.best is not None
    assert path(found.best.rate_bps) >= 0.95e9


def test_of_rates_that_bring_as_much_the_one_with_less_loss_is_taken() -> None:
    def measure(rate_bps: float) -> Tried:
        return Tried(rate_bps, shallow(1e8, 1e6)(rate_bps), 0.002 if rate_bps > 0.985e8 else 0.0)

    found = search(measure, 1e9, 1)
    assert found.best is not None
    assert (found.best.retransmitted, found.best.goodput_bps > 0.95e8) == (0.0, True)
