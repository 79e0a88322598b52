"""Intervals and error rates: against scipy, against theory, and by simulation of runs that do not differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal, stats

from whydrop.recording.statistics import differences, resampling
from whydrop.recording.statistics.differences import (
    hodges_lehmann,
    holm,
    mean_of,
    of_single_runs,
    quantile_of,
    resampled,
    welch,
)


def autoregression(n: int, rho: float, random: np.random.Generator) -> np.ndarray:
    """A stationary AR(1) series."""
    warm = 500
    return np.asarray(signal.lfilter([1.0], [1.0, -rho], random.standard_normal(n + warm))[warm:])


def test_block_length_is_near_what_theory_says_of_an_autoregression() -> None:
    # b = ((G / g(0))^2 n)^(1/3), with G / g(0) = 2 rho / (1 - rho^2) for AR(1).
    random = np.random.default_rng(7)
    for rho, n in ((0.5, 5000), (0.8, 5000)):
        theory = ((2 * rho / (1 - rho**2)) ** 2 * n) ** (1 / 3)
        lengths = [resampling.block_length(autoregression(n, rho, random)) for _ in range(40)]
        assert np.median(lengths) == pytest.approx(theory, rel=0.25)


def test_block_length_is_what_the_formulas_say_when_written_out() -> None:
    values = autoregression(400, 0.7, np.random.default_rng(3))
    n, centred = len(values), values - values.mean()
    covariance = [float((centred[lag:] * centred[: n - lag]).sum() / n) for lag in range(60)]
    band = 2 * math.sqrt(math.log10(n) / n)
    run = max(5, math.ceil(math.sqrt(math.log10(n))))
    last = next(
        lag for lag in range(40) if all(abs(covariance[lag + k] / covariance[0]) < band for k in range(1, run + 1))
    )
    window = 2 * max(1, last)

    def flat_top(share: float) -> float:
        return 1.0 if abs(share) <= 0.5 else max(0.0, 2 * (1 - abs(share)))

    slope = sum(flat_top(k / window) * abs(k) * covariance[abs(k)] for k in range(-window, window + 1))
    spectrum = sum(flat_top(k / window) * covariance[abs(k)] for k in range(-window, window + 1))
    expected = (2 * slope**2 / (2 * spectrum**2) * n) ** (1 / 3)
    assert resampling.block_length(values) == pytest.approx(expected, rel=1e-9)


def test_the_error_of_a_mean_is_that_of_its_resamples_without_drawing_any() -> None:
    for rho in (0.0, 0.6):
        values = autoregression(1500, rho, np.random.default_rng(5))
        drawn = resampled(mean_of(values), values, np.random.default_rng(1))
        told = differences.mean(values)
        assert told.value == pytest.approx(drawn.value)
        assert told.freedom == pytest.approx(drawn.freedom)
        # 2000 resamples know an error by 1 / sqrt(2 * 2000), or 1.6 %.
        assert told.error == pytest.approx(drawn.error, rel=4 * 0.016)


def test_series_without_variation_have_blocks_of_one() -> None:
    assert resampling.block_length(np.ones(100)) == 1.0
    assert resampling.block_length(np.array([1.0, 2.0])) == 1.0


@given(st.integers(1, 200), st.floats(1, 50), st.integers(1, 20))
def test_every_resample_has_as_many_samples_as_the_run(n: int, length: float, resamples: int) -> None:
    rows = np.concatenate(list(resampling.multiplicities(n, length, resamples, np.random.default_rng(1))))
    assert rows.shape == (resamples, n)
    assert (rows.sum(axis=1) == n).all()


def test_the_same_seed_gives_the_same_interval() -> None:
    values = autoregression(300, 0.6, np.random.default_rng(1))
    found = [resampled(mean_of(values), values, np.random.default_rng(5)) for _ in range(2)]
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_error_of_a_mean_is_that_of_theory() -> None:
    # n Var(mean) of AR(1) is 1 / (1 - rho)^2 for unit innovations.
    random = np.random.default_rng(11)
    n, rho = 2000, 0.8
    errors = []
    for _ in range(20):
        values = autoregression(n, rho, random)
        errors.append(resampled(mean_of(values), values, random).error)
    assert np.median(errors) == pytest.approx(math.sqrt(1 / (1 - rho) ** 2 / n), rel=0.2)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.sampled_from([0.25, 0.5, 0.9]))
def test_a_weighted_quantile_is_that_of_the_repeated_samples(values: list[int], q: float) -> None:
    samples = np.array(values, dtype=float)
    times = np.random.default_rng(2).integers(0, 3, (1, len(values))).astype(float)
    found = quantile_of(samples, np.arange(len(values)), q)(times)[0]
    repeated = np.repeat(samples, times[0].astype(int))
    if len(repeated):
        assert found == pytest.approx(float(np.quantile(repeated, q, method="averaged_inverted_cdf")))
    else:
        assert math.isnan(found)


def test_welch_agrees_with_scipy() -> None:
    random = np.random.default_rng(4)
    first, second = random.normal(10, 1, 5), random.normal(12, 4, 7)
    reference = stats.ttest_ind(second, first, equal_var=False)
    interval = reference.confidence_interval(0.95)
    found = welch(first, second)
    assert (found.p, found.low, found.high) == pytest.approx((reference.pvalue, interval.low, interval.high))


@pytest.mark.parametrize("runs", [3, differences.RANKS_FROM])
def test_a_difference_is_of_python_s_own_numbers_which_json_takes(runs: int) -> None:
    random = np.random.default_rng(8)
    for found in (
        differences.of_groups(random.standard_normal(runs), random.standard_normal(runs)),
        differences.of_pairs(random.standard_normal(runs), random.standard_normal(runs)),
    ):
        assert {type(value) for value in (found.value, found.low, found.high, found.p)} == {float}


def test_runs_that_agree_to_the_last_digit_leave_nothing_to_test() -> None:
    same = welch(np.array([1.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0]))
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)
    other = welch(np.array([1.0, 1.0, 1.0]), np.array([2.0, 2.0, 2.0]))
    assert math.isnan(other.p)


def test_the_shift_of_two_groups_is_found_whatever_the_outliers() -> None:
    random = np.random.default_rng(9)
    first = random.normal(0, 1, 12)
    second = np.concatenate((random.normal(3, 1, 11), [1e6]))
    found = hodges_lehmann(first, second)
    assert found.low < 3 < found.high
    assert found.value == pytest.approx(3, abs=1)
    assert found.p < 0.01


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_makes_a_p_value_smaller_nor_more_than_bonferroni(values: list[float]) -> None:
    for p, adjusted in zip(values, holm(values), strict=True):
        assert adjusted is not None
        assert p <= adjusted <= max(p, min(1.0, p * len(values))) + 1e-12


def test_a_metric_without_a_p_value_does_not_count_in_the_correction() -> None:
    adjusted = holm([0.04, None, math.nan])
    assert adjusted[:2] == [0.04, None]
    assert math.isnan(adjusted[2] or 0.0)


def test_runs_that_change_too_slowly_for_their_length_are_not_judged() -> None:
    random = np.random.default_rng(6)
    walks = [autoregression(100, 0.995, random) for _ in range(2)]
    found = of_single_runs(*([resampled(mean_of(walk), walk, random)] for walk in walks))
    assert math.isnan(found.p)


def _false_alarms(rho: float, n: int, kind: str, runs: int) -> tuple[float, float]:
    """Shares of pairs of equal runs that are called different at 5 %, and of those that are not judged."""
    random = np.random.default_rng(20)
    alarms = unjudged = 0
    for _ in range(runs):
        estimates = []
        for _ in range(2):
            values = autoregression(n, rho, random)
            statistic, rare = mean_of(values), None
            if kind != "mean":
                q = {"median": 0.5, "p99": 0.99}[kind]
                statistic = quantile_of(values, np.arange(n), q)
                rare = (values >= np.quantile(values, q)).astype(float) if kind == "p99" else None
            estimates.append(resampled(statistic, values, random, rare))
        found = of_single_runs(estimates[:1], estimates[1:])
        unjudged += math.isnan(found.p)
        alarms += found.p < 0.05
    return alarms / runs, unjudged / runs


# The usual dependence of samples, of an average and of the rarest quantile; every other combination is exhaustive.
USUAL = {("mean", 300, 0.9), ("p99", 1000, 0.9)}
SETTINGS = [
    pytest.param(kind, n, rho, marks=() if (kind, n, rho) in USUAL else pytest.mark.exhaustive)
    for kind, n in (("mean", 300), ("median", 300), ("mean", 1000), ("p99", 1000))
    for rho in (0.0, 0.5, 0.9, 0.97)
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n", "rho"), SETTINGS)
def test_equal_runs_are_called_different_as_rarely_as_claimed(
    kind: str, n: int, rho: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Claimed: about 5 % for each metric before Holm's correction. Of 400 pairs at a true rate of 5 %, more than
    # 8.5 % come out with a chance below 0.002.
    monkeypatch.setattr(resampling, "RESAMPLES", 200)
    alarms, _ = _false_alarms(rho, n, kind, 400)
    assert alarms <= 0.085


@pytest.mark.slow
def test_runs_that_differ_by_a_standard_deviation_are_found_to_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "RESAMPLES", 200)
    random = np.random.default_rng(8)
    found = 0
    for _ in range(100):
        first, second = autoregression(1000, 0.8, random), autoregression(1000, 0.8, random) + 1 / math.sqrt(1 - 0.64)
        estimates = [[resampled(mean_of(values), values, random)] for values in (first, second)]
        found += differences.of_single_runs(*estimates).p < 0.05
    assert found >= 80
