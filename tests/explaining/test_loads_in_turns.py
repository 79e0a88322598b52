"""The rate of a direction that had its turn in a part of the load only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from whydrop.explaining.recordings.measures import loads

S = 1_000_000_000


def outside(start_s: float, end_s: float) -> list[int]:
    """Seconds of a load of ten that are left out for a direction with flows from start to end."""
    flow: Any = SimpleNamespace(start_ns=round(start_s * S), end_ns=round(end_s * S))
    spans: Any = SimpleNamespace(second_ns=S)
    return np.flatnonzero(loads._outside([flow], np.arange(10) * S, spans)).tolist()


def test_seconds_before_and_after_a_direction_had_its_turn_are_left_out() -> None:
    assert outside(3.0, 8.0) == [0, 1, 2, 8, 9]


def test_seconds_that_are_partly_its_own_are_left_out_too() -> None:
    assert outside(2.5, 7.5) == [0, 1, 2, 7, 8, 9]


def test_nothing_is_left_out_of_a_direction_that_had_all_of_the_load() -> None:
    assert outside(-1.0, 11.0) == []
    # A flow that ended within the last second is no other turn.
    assert outside(0.2, 9.7) == []
