"""Series on a grid: Flent's rules, checked by hand and by Flent itself."""

from __future__ import annotations

import json
import math
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flent_environment
from recording.conftest import Flent
from whydrop.recording import grid
from whydrop.recording.grid import compute

NAN = math.nan


def on_grid(samples: list[tuple[float, float]], step_s: float, count: int) -> list[float | None]:
    times, values = (np.array(column, dtype=float) for column in zip(*samples, strict=True)) if samples else ([], [])
    found = grid.interpolate(np.asarray(times), np.asarray(values), step_s, count)
    return [None if math.isnan(value) else float(value) for value in found]


def test_between_two_samples_values_lie_on_a_line() -> None:
    assert on_grid([(0.0, 10.0), (1.0, 20.0), (1.5, 0.0)], 0.25, 6) == [10.0, 12.5, 15.0, 17.5, 20.0, 10.0]


def test_a_gap_of_more_than_five_steps_is_bridged_only_in_its_last_five() -> None:
    found = on_grid([(0.0, 0.0), (8.0, 8.0), (9.0, 9.0)], 1.0, 9)
    assert found == [None, None, None, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def test_nothing_is_shown_before_the_first_sample_but_half_a_step() -> None:
    assert on_grid([(1.4, 7.0), (3.0, 7.0)], 1.0, 3) == [None, 7.0, 7.0]
    assert on_grid([(1.6, 7.0), (3.0, 7.0)], 1.0, 3) == [None, None, 7.0]


def test_the_last_sample_is_repeated_for_one_step_if_its_value_is_new() -> None:
    assert on_grid([(0.0, 1.0), (1.5, 2.5)], 1.0, 4) == [1.0, 2.0, 2.5, None]
    assert on_grid([(0.0, 1.0), (1.5, 1.0)], 1.0, 4) == [1.0, 1.0, None, None]


def test_a_sample_without_a_value_is_a_gap() -> None:
    assert on_grid([(0.0, 1.0), (1.0, NAN), (2.0, 3.0), (3.0, 4.0)], 0.5, 6) == [None, None, None, None, 3.0, 3.5]


def test_no_samples_and_samples_in_disorder_are_no_trouble() -> None:
    assert on_grid([], 1.0, 2) == [None, None]
    assert on_grid([(1.0, 20.0), (0.0, 10.0)], 0.5, 3) == [10.0, 15.0, 20.0]


def test_a_clock_that_jumped_by_years_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="a clock must have jumped"):
        grid.steps(3e8, 0.2)


def test_losses_are_the_mean_of_the_probes_of_each_step() -> None:
    times = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    values = np.array([0.0, 100.0, 0.0, 0.0, NAN, 100.0])
    assert grid.mean_in_steps(times, values, 0.4, 4)[:3].tolist() == [50.0, 0.0, 100.0]
    assert math.isnan(grid.mean_in_steps(times, values, 0.4, 4)[3])


# The grid of Flent 2.3.0: its aggregator is given samples instead of runners that measure.
FLENTS_GRID = """
import json, sys
from types import SimpleNamespace
from flent import aggregators, resultset
task = json.load(sys.stdin)
found = []
for samples, step in task:
    aggregator = object.__new__(aggregators.TimeseriesAggregator)
    aggregator.step, aggregator.max_distance = step, step * 5.0
    aggregator.killed, aggregator.failed_runners = False, 0
    aggregator.settings = SimpleNamespace(TOTAL_LENGTH=1000)
    aggregator.collect = lambda: ({'it': samples}, {'series': {}, 'test_parameters': {}}, {})
    results = resultset.ResultSet(NAME='ping', TEST_PARAMETERS={})
    aggregator.aggregate(results)
    found.append(results['it'])
json.dump(found, sys.stdout)
"""


@pytest.mark.needs_flent
def test_flent_puts_any_samples_on_the_same_grid(flent: Flent) -> None:
    del flent  # only its environment is needed
    random = np.random.default_rng(4)
    tasks = []
    for number in range(200):
        count = int(random.integers(2, 60))
        steps = random.exponential(random.choice([0.05, 0.2, 1.0, 2.0]), count) + 1e-3
        # Whole and repeated values, so that a last value equals the one before it now and then.
        values = random.integers(0, 4, count).astype(float) if number % 2 else random.normal(10, 3, count)
        times = 1e9 + np.cumsum(steps)
        tasks.append(([[float(t), float(v)] for t, v in zip(times, values, strict=True)], 0.25))
    python = flent_environment.FOLDER / "bin" / "python"
    done = subprocess.run(
        [python, "-c", FLENTS_GRID], input=json.dumps(tasks), capture_output=True, text=True, check=True, timeout=120
    )
    for (samples, step_s), expected in zip(tasks, json.loads(done.stdout), strict=True):
        times, values = (np.array(column) for column in zip(*samples, strict=True))
        span_s = times[-1] - times[0]
        found = grid.interpolate(times - times[0], values, step_s, math.ceil(span_s / step_s))
        theirs = np.array([NAN if value is None else value for value in expected])
        assert found.size == theirs.size
        np.testing.assert_allclose(found, theirs, rtol=1e-6, atol=1e-5, equal_nan=True)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(-1e6, 1e6)), min_size=1, max_size=50),
    st.floats(0.05, 5.0),
)
@settings(max_examples=200, deadline=None)
def test_values_on_the_grid_are_never_outside_those_measured(samples: list[tuple[float, float]], step_s: float) -> None:
    values = [value for _, value in samples]
    low, high = min(values), max(values)
    tolerance = 1e-6 * max(1.0, abs(low), abs(high))
    for value in on_grid(samples, step_s, grid.steps(50.0, step_s)):
        assert value is None or low - tolerance <= value <= high + tolerance


def test_five_minutes_at_50_ms_of_12_series_are_put_on_the_grid_in_a_hundredth_of_flents_15_s() -> None:
    random = np.random.default_rng(1)
    series = [(np.sort(random.uniform(0, 310, 6200)), random.normal(size=6200)) for _ in range(12)]
    began = time.process_time()
    for times, values in series:
        grid.interpolate(times, values, 0.05, 6200)
    assert time.process_time() - began < 0.15


# Computed series.


def computed(by: str, rows: list[list[float]], expected: np.ndarray | None = None) -> list[float | None]:
    values = np.array(rows, dtype=float)
    found = compute(by, values, np.ones(values.shape, dtype=bool) if expected is None else expected)
    return [None if math.isnan(value) else float(value) for value in found]


def test_sums_means_and_fairness_are_those_computed_by_hand() -> None:
    rows = [[1.0, 3.0], [2.0, 2.0], [4.0, 0.0]]
    assert computed("sum", rows) == [4.0, 4.0, 4.0]
    assert computed("mean", rows) == [2.0, 2.0, 2.0]
    assert computed("fairness", rows) == [0.8, 1.0, 0.5]


def test_a_sum_with_a_flow_missing_is_unknown_rather_than_smaller() -> None:
    rows = [[1.0, 3.0], [2.0, NAN], [NAN, NAN]]
    for by in ("sum", "mean", "fairness"):
        assert computed(by, rows)[1:] == [None, None]


def test_a_flow_that_is_not_meant_to_run_is_left_out() -> None:
    expected = np.array([[True, False], [True, True], [False, False]])
    assert computed("sum", [[1.0, NAN], [2.0, 3.0], [NAN, NAN]], expected) == [1.0, 5.0, None]


def test_the_difference_from_the_minimum_and_the_smooth_mean_are_those_computed_by_hand() -> None:
    assert computed("difference-from-min", [[5.0], [NAN], [9.0], [4.0]]) == [1.0, None, 5.0, 0.0]
    values = [[1.0], [2.0], [3.0], [NAN], [4.0], [5.0], [11.0]]
    assert computed("smooth-mean", values) == [1.0, 1.5, 2.0, None, 2.5, 3.0, 5.0]


def test_an_unknown_way_to_compute_is_refused() -> None:
    with pytest.raises(ValueError, match="median-of-medians"):
        computed("median-of-medians", [[1.0]])


def test_nothing_is_fair_or_unfair_where_all_have_nothing() -> None:
    assert computed("fairness", [[0.0, 0.0]]) == [None]


def test_the_environment_of_flent_is_where_make_clean_removes_it() -> None:
    assert Path("build") in Path(flent_environment.FOLDER).relative_to(Path(__file__).parents[2]).parents


def test_nothing_is_interpolated_across_an_edge() -> None:
    times_s, values = np.array([0.1, 0.9, 1.3, 2.1]), np.array([1.0, 1.0, 9.0, 9.0])
    crossed = grid.apart(grid.interpolate, times_s, values, 0.5, 5)
    assert crossed[2] == pytest.approx(3.0)
    kept = grid.apart(grid.interpolate, times_s, values, 0.5, 5, edges_s=(1.2,))
    # At 1.0 s only the sample before it is left, of the value of the step before: nothing, as behind a last one.
    assert kept == pytest.approx([1.0, 1.0, np.nan, 9.0, 9.0], nan_ok=True)
    averaged = grid.apart(grid.mean_in_steps, times_s, values, 0.5, 5, edges_s=(1.2,))
    assert averaged == pytest.approx([1.0, 1.0, np.nan, np.nan, 9.0], nan_ok=True)
