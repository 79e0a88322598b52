"""How long it was between two readings of a switch, and whether the switch began anew in between.

Three clocks tell: the wall clock of the host, which may be set at any time; its steady clock (CLOCK_BOOTTIME), which
cannot; and the switch's sysUpTime (RFC 3418), which says how long its counters have been going.
"""

from __future__ import annotations

from dataclasses import dataclass

from whydrop.collect.switches.readings import Reading

SECOND_NS = 1_000_000_000
TICK_NS = 10_000_000  # of TimeTicks
UPTIME_WRAP_NS = 2**32 * TICK_NS  # 497 days

# What two clocks may differ by and still agree: sysUpTime is read somewhere within the poll, in steps of 10 ms (some
# agents: of a second), and crystals are no better than 1 in 1000 at worst.
_AGREE_NS = SECOND_NS
_AGREE_SHARE = 1000
# What the wall clock may gain on the steady one while it is only slewed, not set (adjtimex: 500 ppm, chrony: more).
_SLEW_NS = SECOND_NS // 100
_SLEW_SHARE = 100


@dataclass(frozen=True)
class Moment:
    """When a reading's counters were read."""

    number: int  # of the reading, counting failed ones
    at_ns: int  # wall clock, in the middle of the poll: nobody knows better, and at most half a poll is wrong
    steady_ns: int | None
    uptime_ns: int | None
    poll_ns: int  # how long the poll took
    earlier_run: bool = False  # of a collector that ended since


@dataclass(frozen=True)
class Between:
    """The time between two readings."""

    elapsed_ns: int | None  # how long it truly was, if that is known
    span_ns: int | None  # how far the wall clock went, unless it was set; then what elapsed
    began_anew: bool | None  # whether the switch (or its agent) did; None: it does not say
    gap: bool  # polls were missed


def moment(reading: Reading, number: int) -> Moment | None:
    """When the counters of ``reading`` were read; ``None`` where it does not say."""
    start, end = reading.start_ns, reading.end_ns
    if end is None:
        return None
    # A wall clock that was set back during the poll would make it take a negative time.
    poll = max(0, end - start) if start is not None else 0
    steady = None if reading.steady_ns is None else reading.steady_ns - poll // 2
    return Moment(number, end - poll // 2, steady, reading.uptime_ns, poll)


def between(before: Moment, now: Moment, interval_ns: int) -> Between:
    """Measure the time between two readings of one switch, of which ``before`` is the earlier.

    Args:
        before: the earlier one.
        now: the later one.
        interval_ns: at which the switch is polled.
    """
    if before.earlier_run:
        return _across_runs(before, now, interval_ns)
    if before.steady_ns is not None and now.steady_ns is not None and now.steady_ns > before.steady_ns:
        passed = now.steady_ns - before.steady_ns
        elapsed: int | None = passed
        anew = _began_anew(before, now, passed)
        span: int | None = _span(now.at_ns - before.at_ns, passed)
    else:
        elapsed, span, anew = _by_wall_and_uptime(before, now, interval_ns)
    late = elapsed is not None and 2 * elapsed > 3 * interval_ns
    return Between(elapsed, span, anew, gap=late or now.number - before.number > 1)


def same_pace(one_ns: int, other_ns: int) -> bool:
    """True if two clocks agree on how long it was, as far as clocks do."""
    return one_ns > 0 and other_ns > 0 and abs(one_ns - other_ns) <= _AGREE_NS + one_ns // _AGREE_SHARE


def _across_runs(before: Moment, now: Moment, interval_ns: int) -> Between:
    """Measure the time between the last reading of a collector that ended and the first one of the next.

    Nobody watched the clocks meanwhile: only what two of them prove is said.
    """
    wall, passed = now.at_ns - before.at_ns, None
    if before.steady_ns is not None and now.steady_ns is not None and now.steady_ns > before.steady_ns:
        passed = now.steady_ns - before.steady_ns
    elapsed = wall if passed is None else passed
    unknown = Between(None, None, None, gap=True)
    if not 0 < elapsed < UPTIME_WRAP_NS // 2 or before.uptime_ns is None:
        return unknown
    anew = _began_anew(before, now, elapsed)
    # A switch that had only just begun may have begun again at once, and would be up for as long.
    if anew is None or (anew is False and before.uptime_ns <= _tolerance_ns(before, now, elapsed)):
        return unknown
    span = elapsed if passed is None else _span(wall, passed)
    return Between(elapsed, span, anew, gap=2 * elapsed > 3 * interval_ns)


def _span(wall_ns: int, elapsed_ns: int) -> int:
    """Windows join without seams as long as the wall clock is not set."""
    slewed = abs(wall_ns - elapsed_ns) <= _SLEW_NS + elapsed_ns // _SLEW_SHARE
    return wall_ns if slewed and wall_ns > 0 else elapsed_ns


def _tolerance_ns(before: Moment, now: Moment, elapsed_ns: int) -> int:
    return _AGREE_NS + before.poll_ns + now.poll_ns + elapsed_ns // _AGREE_SHARE


def _began_anew(before: Moment, now: Moment, elapsed_ns: int) -> bool | None:
    """True if sysUpTime began anew, given how long it was. It wraps after 497 days, which is none."""
    if before.uptime_ns is None or now.uptime_ns is None:
        return None
    tolerance = _tolerance_ns(before, now, elapsed_ns)
    if now.uptime_ns == before.uptime_ns == 0:
        return None  # Agents that do not count it say so.
    if abs(_circular(now.uptime_ns - before.uptime_ns - elapsed_ns)) <= tolerance:
        return False
    # What began anew in between cannot be up for longer than that. If it says so, its clock was set or stands still.
    return True if now.uptime_ns <= elapsed_ns + tolerance else None


def _by_wall_and_uptime(before: Moment, now: Moment, interval_ns: int) -> tuple[int | None, int | None, bool | None]:
    """Elapsed time, span, and whether the switch began anew, where the host has no steady clock."""
    wall = now.at_ns - before.at_ns
    # Polls are made at ticks: the half of an interval between them is a clock that was set.
    believed = wall if 2 * wall >= interval_ns else None
    if before.uptime_ns is None or now.uptime_ns is None:
        return believed, believed, None
    if wall > 0 and (anew := _began_anew(before, now, wall)) is not None:
        return wall, wall, anew
    if now.uptime_ns == before.uptime_ns:
        return believed, believed, None
    if now.uptime_ns < before.uptime_ns:
        return None, None, True
    # The switch has been up all the time as far as it can tell, and the wall clock disagrees: that one was set.
    return now.uptime_ns - before.uptime_ns, None, False if wall > 0 else None


def _circular(difference_ns: int) -> int:
    """The smallest that it may be, TimeTicks being 32 bits."""
    half = UPTIME_WRAP_NS // 2
    return (difference_ns + half) % UPTIME_WRAP_NS - half
