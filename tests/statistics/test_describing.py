"""Single sets of values, against numpy and by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.recording.statistics.describing import describe, jain
from whydrop.recording.statistics.differences import cliffs_delta, hedges_g


def test_values_that_are_missing_do_not_count() -> None:
    found = describe([None, 1.0, float("nan"), 3.0])
    assert found is not None
    assert (found.count, found.mean, found.minimum, found.maximum, found.mean_span) == (2, 2.0, 1.0, 3.0, 1.0)
    assert describe([None, float("nan")]) is None


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_a_description_keeps_its_numbers_in_order(values: list[float]) -> None:
    found = describe(values)
    assert found is not None
    ordered = [found.minimum, found.p5, found.p25, found.median, found.p75, found.p95, found.p99, found.maximum]
    assert all(low <= high + 1e-6 * abs(high) for low, high in pairwise(ordered))


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=50))
def test_fairness_is_between_one_share_and_all(shares: list[float]) -> None:
    index = jain(shares)
    assert index is not None
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


def test_fairness_of_an_example_by_hand() -> None:
    # (1 + 2 + 3)^2 / (3 * (1 + 4 + 9)) = 36 / 42
    assert jain([1.0, 2.0, 3.0]) == pytest.approx(36 / 42)
    assert jain([]) is None


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.lists(st.integers(0, 20), min_size=1, max_size=30))
def test_cliffs_delta_is_what_counting_all_pairs_says(first: list[int], second: list[int]) -> None:
    counted = sum((b > a) - (b < a) for a in first for b in second) / (len(first) * len(second))
    found = cliffs_delta(np.array(first, dtype=float), np.array(second, dtype=float))
    assert found == pytest.approx(counted)


def test_hedges_g_of_an_example_by_hand() -> None:
    # Means 2 and 4, both variances 1: pooled deviation 1, correction 1 - 3 / 15.
    assert hedges_g(np.array([1.0, 2.0, 3.0]), np.array([3.0, 4.0, 5.0])) == pytest.approx(2 * (1 - 3 / 15))
