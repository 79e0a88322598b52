"""The time between two readings of a switch, and whether the switch restarted in between.

Three clocks are compared: the wall clock of the host, which may be set at any time; its steady clock (CLOCK_BOOTTIME),
which cannot; and the switch's sysUpTime (RFC 3418), the time since its counters began.
"""

from __future__ import annotations

from dataclasses import dataclass

from whydrop.monitoring.switches.readings import Reading

SECOND_NS = 1_000_000_000
TICK_NS = 10_000_000  # of TimeTicks
UPTIME_WRAP_NS = 2**32 * TICK_NS  # 497 days

# The difference up to which two clocks agree: sysUpTime is read somewhere within the poll, in steps of 10 ms (some
# agents: of a second), and poor crystals are wrong by 1 in 1000.
_AGREE_NS = SECOND_NS
_AGREE_SHARE = 1000
# The difference up to which the wall clock was slewed, not set (adjtimex: 500 ppm, chrony: more).
_SLEW_NS = SECOND_NS // 100
_SLEW_SHARE = 100


@dataclass(frozen=True)
class Moment:
    """When a reading's counters were read."""

    number: int  # of the reading, counting failed ones
    at_ns: int  # wall clock, in the middle of the poll: wrong by half a poll at most
    steady_ns: int | None
    uptime_ns: int | None
    poll_ns: int  # how long the poll took
    earlier_run: bool = False  # of a collector that ended since


@dataclass(frozen=True)
class Between:
    """The time between two readings."""

    elapsed_ns: int | None  # the true time; None: not known
    span_ns: int | None  # the difference of the wall clock; the true time where the clock was set
    restarted: bool | None  # the switch, or its agent; None: not known
    gap: bool  # polls were missed


def moment(reading: Reading, number: int) -> Moment | None:
    """When the counters of ``reading`` were read; ``None`` where that is not known."""
    start, end = reading.start_ns, reading.end_ns
    if end is None:
        return None
    # Where the wall clock was set back during the poll, its duration would be negative.
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
        restarted = _restarted(before, now, passed)
        span: int | None = _span(now.at_ns - before.at_ns, passed)
    else:
        elapsed, span, restarted = _by_wall_and_uptime(before, now, interval_ns)
    late = elapsed is not None and 2 * elapsed > 3 * interval_ns
    return Between(elapsed, span, restarted, gap=late or now.number - before.number > 1)


def same_pace(one_ns: int, other_ns: int) -> bool:
    """True if two clocks agree on a duration, within their accuracy."""
    return one_ns > 0 and other_ns > 0 and abs(one_ns - other_ns) <= _AGREE_NS + one_ns // _AGREE_SHARE


def _across_runs(before: Moment, now: Moment, interval_ns: int) -> Between:
    """Measure the time between the last reading of a collector that ended and the first one of the next.

    No collector watched the clocks in between, so two of them must agree.
    """
    wall, passed = now.at_ns - before.at_ns, None
    if before.steady_ns is not None and now.steady_ns is not None and now.steady_ns > before.steady_ns:
        passed = now.steady_ns - before.steady_ns
    elapsed = wall if passed is None else passed
    unknown = Between(None, None, None, gap=True)
    if not 0 < elapsed < UPTIME_WRAP_NS // 2 or before.uptime_ns is None:
        return unknown
    restarted = _restarted(before, now, elapsed)
    # A switch that had just started may have restarted at once: its uptime would be the same.
    if restarted is None or (restarted is False and before.uptime_ns <= _tolerance_ns(before, now, elapsed)):
        return unknown
    span = elapsed if passed is None else _span(wall, passed)
    return Between(elapsed, span, restarted, gap=2 * elapsed > 3 * interval_ns)


def _span(wall_ns: int, elapsed_ns: int) -> int:
    """The difference of the wall clock, so that windows join without seams, unless it was set."""
    slewed = abs(wall_ns - elapsed_ns) <= _SLEW_NS + elapsed_ns // _SLEW_SHARE
    return wall_ns if slewed and wall_ns > 0 else elapsed_ns


def _tolerance_ns(before: Moment, now: Moment, elapsed_ns: int) -> int:
    return _AGREE_NS + before.poll_ns + now.poll_ns + elapsed_ns // _AGREE_SHARE


def _restarted(before: Moment, now: Moment, elapsed_ns: int) -> bool | None:
    """True if the switch restarted, given the elapsed time; sysUpTime wraps after 497 days without a restart."""
    if before.uptime_ns is None or now.uptime_ns is None:
        return None
    tolerance = _tolerance_ns(before, now, elapsed_ns)
    if now.uptime_ns == before.uptime_ns == 0:
        return None  # The agent does not count it.
    if abs(_circular(now.uptime_ns - before.uptime_ns - elapsed_ns)) <= tolerance:
        return False
    # A switch that restarted in between cannot be up for longer. If it reports so, its clock was set or stands still.
    return True if now.uptime_ns <= elapsed_ns + tolerance else None


def _by_wall_and_uptime(before: Moment, now: Moment, interval_ns: int) -> tuple[int | None, int | None, bool | None]:
    """Elapsed time, span, and whether the switch restarted, where the host has no steady clock."""
    wall = now.at_ns - before.at_ns
    # Polls are made at ticks: less than half an interval between two means that the clock was set.
    believed = wall if 2 * wall >= interval_ns else None
    if before.uptime_ns is None or now.uptime_ns is None:
        return believed, believed, None
    if wall > 0 and (restarted := _restarted(before, now, wall)) is not None:
        return wall, wall, restarted
    if now.uptime_ns == before.uptime_ns:
        return believed, believed, None
    if now.uptime_ns < before.uptime_ns:
        return None, None, True
    # By its uptime the switch went on, and the wall clock disagrees: the wall clock was set.
    return now.uptime_ns - before.uptime_ns, None, False if wall > 0 else None


def _circular(difference_ns: int) -> int:
    """The smallest possible difference, as TimeTicks have 32 bits."""
    half = UPTIME_WRAP_NS // 2
    return (difference_ns + half) % UPTIME_WRAP_NS - half
