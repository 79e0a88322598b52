"""Reducers: one number of a series, under Flent's names too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import recordings
from whydrop.recording.metrics import speech
from whydrop.recording.metrics.load import window
from whydrop.recording.metrics.reducing import REDUCERS, Reduction, UnknownReducer, normalised, reduce

VALUES = np.array([1.0, 2.0, 3.0, 10.0])

# By hand; std and variance are of the sample itself.
EXPECTED = {
    "mean": 4.0,
    "median": 2.5,
    "min": 1.0,
    "max": 10.0,
    "var": 12.5,
    "std": 12.5**0.5,
    "span": 9.0,
    "mean-span": 3.0,
    "raw_mean": 4.0,
    "mean_zero": 16 / 5,
    "cumsum": 1.0 * 0.2 + 2.0 * 0.2 + 3.0 * 0.4 + 10.0 * 0.2,
    "loss": 100 / 5,
    "fairness": 256 / (4 * 114),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_reducers_give_what_is_worked_out_by_hand(name: str) -> None:
    # A step of 0.2 s without a value between the last two.
    of = Reduction(VALUES, np.array([0.0, 0.2, 0.4, 0.8]), 0.2, lost=1)
    assert reduce(name, of) == pytest.approx(EXPECTED[name])


def test_nothing_is_made_of_nothing() -> None:
    for name in REDUCERS:
        assert reduce(name, Reduction(np.array([]))) is None, name


def test_an_unknown_reducer_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownReducer, match="did you mean 'median'"):
        normalised("medain")


def test_a_value_of_the_metadata_is_a_reducer(tmp_path: Path) -> None:
    recording = recordings.rrul(tmp_path / "a.recording")
    assert reduce("meta:test.length_s", Reduction(VALUES, recording=recording)) == 10.0
    assert reduce("meta:title", Reduction(VALUES, recording=recording)) is None


def test_speech_is_rated_by_one_way_delay_where_the_clocks_are_known(tmp_path: Path) -> None:
    import polars as pl

    tables = recordings.tables()
    clocks = pl.DataFrame(
        {"host": ["server.example"], "time_ns": [recordings.START_NS], "offset_ns": [0], "uncertainty_ns": [1000]}
    )
    known = recordings.write(tmp_path / "k.recording", {**tables, "clocks": clocks})
    found = speech.of_series(known, "Ping (ms) UDP BE", window(known))
    assert found is not None
    assert (found.direction, found.basis) == ("up", "from the one-way delay")
    # 80 ms of round trip, 10 ms of them downstream; two of 50 probes are lost upstream.
    assert found.delay_ms == pytest.approx(70, abs=0.5)
    assert found.loss == pytest.approx(2 / 50)


def test_a_direction_in_which_nothing_arrives_is_the_worse_one(tmp_path: Path) -> None:
    import polars as pl

    tables = recordings.tables()
    clocks = pl.DataFrame(
        {"host": ["server.example"], "time_ns": [recordings.START_NS], "offset_ns": [0], "uncertainty_ns": [1000]}
    )
    nothing = {"down_ns": pl.lit(None, pl.Int64), "rtt_ns": pl.lit(None, pl.Int64), "fate": pl.lit("lost-down")}
    tables["probes"] = tables["probes"].with_columns(**nothing)
    silent = recordings.write(tmp_path / "s.recording", {**tables, "clocks": clocks})
    found = speech.of_series(silent, "Ping (ms) UDP BE", window(silent))
    assert found is not None
    assert (found.direction, found.mos, found.loss) == ("down", 1.0, 1.0)


def test_speech_is_rated_by_half_of_the_round_trip_where_the_clocks_are_not_known(tmp_path: Path) -> None:
    unknown = recordings.rrul(tmp_path / "u.recording")
    found = speech.of_series(unknown, "Ping (ms) UDP BE", window(unknown))
    assert found is not None
    assert found.delay_ms == pytest.approx(40, abs=0.5)
    assert "half of the round-trip time" in found.basis
