"""Ticks: every multiple of the interval once, whatever happens to the clocks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whydrop.monitoring.switches.schedule import MOST_MISSED, SECOND_NS, STEP_NS, Schedule, Tick

INTERVAL = 10 * SECOND_NS
START = 1_700_000_000 * SECOND_NS  # a multiple of ten seconds


@dataclass
class FakeClock:
    """Time that passes only in sleep; sets of the wall clock and hold-ups happen when their time has come."""

    wall: int = START + 3 * SECOND_NS
    steady: int = 50 * SECOND_NS
    steps: list[tuple[int, int]] = field(default_factory=list)  # steady time, by how much
    holds: list[tuple[int, int]] = field(default_factory=list)

    def wall_ns(self) -> int:
        return self.wall

    def steady_ns(self) -> int:
        return self.steady

    async def sleep(self, seconds: float) -> None:
        self.pass_by(round(seconds * SECOND_NS))
        while self.holds and self.holds[0][0] <= self.steady:
            self.pass_by(self.holds.pop(0)[1])

    def pass_by(self, time_ns: int) -> None:
        self.wall += time_ns
        self.steady += time_ns
        while self.steps and self.steps[0][0] <= self.steady:
            self.wall += self.steps.pop(0)[1]


def ticks(clock: FakeClock, count: int, interval: int = INTERVAL) -> list[Tick]:
    """The next ticks of a schedule that begins now."""

    async def collect() -> list[Tick]:
        schedule = Schedule(interval, clock)
        return [await schedule.next() for _ in range(count)]

    return asyncio.run(collect())


def test_ticks_are_the_wall_clocks_multiples_of_the_interval():
    clock = FakeClock()
    assert ticks(clock, 3) == [Tick(START + number * INTERVAL) for number in (1, 2, 3)]
    assert clock.wall == START + 3 * INTERVAL


def test_a_schedule_that_begins_at_a_tick_begins_with_it():
    assert ticks(FakeClock(wall=START), 1) == [Tick(START)]


def test_a_clock_set_forward_passes_over_ticks_that_never_were():
    clock = FakeClock(steps=[(55 * SECOND_NS, 3600 * SECOND_NS)])
    first, second = ticks(clock, 2)
    assert first.due_ns == START + 3600 * SECOND_NS + INTERVAL
    assert (first.stepped_ns, first.missed_in_all) == (3600 * SECOND_NS, 0)
    assert second == Tick(first.due_ns + INTERVAL)


def test_a_clock_set_back_over_ticks_that_were_polled_polls_none_of_them_again():
    clock = FakeClock(steps=[(50 * SECOND_NS + 4 * INTERVAL, -25 * SECOND_NS)])
    found = ticks(clock, 6)
    dues = [tick.due_ns for tick in found]
    assert dues == [START + number * INTERVAL for number in (1, 2, 3, 4, 5, 6)]
    assert [tick.stepped_ns for tick in found] == [0, 0, 0, 0, -25 * SECOND_NS, 0]
    # Ten seconds for each tick, and the time that the clock was set back.
    assert clock.steady == 50 * SECOND_NS + 57 * SECOND_NS + 25 * SECOND_NS


def test_a_clock_that_was_wrong_from_the_beginning_and_is_set_back_goes_on_at_once():
    year = 365 * 86400 * SECOND_NS
    clock = FakeClock(steps=[(50 * SECOND_NS + 2 * INTERVAL, -year)])
    dues = [tick.due_ns for tick in ticks(clock, 4)]
    assert dues == [START + INTERVAL, START + 2 * INTERVAL, START - year + 3 * INTERVAL, START - year + 4 * INTERVAL]


def test_a_collector_that_was_delayed_reports_every_tick_that_it_missed():
    clock = FakeClock(holds=[(58 * SECOND_NS, 41 * SECOND_NS)])
    found = ticks(clock, 3)
    # Delayed from 11 s to 52 s: the tick at 50 s is young enough to be polled.
    missed = tuple(START + number * INTERVAL for number in (2, 3, 4))
    assert found == [Tick(START + INTERVAL), Tick(START + 5 * INTERVAL, missed, 3), Tick(START + 6 * INTERVAL)]


def test_a_tick_that_is_older_than_half_an_interval_is_missed():
    clock = FakeClock(wall=START + 9 * SECOND_NS, holds=[(50 * SECOND_NS, 8 * SECOND_NS)])
    assert ticks(clock, 1) == [Tick(START + 2 * INTERVAL, (START + INTERVAL,), 1)]


def test_after_a_day_of_suspension_the_missed_ticks_are_counted_and_the_last_of_them_reported():
    clock = FakeClock(holds=[(50 * SECOND_NS, 86400 * SECOND_NS)])
    (tick,) = ticks(clock, 1)
    assert tick.missed_in_all == 8639
    assert len(tick.missed) == MOST_MISSED
    assert tick.missed[-1] == tick.due_ns - INTERVAL


def test_an_interval_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="expected a positive"):
        Schedule(0, FakeClock())


_MOVES = st.lists(st.tuples(st.integers(0, 300 * SECOND_NS), st.integers(-90 * SECOND_NS, 90 * SECOND_NS)), max_size=6)
_HOLDS = st.lists(st.tuples(st.integers(0, 300 * SECOND_NS), st.integers(0, 90 * SECOND_NS)), max_size=4)


@settings(deadline=None)
@given(_MOVES, _HOLDS, st.integers(1, 20), st.integers(0, 20 * SECOND_NS))
def test_whatever_the_clocks_do_no_tick_comes_twice_and_none_before_its_time(steps, holds, interval_s, begin):
    interval = interval_s * SECOND_NS
    at = [(50 * SECOND_NS + when, by) for when, by in sorted(steps)]
    clock = FakeClock(START + begin, 50 * SECOND_NS, at, [(50 * SECOND_NS + when, by) for when, by in sorted(holds)])

    async def collect() -> list[tuple[Tick, int]]:
        schedule = Schedule(interval, clock)
        return [(await schedule.next(), clock.wall) for _ in range(20)]

    found = asyncio.run(collect())
    seen = [due for tick, _ in found for due in (*tick.missed, tick.due_ns)]
    assert len(seen) == len(set(seen))
    assert all(due % interval == 0 for due in seen)
    # A clock that is set less than a step between two looks may be that much before its time.
    assert all(0 <= wall - tick.due_ns <= interval / 2 for tick, wall in found)


@settings(deadline=None)
@given(st.lists(st.integers(-STEP_NS // 2, STEP_NS // 2), min_size=20, max_size=20))
def test_a_clock_that_is_slewed_is_no_clock_that_was_set(slews):
    clock = FakeClock(steps=[(50 * SECOND_NS + number * 5 * SECOND_NS, by) for number, by in enumerate(slews)])
    found = ticks(clock, 8)
    assert all(tick.stepped_ns == 0 and tick.missed_in_all == 0 for tick in found)
    dues = [tick.due_ns for tick in found]
    assert dues == sorted(set(dues))
