"""The E-model against ITU-T's own numbers, and against an implementation that was checked with ITU-T's calculator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.recording.metrics import emodel


def test_all_defaults_give_the_rating_that_g107_states() -> None:
    assert float(emodel.rating(0.0)) == pytest.approx(93.2, abs=0.05)
    assert float(emodel.mean_opinion_score(0.0)) == pytest.approx(4.41, abs=0.005)


@pytest.mark.parametrize(("rating", "score"), [(90, 4.34), (80, 4.03), (70, 3.60), (60, 3.10), (50, 2.58)])
def test_ratings_become_the_scores_of_table_b1(rating: float, score: float) -> None:
    # ITU-T G.107 (2015), table B.1.
    assert float(emodel.opinion(rating)) == pytest.approx(score, abs=0.0101)


# One-way delay in ms, loss, and the score that Flent 2.3.0 computes, which was compared with ITU-T's calculator.
REFERENCE = [
    (0, 0.0, 4.4094),
    (20, 0.0, 4.3960),
    (150, 0.01, 3.6718),
    (250, 0.02, 2.5235),
    (400, 0.0, 3.2156),
    (50, 0.05, 2.0975),
]


@pytest.mark.parametrize(("delay", "loss", "score"), REFERENCE)
def test_delay_and_loss_cost_what_the_reference_says(delay: float, loss: float, score: float) -> None:
    assert float(emodel.mean_opinion_score(delay, 0.0, loss)) == pytest.approx(score, abs=0.0005)


def test_nothing_is_lost_of_delay_below_a_tenth_of_a_second_but_echo() -> None:
    assert float(emodel.delay_impairment(99.0)) < 3
    assert float(emodel.delay_impairment(300.0)) > 12


@given(
    st.floats(0, 10_000),
    st.floats(0, 10_000),
    st.floats(0, 1),
    st.floats(0, 1000),
)
def test_more_delay_or_loss_is_never_better(delay: float, more: float, loss: float, jitter: float) -> None:
    score = float(emodel.mean_opinion_score(delay, jitter, loss))
    assert 1 <= score <= 4.5
    # Echo of a talker is masked a little better at some tens of milliseconds: a wave of some thousandths.
    assert float(emodel.mean_opinion_score(delay + more, jitter, loss)) <= score + 0.01
    assert float(emodel.mean_opinion_score(delay, jitter, min(1.0, loss + 0.1))) <= score + 1e-9
