"""From the steps of delay of each recording to one row a recording, as Ibis expressions: written once for every engine.

A recording's last start is when the last flow that makes load started. Times are of whole steps from then on: the step
in which it lies is partly before it, and does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from whydrop.store.engines import Backend

SECOND_NS = 1_000_000_000
# A delay is contained when no step of so long a time is above the target ...
CALM_NS = SECOND_NS
# ... and of all later steps no larger share is.
MOST_ABOVE = 0.05
# For the picture of delay over time: from and to, after the last start.
BEFORE_NS, AFTER_NS = -2 * SECOND_NS, 15 * SECOND_NS
# Bins of a distribution are merged to this many for each factor of ten above 1 ms, and as they are below.
_BINS_OF_TEN = 60


def containment(backend: Backend, target_ns: int) -> ir.Table:
    """One row for each recording with delays after its last start.

    Columns: ``recording``; ``steps``; ``above`` (steps with a median induced delay above the target, or with all
    probes lost); ``observed_ns`` (from the last start to the end of the last step); ``calm_ns`` (the first step from
    which for one second none is above; null: there is none); ``contained_ns`` (the same, and of all steps from there to
    the end of the load at most `MOST_ABOVE` are above).
    """
    import ibis

    steps = _after_last_start(backend)
    steps = steps.filter(steps.since_ns >= 0)
    above = (steps.median_ns.isnull() | (steps.median_ns > target_ns)).cast("int64")
    steps = steps.mutate(above=above)
    steps = steps.mutate(above_ns=(steps.above == 1).ifelse(steps.since_ns, ibis.null("int64")))
    later = ibis.window(group_by=steps.recording, order_by=steps.since_ns, preceding=0, following=None)
    known = steps.select(
        "recording", "since_ns", "above",
        end_ns=steps.since_ns + steps.step_ns,
        next_above_ns=steps.above_ns.min().over(later),
        last_ns=(steps.since_ns + steps.step_ns).max().over(later),
        above_left=steps.above.sum().over(later),
        left=steps.since_ns.count().over(later),
    )  # fmt: skip
    until = ibis.least(known.next_above_ns.coalesce(known.last_ns), known.last_ns)
    calm = until - known.since_ns >= CALM_NS
    stays = known.above_left.cast("float64") <= known.left.cast("float64") * MOST_ABOVE
    return known.group_by("recording").agg(
        steps=known.count(),
        above=known.above.sum(),
        observed_ns=known.end_ns.max(),
        calm_ns=known.since_ns.min(where=calm),
        contained_ns=known.since_ns.min(where=calm & stays),
    )


def over_time(backend: Backend) -> ir.Table:
    """Delays around the last start: ``recording``, ``step`` (its number after the last start), ``median_ns``."""
    steps = _after_last_start(backend)
    steps = steps.filter((steps.since_ns >= BEFORE_NS) & (steps.since_ns < AFTER_NS))
    return steps.select(
        "recording", "median_ns", step_ns=steps.step_ns, step=(steps.since_ns / steps.step_ns).floor().cast("int64")
    )


def distributions(backend: Backend) -> ir.Table:
    """How many probes under load had how much induced delay: ``recording``, ``bin``, ``upper_ns``, ``samples``.

    Bins above 1 ms are merged, as a picture shows no more.
    """
    counts = backend.table("delay_counts")
    counts = counts.filter(counts.load & (counts.samples > 0))
    ms = counts.upper_ns / 1e6
    number = (ms > 1).ifelse((ms.nullif(0).log10() * _BINS_OF_TEN).ceil(), (ms * 10).round() - 10).cast("int64")
    counts = counts.mutate(bin=number)
    return counts.group_by("recording", "bin").agg(upper_ns=counts.upper_ns.max(), samples=counts.samples.sum())


def _after_last_start(backend: Backend) -> ir.Table:
    """Steps under load with ``since_ns``, the time of their start after the recording's last start."""
    recordings = backend.table("recordings")
    # A recording that was imported twice is one.
    times = recordings.group_by("recording").agg(
        last=(recordings.last_start_ns.coalesce(recordings.load_start_ns) - recordings.load_start_ns).max(),
        length=(recordings.load_end_ns - recordings.load_start_ns).max(),
        step_ns=recordings.step_ns.max(),
    )
    times = times.filter(times.step_ns > 0)
    delays = backend.table("delays")
    joined = delays.inner_join(times, "recording")
    joined = joined.filter(joined.after_load_ns + joined.step_ns <= joined.length)
    return joined.select("recording", "median_ns", "step_ns", since_ns=joined.after_load_ns - joined["last"])
