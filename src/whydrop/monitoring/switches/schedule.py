"""When to poll: at the wall clock's multiples of an interval, each of them once, even where the clock is set."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

SECOND_NS = 1_000_000_000

# The wall clock was set if it moved by more than this against the elapsed time; less is NTP slewing it (chrony's
# fastest slew, 83333 ppm, gains 42 ms in the time between two looks).
STEP_NS = 100_000_000
# The longest sleep between two looks at the clocks.
_LOOK_NS = 500_000_000
# Of a collector that did not run for long (stopped, a suspended machine), so many of the missed ticks are reported.
MOST_MISSED = 360


class Clock:
    """This machine's clocks."""

    def wall_ns(self) -> int:
        """CLOCK_REALTIME, UTC; may be set at any moment."""
        return time.time_ns()

    def steady_ns(self) -> int:
        """CLOCK_BOOTTIME: counts on in suspend, so that a suspended machine does not look like a clock that was set."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Wait in the event loop."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True)
class Tick:
    """A tick that is due now.

    Attributes:
        due_ns: a multiple of the interval; no two ticks have the same.
        missed: ticks since the one before at which the collector did not run, in their order.
        missed_in_all: their number; larger than ``len(missed)`` where there are too many to list.
        stepped_ns: by how much the wall clock was set forward (negative: back) since the tick before; 0: not set.
    """

    due_ns: int
    missed: tuple[int, ...] = ()
    missed_in_all: int = 0
    stepped_ns: int = 0


class Schedule:
    """The ticks of the wall clock, one after the other.

    Ticks that a clock skips when it is set forward are not missed, as no time passed. Ticks that a clock reaches again
    after it was set back are not polled again, so the next one may be far away (`next_due_ns`).

    Args:
        interval_ns: between ticks.
    """

    def __init__(self, interval_ns: int, clock: Clock) -> None:
        if interval_ns <= 0:
            raise ValueError(f"an interval of {interval_ns} ns; expected a positive one")
        self._interval = interval_ns
        self._clock = clock
        self._taken: list[tuple[int, int]] = []  # first and last of each run of ticks that are over
        now, self._offset = self._look()
        self._due = self._free(self._ceiling(now))

    @property
    def next_due_ns(self) -> int:
        """The next tick, unless the clock is set."""
        return self._due

    async def next(self) -> Tick:
        """Wait for the next tick."""
        missed: list[int] = []
        missed_in_all = stepped = 0
        while True:
            now, offset = self._look()
            step, self._offset = offset - self._offset, offset
            if abs(step) > STEP_NS:
                stepped += step
                self._due = self._free(self._ceiling(now))
            elif now < self._due:
                await self._clock.sleep(min(self._due - now, _LOOK_NS) / SECOND_NS)
            else:
                due, passed = self._reached(now)
                missed_in_all += passed[1]
                missed = (missed + passed[0])[-MOST_MISSED:]
                if due is not None:
                    return Tick(due, tuple(missed), missed_in_all, stepped)

    def _reached(self, now: int) -> tuple[int | None, tuple[list[int], int]]:
        """The tick to poll now, and the missed ones before it (the last of them, and their number).

        A tick that is more than half an interval old is missed too: its reading would belong to the next one.
        """
        first, latest = self._due, now - now % self._interval
        due = latest if (now - latest) * 2 <= self._interval and self._is_free(latest) else None
        last_missed = latest if due is None else latest - self._interval
        begin = max(first, last_missed - (MOST_MISSED - 1) * self._interval)
        missed = [tick for tick in range(begin, last_missed + 1, self._interval) if self._is_free(tick)]
        in_all = max(len(missed), (last_missed - first) // self._interval + 1) if missed else 0
        self._take(first, latest)
        self._due = self._free(latest + self._interval)
        return due, (missed, in_all)

    def _look(self) -> tuple[int, int]:
        """The wall clock, and its lead over the steady one."""
        while True:
            before = self._clock.steady_ns()
            wall = self._clock.wall_ns()
            after = self._clock.steady_ns()
            # A pause between reading the two clocks would look like a step.
            if after - before < STEP_NS // 10:
                return wall, wall - after

    def _ceiling(self, time_ns: int) -> int:
        return -(-time_ns // self._interval) * self._interval

    def _is_free(self, tick: int) -> bool:
        return all(not first <= tick <= last for first, last in self._taken)

    def _free(self, tick: int) -> int:
        """``tick``, or the first one after it that was not taken yet."""
        for first, last in self._taken:
            if first <= tick <= last:
                tick = last + self._interval
        return tick

    def _take(self, first: int, last: int) -> None:
        """Mark ticks as over; runs stay in order and apart, so there are no more than steps back."""
        runs: list[tuple[int, int]] = []
        for run in sorted([*self._taken, (first, last)]):
            if runs and run[0] <= runs[-1][1] + self._interval:
                runs[-1] = (runs[-1][0], max(runs[-1][1], run[1]))
            else:
                runs.append(run)
        self._taken = runs
