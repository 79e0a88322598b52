"""Grades of latency under load, and the quality of outcome, against values computed by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recordings
from whydrop.recording.metrics.grades import (
    APPLICATIONS,
    LETTERS,
    Quality,
    Requirement,
    grade,
    qualities,
    quality_of_outcome,
    stood_in_queue,
)

AMOUNTS = st.floats(0, 5000)
MS = 1_000_000


@pytest.mark.parametrize(
    ("median_ms", "p95_ms", "loss_percent", "letter"),
    [
        (4.9, 9.9, 1.0, "A+"), (5.0, 9.9, 1.0, "A"), (4.9, 10.0, 1.0, "A"), (29.9, 59.9, 2.5, "A"),
        (30.0, 59.9, 0.0, "B"), (0.0, 0.0, 2.6, "B"), (60.0, 61.0, 0.0, "C"), (0.0, 0.0, 5.0, "C"),
        (200.0, 210.0, 0.0, "D"), (0.0, 799.0, 0.0, "D"), (400.0, 400.0, 0.0, "F"), (0.0, 0.0, 12.1, "F"),
        (-3.0, -1.0, 0.0, "A+"),
    ],
)  # fmt: skip
def test_the_worst_of_three_letters_is_the_grade(
    median_ms: float, p95_ms: float, loss_percent: float, letter: str
) -> None:
    assert grade(median_ms, p95_ms, loss_percent) == letter


@given(AMOUNTS, AMOUNTS, st.floats(0, 100), AMOUNTS, AMOUNTS, st.floats(0, 100))
def test_more_delay_or_loss_never_makes_a_better_grade(
    median_ms: float, p95_ms: float, loss: float, median_more: float, p95_more: float, loss_more: float
) -> None:
    worse = grade(median_ms + median_more, p95_ms + p95_more, loss + loss_more)
    assert LETTERS.index(worse) >= LETTERS.index(grade(median_ms, p95_ms, loss))


def test_a_grade_of_unknown_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        grade(float("nan"), 1.0, 0.0)


def test_the_example_of_the_draft_has_the_draft_s_score() -> None:
    """Section 3.4 of draft-ietf-ippm-qoo-10: 350 ms at 99 %, 375 ms at 99.9 %, 2 % loss; 50."""
    need = Requirement({99.0: 200.0, 99.9: 300.0}, {99.0: 500.0, 99.9: 600.0}, 1.0, 5.0)
    # Of 1001 values, the 99th percentile is the 991st, the 99.9th the 1000th.
    values = [100.0] * 990 + [350.0] * 9 + [375.0] * 2
    assert quality_of_outcome(values, 2.0, need) == pytest.approx(50.0)
    assert quality_of_outcome([100.0], 2.0, need) == pytest.approx(75.0)


@given(st.lists(AMOUNTS, min_size=1, max_size=50), st.floats(0, 100), AMOUNTS, st.sampled_from(list(APPLICATIONS)))
def test_a_score_is_between_0_and_100_and_falls_with_delay_and_loss(
    rtt_ms: list[float], loss: float, more: float, name: str
) -> None:
    need = APPLICATIONS[name]
    score = quality_of_outcome(rtt_ms, loss, need)
    slower = quality_of_outcome([one + more for one in rtt_ms], loss, need)
    lossier = quality_of_outcome(rtt_ms, loss + more, need)
    assert score is not None
    assert slower is not None
    assert lossier is not None
    assert 0 <= slower <= score + 1e-9 <= 100 + 1e-9
    assert 0 <= lossier <= score


@pytest.mark.parametrize(
    ("optimal", "unacceptable", "losses"),
    [
        ({50.0: 1.0}, {95.0: 2.0}, (1.0, 2.0)), ({}, {}, (1.0, 2.0)),
        ({50.0: 2.0}, {50.0: 2.0}, (1.0, 2.0)), ({50.0: 1.0}, {50.0: 2.0}, (2.0, 1.0)),
    ],
)  # fmt: skip
def test_a_requirement_that_contradicts_itself_is_refused(
    optimal: dict[float, float], unacceptable: dict[float, float], losses: tuple[float, float]
) -> None:
    with pytest.raises(ValueError, match="requirement"):
        Requirement(optimal, unacceptable, *losses)


def _tcp_info(window: int, minimum_ms: int, smoothed_ms: int) -> pl.DataFrame:
    row = {"congestion_window_packets": window, "min_rtt_ns": minimum_ms * MS, "srtt_ns": smoothed_ms * MS}
    return pl.DataFrame([row] * 4)


def test_a_connection_stands_in_a_queue_if_its_delay_and_its_waiting_packets_show_it() -> None:
    assert stood_in_queue(_tcp_info(20, 20, 40))  # 10 packets wait
    assert not stood_in_queue(_tcp_info(6, 20, 40))  # 3 packets wait
    assert not stood_in_queue(_tcp_info(100, 20, 24))  # 1.2 times the minimum
    assert not stood_in_queue(_tcp_info(20, 20, 40).clear())


def _recorded(folder: Path, minimum_ms: int | None) -> list[Quality]:
    """Probes ten times as often as in the usual recording, so that there are enough."""
    tables = recordings.tables()
    probes = tables["probes"]
    more = [
        probes.with_columns(
            pl.col("sequence") * 10 + number,
            *(pl.col(at) + number * 20 * MS for at in ("scheduled_ns", "sent_ns", "received_ns")),
        )
        for number in range(10)
    ]
    tables["probes"] = pl.concat(more).sort("flow", "sequence")
    if minimum_ms is not None:
        least_ns = pl.lit(minimum_ms * MS, pl.Int64)
        up = tables["tcp_info"].filter(pl.col("flow") < 2).with_columns(min_rtt_ns=least_ns)
        tables["tcp_info"] = pl.concat([up, up.with_columns(pl.col("flow") + 2)])
    return qualities(recordings.write(folder / "a", tables))


def _icmp(found: list[Quality]) -> Quality:
    (one,) = [one for one in found if "ICMP" in one.name]
    return one


def test_a_recording_is_graded_where_its_connections_stood_in_a_queue(tmp_path: Path) -> None:
    one = _icmp(_recorded(tmp_path, 20))
    assert one.induced_median_ms == pytest.approx(60, abs=1.5)
    # 60 ms is at the border of B and C: the letter is that of the number.
    assert one.induced_p95_ms is not None
    assert one.loss_percent == 0
    assert one.grade == grade(one.induced_median_ms, one.induced_p95_ms, 0.0)
    assert one.not_graded == ""


@pytest.mark.parametrize("minimum_ms", [None, 79])
def test_without_evidence_of_a_full_path_there_is_no_grade(tmp_path: Path, minimum_ms: int | None) -> None:
    for one in _recorded(tmp_path, minimum_ms):
        assert one.grade is None
        assert "nothing shows that the load filled the path up and down" in one.not_graded
        assert one.outcomes["Web"] is not None


def test_few_samples_have_neither_grade_nor_score(tmp_path: Path) -> None:
    for one in qualities(recordings.rrul(tmp_path / "a")):
        assert one.grade is None
        assert "fewer than 100 round trips" in one.not_graded
        assert set(one.outcomes.values()) == {None}
