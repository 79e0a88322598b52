"""Mixed models by REML against published results, and medians of a few runs with intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest

from whydrop.recording.statistics.medians import median
from whydrop.studies.queues.mixed import reml

# Strength of chemical paste: ten deliveries, three casks of each, two tests of each cask. O. L. Davies and P. L.
# Goldsmith, "Statistical Methods in Research and Production" (1972); data set Pastes of lme4.
PASTES = """
62.8 62.6 60.1 62.3 62.7 63.1 60.0 61.4 57.5 56.9 61.1 58.9 58.7 57.5 63.9 63.1 65.4 63.7 57.1 56.4 56.9 58.6 64.7 64.5
55.1 55.1 54.7 54.2 58.8 57.5 63.4 64.9 59.3 58.1 60.5 60.0 62.5 62.6 61.0 58.7 56.9 57.7 59.2 59.4 65.2 66.0 64.8 64.1
54.8 54.8 64.0 64.0 57.7 56.8 58.3 59.3 59.2 59.2 58.9 56.6
"""
# Travel times of ultrasonic waves in six rails. J. C. Pinheiro and D. M. Bates, "Mixed-Effects Models in S and S-PLUS"
# (2000), section 1.1.
RAILS = ((55, 53, 54), (26, 37, 32), (78, 91, 85), (92, 100, 96), (49, 51, 50), (80, 85, 83))


def test_the_model_of_pastes_is_that_of_lme4():
    y = np.array(PASTES.split(), dtype=float)
    found = reml(y, np.ones((60, 1)), np.repeat(np.arange(10), 6), np.repeat(np.arange(30), 2))
    assert found is not None
    # D. M. Bates, "lme4: Mixed-effects modeling with R" (2010), section 2.2.
    assert (found.blocks, found.strata, found.residual) == pytest.approx((2.9041, 1.2874, 0.8234), abs=5e-4)
    assert found.criterion == pytest.approx(246.99, abs=0.01)
    assert found.effects[0] == pytest.approx(60.0533, abs=1e-3)
    assert np.sqrt(found.covariance[0, 0]) == pytest.approx(0.6769, abs=1e-3)


def test_the_model_of_rails_is_that_of_pinheiro_and_bates():
    y = np.array(RAILS, dtype=float).ravel()
    rails = np.repeat(np.arange(6), 3)
    found = reml(y, np.ones((18, 1)), rails, rails)
    assert found is not None
    # Of one grouping both intercepts are one.
    assert np.hypot(found.strata, found.blocks) == pytest.approx(24.805, abs=1e-3)
    assert (found.residual, found.effects[0]) == pytest.approx((4.0208, 66.5), abs=1e-3)


def test_in_balanced_blocks_it_is_the_analysis_of_variance():
    noise = np.random.default_rng(4)
    blocks, treatments = 12, 4
    table = noise.normal(size=(blocks, treatments)) + 3 * noise.normal(size=(blocks, 1)) + np.arange(treatments)
    x = np.tile(np.eye(treatments), (blocks, 1))
    x[:, 0] = 1.0
    found = reml(table.ravel(), x, np.repeat(np.arange(blocks), treatments), np.repeat(np.arange(blocks), treatments))
    assert found is not None
    centred = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    within = (centred**2).sum() / ((blocks - 1) * (treatments - 1))
    between = treatments * table.mean(axis=1).var(ddof=1)
    assert found.residual**2 == pytest.approx(within, rel=1e-4)
    assert found.strata**2 + found.blocks**2 == pytest.approx((between - within) / treatments, rel=1e-3)
    assert found.effects[1] == pytest.approx((table[:, 1] - table[:, 0]).mean())
    assert found.covariance[1, 1] == pytest.approx(2 * within / blocks, rel=1e-4)
    assert found.freedom == (blocks - 1) * (treatments - 1)


@pytest.mark.slow
def test_intervals_of_effects_hold_the_truth_where_values_are_missing():
    from scipy import stats

    noise = np.random.default_rng(6)
    inside = 0
    for _ in range(150):
        strata = np.repeat(np.arange(4), 12)
        blocks = np.repeat(np.arange(16), 3)
        treatment = np.tile(np.arange(3), 16)
        y = 0.3 * treatment + noise.normal(size=4)[strata] + 0.5 * noise.normal(size=16)[blocks]
        y = y + 0.2 * noise.normal(size=48)
        kept = noise.random(48) > 0.15
        x = np.eye(3)[treatment[kept]]
        x[:, 0] = 1.0
        found = reml(y[kept], x, strata[kept], blocks[kept])
        assert found is not None
        half = stats.t.ppf(0.975, found.freedom) * np.sqrt(found.covariance[1, 1])
        inside += abs(found.effects[1] - 0.3) <= half
    # 95 % of 150, less three standard deviations.
    assert inside >= 134


@pytest.mark.parametrize(
    "y", [np.array([1.0, 2.0, 3.0, 4.0]), np.ones(8)], ids=["a value for each effect", "no spread"]
)
def test_what_the_values_do_not_determine_has_no_model(y):
    x = np.tile(np.eye(2), (len(y) // 2, 1)) if len(y) > 4 else np.eye(4)
    groups = np.arange(len(y)) // 2
    assert reml(y, x, groups, groups) is None


@pytest.mark.parametrize(("count", "method"), [(2, "unknown"), (4, "Student's t"), (6, "order statistics")])
def test_the_interval_of_a_median_has_a_method_for_each_number_of_runs(count: int, method: str) -> None:
    found = median(np.arange(count, dtype=float))
    assert found.method.startswith(method)
    assert np.isnan(found.low) == (method == "unknown")


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5, 6, 9, 20])
def test_intervals_of_medians_hold_the_truth_as_often_as_they_say(count):
    noise = np.random.default_rng(8)
    found = [median(noise.normal(size=count)) for _ in range(2000)]
    assert np.mean([one.low <= 0.0 <= one.high for one in found]) > 0.935


def test_a_bound_below_the_middle_makes_the_median_a_bound():
    values, bounds = np.array([1.0, 2.0, 3.0]), np.array([True, False, False])
    found = median(values, bounds)
    assert (found.value, found.censored) == (2.0, True)
    assert not median(values, np.array([False, False, True])).censored


def test_intervals_stay_within_what_is_possible():
    found = median(np.array([0.9, 0.99, 0.999]), least=0.0, most=1.0)
    assert found.high == 1.0


def test_values_that_vary_by_factors_have_an_interval_of_factors():
    values = np.array([30.0, 65.0, 130.0])
    plain, of_factors = median(values), median(values, floor=0.1)
    assert plain.low < 0
    logarithms = np.log(values)
    half = 4.302652730 * logarithms.std(ddof=1) / np.sqrt(3)
    assert of_factors.low == pytest.approx(np.exp(logarithms.mean() - half))
    assert of_factors.high == pytest.approx(np.exp(logarithms.mean() + half))
    assert of_factors.method == "Student's t of logarithms"


def test_the_interval_of_a_median_below_the_floor_is_about_the_values_themselves():
    found = median(np.array([-0.3, -0.2, -0.25, -0.28]), floor=0.1)
    assert found.low < found.value < found.high < 0
    assert found.method == "Student's t"
