"""Responsiveness out of tables: stability, trimmed means, the formula, and the confidence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recordings
from whydrop.explaining.recordings.responsive import said_of
from whydrop.recording import tables
from whydrop.recording.metrics.responsiveness import (
    Parameters,
    Probes,
    Responsiveness,
    assess,
    is_stable,
    of_recording,
    probes_of,
)
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording

S = 1_000_000_000
START_NS = 1_700_000_000 * S


def pieces(rates_bps: list[float], *, length_s: float = 1.0, each: int = 5) -> pl.DataFrame:
    """Rows of table ``intervals``: some pieces for each interval, of its rate."""
    piece_ns = round(length_s * S) // each
    rows = [
        {
            "start_ns": START_NS + number * piece_ns,
            "end_ns": START_NS + (number + 1) * piece_ns,
            "payload_bytes": round(rates_bps[number // each] * piece_ns / 8e9),
        }
        for number in range(each * len(rates_bps))
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(("start_ns", "end_ns", "payload_bytes"), pl.Int64))


def probes(seconds: int, ms: float | list[float], *, a_second: int = 20) -> Probes:
    """Probes of all kinds that took so long, or so long in each second."""
    took = ms if isinstance(ms, list) else [ms] * seconds
    ends_ns = np.array([START_NS + number * S // a_second for number in range(seconds * a_second)], dtype=np.int64)
    values = np.array([took[number // a_second] for number in range(seconds * a_second)], dtype=float)
    return Probes(ends_ns, values, values, values, ends_ns, values)


def test_a_steady_path_is_stable_after_its_moving_averages_and_its_probes() -> None:
    found = assess(START_NS, pieces([20e6] * 20), probes(20, 100.0), Parameters())
    # Averages over 4 intervals, of which 4 are looked at: intervals 0 to 6. Then 4 values of responsiveness: 6 to 9.
    assert (found.saturated_at, found.stable_at, found.intervals) == (6, 9, 10)
    assert (found.goodput_confidence, found.responsiveness_confidence) == ("high", "high")
    assert found.terms is not None
    assert found.terms.rpm == pytest.approx(600.0)
    assert found.goodput_bps[-1] == pytest.approx(20e6)


def test_responsiveness_is_the_mean_of_both_kinds_of_connections() -> None:
    one = probes(12, 10.0)
    found = assess(
        START_NS,
        pieces([20e6] * 12),
        Probes(one.foreign_ns, one.tcp_f, one.tls_f * 2, one.http_f * 3, one.self_ns, one.http_l * 30),
        Parameters(),
    )
    assert found.terms is not None
    assert found.terms.foreign_rpm == pytest.approx(60_000 / 20)
    assert found.terms.self_rpm == pytest.approx(60_000 / 300)
    assert found.terms.rpm == pytest.approx((3000 + 200) / 2)


def test_the_slowest_twentieth_of_the_probes_does_not_count() -> None:
    usual = probes(12, 10.0)
    slow = usual.http_l.copy()
    slow[::21] = 10_000.0
    found = assess(
        START_NS,
        pieces([20e6] * 12),
        Probes(usual.foreign_ns, usual.tcp_f, usual.tls_f, usual.http_f, usual.self_ns, slow),
        Parameters(),
    )
    assert found.terms is not None
    assert found.terms.http_l_ms == pytest.approx(10.0)


def test_only_probes_that_were_complete_in_the_last_intervals_count() -> None:
    found = assess(START_NS, pieces([20e6] * 20), probes(20, [900.0] * 6 + [100.0] * 14), Parameters())
    assert found.stable_at is not None
    assert found.stable_at >= 9
    assert found.terms is not None
    assert found.terms.rpm == pytest.approx(600.0)


@pytest.mark.parametrize(
    ("seconds", "goodput", "responsiveness"),
    [(3, "low", "low"), (4, "medium", "low"), (6, "medium", "low"), (7, "high", "low"), (9, "high", "low")],
)
def test_confidence_grows_with_the_intervals_measured(seconds: int, goodput: str, responsiveness: str) -> None:
    found = assess(START_NS, pieces([20e6] * seconds), probes(seconds, 100.0), Parameters())
    assert (found.goodput_confidence, found.responsiveness_confidence) == (goodput, responsiveness)


def test_goodput_that_never_settles_has_medium_confidence_and_its_responsiveness_low() -> None:
    found = assess(START_NS, pieces([10e6 * 1.3**number for number in range(20)]), probes(20, 100.0), Parameters())
    assert found.saturated_at is None
    assert (found.goodput_confidence, found.responsiveness_confidence) == ("medium", "low")


def test_responsiveness_that_never_settles_has_medium_confidence() -> None:
    found = assess(
        START_NS, pieces([20e6] * 20), probes(20, [10.0 * 1.4**number for number in range(20)]), Parameters()
    )
    assert (found.goodput_confidence, found.responsiveness_confidence) == ("high", "medium")


def test_without_probes_of_a_kind_nothing_is_claimed() -> None:
    usual = probes(20, 100.0)
    none = np.array([], dtype=np.int64)
    only = Probes(usual.foreign_ns, usual.tcp_f, usual.tls_f, usual.http_f, none, none.astype(float))
    found = assess(START_NS, pieces([20e6] * 20), only, Parameters())
    assert found.terms is None
    assert found.responsiveness_confidence == "low"


@given(
    st.lists(st.floats(1e3, 1e10), min_size=1, max_size=30),
    st.lists(st.floats(0.01, 1e5), min_size=30, max_size=30),
    st.integers(2, 8),
)
def test_an_end_that_was_found_stays_found_when_more_is_measured(
    rates: list[float], ms: list[float], width: int
) -> None:
    parameters = Parameters(moving_average_intervals=width)
    whole = assess(START_NS, pieces(rates), probes(30, ms), parameters)
    if whole.stable_at is not None:
        count = whole.stable_at + 1
        then = assess(START_NS, pieces(rates[:count]), probes(30, ms), parameters)
        assert then.stable_at == whole.stable_at
        assert then.terms == whole.terms
    assert whole.intervals <= len(rates)
    if whole.terms is not None:
        lowest, highest = min(ms), max(ms)
        assert 60_000 / highest * (1 - 1e-9) <= whole.terms.rpm <= 60_000 / lowest * (1 + 1e-9)


@given(st.lists(st.floats(1, 1e6), min_size=4, max_size=20), st.floats(0.1, 1e3))
def test_stability_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    spread = float(np.std(values[-4:])) / values[-1]
    if not math.isclose(spread, 0.05, rel_tol=1e-6):
        assert is_stable(values, Parameters()) == is_stable([value * factor for value in values], Parameters())


def test_probes_take_no_more_of_the_path_than_they_may() -> None:
    parameters = Parameters()
    assert parameters.pairs_per_s(1e9) == 50.0
    # 5 % of 1 Mbit/s are 6250 bytes a second; a pair takes 6000.
    assert parameters.pairs_per_s(1e6) == pytest.approx(6250 / 6000)


def test_parameters_that_are_none_are_left_at_the_defaults() -> None:
    odd: dict[str, Any] = {"interval_s": "x", "moving_average_intervals": True, "tolerance_percent": float("nan")}
    assert Parameters.of(odd | {"most_connections": -1, "unknown": 7}) == Parameters()


def test_a_handshake_of_two_round_trips_counts_as_their_mean() -> None:
    row = {"start_ns": 0, "duration_ns": 50_000_000, "tcp_ns": 10_000_000, "tls_ns": 30_000_000, "tls_round_trips": 2}
    frame = tables.conform("fetches", pl.DataFrame([row]))
    found = probes_of(frame, frame.clear())
    assert (found.tcp_f.tolist(), found.tls_f.tolist(), found.http_f.tolist()) == ([10.0], [15.0], [10.0])


# Recordings.


def recorded(
    tmp_path: Path,
    *,
    seconds: int = 12,
    ms: float = 20.0,
    lateness_ms: float = 0.1,
    processor_percent: float = 20.0,
    waited_percent: float = 5.0,
    failed: int = 0,
    status: str = "complete",
    message: str | None = None,
) -> Recording:
    """A recording of a download with probes of both kinds."""
    options = {"interval_s": 1.0, "moving_average_intervals": 4}
    flows = [
        {"flow": 0, "name": "Download", "kind": "tcp", "direction": "down", "settings": {"options": options}},
        {"flow": 1, "name": "in", "kind": "http", "settings": {"options": {"probes_of": "Download", "probe": "self"}}},
        {
            "flow": 2,
            "name": "new",
            "kind": "http",
            "settings": {"options": {"probes_of": "Download", "probe": "foreign"}},
        },
    ]
    rows = [
        {
            **flow,
            "runner": "responsiveness",
            "status": status,
            "message": message,
            "settings": json.dumps(flow["settings"]),
        }
        for flow in flows
    ]
    each = []
    for number in range(20 * seconds):
        start_ns = START_NS + number * S // 20
        error = "the server closed the connection" if number >= 20 * seconds - failed else None
        took = {"start_ns": start_ns, "error": error}
        each.append({**took, "flow": 1, "duration_ns": round(ms * 1e6)})
        handshakes = {"tcp_ns": round(ms * 1e6), "tls_ns": round(ms * 1e6), "tls_round_trips": 1}
        each.append({**took, "flow": 2, "duration_ns": round(3 * ms * 1e6), **handshakes})
    values = [
        {"flow": 0, "time_ns": START_NS + number * S // 5, "key": key, "value": value}
        for number in range(5 * seconds)
        for key, value in (
            ("load_lateness_ms", lateness_ms),
            ("probe_lateness_ms", lateness_ms),
            ("load_processor_percent", processor_percent),
            ("load_processor_wait_percent", waited_percent),
            ("connections", 3.0),
        )
    ]
    made = {
        "flows": pl.DataFrame(rows, infer_schema_length=None),
        "intervals": pieces([20e6] * seconds).with_columns(flow=pl.lit(0)),
        "fetches": pl.DataFrame(each, infer_schema_length=None),
        "values": pl.DataFrame(values),
    }
    return Recording(
        tmp_path, recordings.metadata(), {name: tables.conform(name, frame) for name, frame in made.items()}
    )


def only(recording: Recording) -> Responsiveness:
    [found] = of_recording(recording)
    return found


def test_a_recording_yields_responsiveness_from_its_tables(tmp_path: Path) -> None:
    found = only(recorded(tmp_path))
    assert found.rpm == pytest.approx(3000)
    assert (found.confidence, found.goodput_confidence, found.rating) == ("high", "high", "good")
    assert (found.connections, found.stable_after_s, found.notes) == (3, 10.0, ())
    document = Summary(recorded(tmp_path)).document()["responsiveness"]
    assert document[0]["rpm"] == pytest.approx(3000)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lateness_ms": 5.0}, "this host was busy: self probes of 20 ms were handled 5 ms late, on average"),
        (
            {"processor_percent": 57.0, "waited_percent": 40.0},
            "this host's processor may have limited the load: it used a core for 57 % of the time and waited for one "
            "for 40 %",
        ),
        ({"failed": 60}, "probes failed: the slowest may be missing"),
        ({"status": "failed", "message": "it broke"}, "the load broke off: it broke"),
    ],
)
def test_what_makes_a_number_doubtful_is_said_and_its_confidence_is_low(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    found = only(recorded(tmp_path, **settings))
    assert found.confidence == "low"
    assert words in "; ".join(found.notes)


def test_a_load_shorter_than_an_interval_yields_no_number(tmp_path: Path) -> None:
    found = only(recorded(tmp_path, seconds=0))
    assert (found.rpm, found.rating, found.confidence, found.goodput_mbit_per_s) == (None, None, "low", None)
    assert found.notes == ("responsiveness is unknown: the load did not last one interval",)


def test_probes_of_a_small_object_are_no_pages(tmp_path: Path) -> None:
    from whydrop.recording.metrics.definitions import measure

    assert "fetch-time" not in measure(recorded(tmp_path))


def test_an_explanation_gives_it_with_its_confidence(tmp_path: Path) -> None:
    verdict: dict[str, Any] = {"at": {"kind": "path"}, "facts": [], "evidence": []}
    elsewhere: dict[str, Any] = {"at": {"kind": "host"}, "facts": [], "evidence": []}
    said_of([verdict, elsewhere], recorded(tmp_path))
    [words] = verdict["evidence"]
    expected = (
        "responsiveness of the download is 3000 round trips a minute: 3000 on new connections, 3000 inside loaded"
    )
    assert words.lower().replace("\N{NO-BREAK SPACE}", "").replace("\N{NARROW NO-BREAK SPACE}", "").startswith(expected)
    assert words.endswith("(confidence high)")
    assert elsewhere["evidence"] == []
