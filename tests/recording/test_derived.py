"""Columns derived from TCP's counters, row to row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.recording import derived


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=50), st.integers(0, 2**32 - 1))
def test_growth_of_a_counter_of_32_bits_survives_its_wraps(steps: list[int], first: int) -> None:
    exact = first + np.cumsum([0, *steps])
    grown = derived.growth((exact % 2**32).astype(float))
    assert np.isnan(grown[0])
    assert grown[1:].tolist() == steps


@given(st.lists(st.integers(0, 10**15), min_size=2, max_size=50).map(sorted))
def test_growth_of_a_counter_of_64_bits_is_its_difference(totals: list[int]) -> None:
    assert derived.growth(np.array(totals, dtype=float))[1:].tolist() == np.diff(totals).tolist()


def test_growth_is_unknown_where_a_counter_restarted() -> None:
    assert np.isnan(derived.growth(np.array([1000.0, 7.0]))[1])


@given(
    st.floats(1e3, 1e9),
    st.lists(st.floats(0.001, 0.5), min_size=3, max_size=40),
    st.floats(0.0, 0.3),
)
def test_the_rate_of_steady_growth_is_that_growth_over_any_span(rate: float, gaps: list[float], span_s: float) -> None:
    times = np.cumsum(gaps)
    found = derived.rates_per_s(times, rate * times, np.full(times.shape, span_s))
    known = ~np.isnan(found)
    assert found[known] == pytest.approx(rate, rel=1e-6)
    # Known from the first sample on that has another one a span before it.
    assert known.tolist() == [
        number > 0 and time - times[0] >= span_s - 1e-9 for number, time in enumerate(times.tolist())
    ]


def test_a_rate_reaches_back_a_round_trip_and_not_only_one_sample() -> None:
    # All acknowledgments of a round trip of 40 ms come in its last 10 ms.
    times = np.arange(0.0, 1.0, 0.01)
    totals = np.floor(np.round(times / 0.04, 6)) * 40_000.0
    rates = derived.rates_per_s(times, totals, np.full(times.shape, 0.04))
    assert rates[4:] == pytest.approx(1e6)
    assert derived.rates_per_s(times, totals, np.zeros(times.shape))[1:].max() == pytest.approx(4e6)


def test_no_rate_spans_a_counters_new_beginning() -> None:
    times = np.arange(6.0)
    rates = derived.rates_per_s(times, np.array([0.0, 10.0, 20.0, 3.0, 13.0, 23.0]), np.full(6, 2.0))
    assert np.isnan(rates).tolist() == [True, True, False, True, True, False]
