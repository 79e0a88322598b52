"""Distributions and exact tests: against SciPy's, over whatever arguments they may get."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from whydrop.recording.statistics import distributions
from whydrop.recording.statistics.distributions import (
    binomial_cdf,
    fisher_greater,
    mann_whitney,
    student_quantile,
    student_tail,
)

FREEDOM = st.floats(0.3, 1e6) | st.integers(1, 60).map(float)
COUNT = st.integers(0, 60)


@given(t=st.floats(-60, 60), freedom=FREEDOM)
def test_the_tail_of_student_is_that_of_scipy(t: float, freedom: float) -> None:
    assert student_tail(t, freedom) == pytest.approx(special.stdtr(freedom, -t), rel=1e-9, abs=1e-290)


@given(probability=st.floats(0.5, 0.9999), freedom=FREEDOM)
def test_the_quantile_of_student_is_that_of_scipy(probability: float, freedom: float) -> None:
    assert student_quantile(probability, freedom) == pytest.approx(
        float(stats.t.ppf(probability, freedom)), rel=1e-8, abs=1e-12
    )


def test_quantiles_of_student_are_those_of_printed_tables() -> None:
    # NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.2.
    for freedom, printed in (
        (1, 12.706),
        (2, 4.303),
        (5, 2.571),
        (10, 2.228),
        (30, 2.042),
        (100, 1.984),
        (1e12, 1.960),
    ):
        assert student_quantile(0.975, freedom) == pytest.approx(printed, abs=5e-4)


@given(successes=st.integers(-1, 320), trials=st.integers(0, 300), chance=st.floats(0, 1))
def test_binomial_probabilities_are_those_of_scipy(successes: int, trials: int, chance: float) -> None:
    expected = float(stats.binom.cdf(successes, trials, chance))
    assert binomial_cdf(successes, trials, chance) == pytest.approx(expected, rel=1e-9, abs=1e-290)


def test_binomial_probabilities_of_many_trials_are_those_of_scipy() -> None:
    for successes in (4_800, 5_000, 5_100):
        expected = float(stats.binom.cdf(successes, 10_000, 0.5))
        assert binomial_cdf(successes, 10_000, 0.5) == pytest.approx(expected, rel=1e-8)


@given(table=st.tuples(COUNT, COUNT, COUNT, COUNT))
def test_fishers_exact_test_is_that_of_scipy(table: tuple[int, int, int, int]) -> None:
    a, b, c, d = table
    expected = stats.fisher_exact([[a, b], [c, d]], alternative="greater").pvalue
    assert fisher_greater((a, b), (c, d)) == pytest.approx(expected, rel=1e-9)


@given(
    first=st.lists(st.integers(0, 30), min_size=3, max_size=14),
    second=st.lists(st.integers(0, 30), min_size=3, max_size=14),
    apart=st.booleans(),
)
def test_the_rank_test_is_that_of_scipy(first: list[int], second: list[int], apart: bool) -> None:
    # Without ties where they are apart: by then the distribution is counted for few values.
    one, other = np.array(first, dtype=float), np.array(second, dtype=float)
    if apart:
        steps = np.arange(len(one) + len(other)) / 1000
        one, other = one + steps[: len(one)], other + steps[len(one) :]
    expected = float(stats.mannwhitneyu(one, other, alternative="two-sided").pvalue)
    # Values that are all the same differ in no rank; SciPy divides by zero.
    assert mann_whitney(one, other) == pytest.approx(1.0 if np.isnan(expected) else expected, rel=1e-9)


def test_the_counted_orders_are_all_orders() -> None:
    assert distributions._rank_counts(2, 3) == [1, 1, 2, 2, 2, 1, 1]
    assert sum(distributions._rank_counts(8, 30)) == special.comb(38, 8, exact=True)
