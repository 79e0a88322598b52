"""Which tests were exposed to discards: joins of tests with the switch's samples that overlap them.

A join of overlaps compares each test with each sample unless it is given something to be equal. Here samples are put
into buckets of time by their ends, and each test into the few buckets in which samples that overlap it can end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from whydrop.studies.discards.parameters import Parameters

NANOSECONDS = 1_000_000_000
DAY_NS = 86_400 * NANOSECONDS

# Widths of buckets. A sample is in buckets of the smallest width that is not below its span, so that a gap of an hour
# does not make all tests look for samples an hour away. Longer samples say nothing of a moment, and are left out.
WIDTHS_NS = (60 * NANOSECONDS, 3600 * NANOSECONDS, DAY_NS // 2)

# The identity of a test: as the store's keys, and by site if an archive does not name the server.
_KEY = (
    "time_ns",
    "site",
    "machine",
    "test_id",
    "server",
    "local_address",
    "local_port",
    "remote_address",
    "remote_port",
)


def published_exposure(tests: ir.Table, samples: ir.Table, parameters: Parameters) -> ir.Table:
    """As the report has it: two bins from that in which the test began, of one machine; what is missing is zero.

    Args:
        tests: downloads, all machines'.
        samples: of discards, all machines'.
        parameters: the machine, the bin, and what the recorded times meant.
    """
    import ibis

    bin_ns = parameters.bin_s * NANOSECONDS
    # The times in the table of 2018 were one bin earlier than the ends of the windows (1).
    earlier = bin_ns if parameters.contact.recorded == "starts" else 0
    samples = samples.filter(samples.machine == parameters.published_machine, samples.value > 0)
    # Archives hold ends on the bins' edges, the collector those of polls: milliseconds, or a late second, beside them.
    nearest = samples.end_ns + bin_ns // 2
    recorded = nearest - nearest % bin_ns - earlier
    joined = [samples.select("site", "value", bin=recorded - bins * bin_ns) for bins in (1, 2)]
    either = joined[0].union(joined[1])
    bins = either.group_by("site", "bin").agg(discards=either.value.sum())
    tests = tests.filter(tests.machine == parameters.published_machine)
    tests = _described(tests).mutate(bin=tests.start_ns - tests.start_ns % bin_ns)
    found = tests.left_join(bins, ["site", "bin"])
    return found.mutate(
        {
            "class": (found.discards > 0).fill_null(False).ifelse("non-zero", "zero"),
            "discards": found.discards.fill_null(0.0),
            "covered": ibis.null("float64"),
        }
    )


def exposure_of_downloads(tests: ir.Table, samples: ir.Table, most_duration_s: float) -> ir.Table:
    """Which samples overlap each test: any with discards, or all of it covered without, or not known.

    Args:
        tests: downloads of at most ``most_duration_s``.
        samples: of discards, with a value; also of the day before and the day after.
        most_duration_s: bounds the buckets of a test, s.
    """
    import ibis

    tests = _described(tests)
    samples = samples.filter(samples.span_ns > 0)
    pairs = _overlapping(tests, samples, most_duration_s)
    exposed = _summed(pairs)
    # A test passes one of its site's switches, which is not recorded: all of them must be known. Those are counted that
    # have samples on the test's day, the day before or the day after, so that all that overlap it are among them.
    switches = samples.select("site", "switch", day_ns=samples.end_ns - samples.end_ns % DAY_NS).distinct()
    around = switches.union(
        *(switches.mutate(day_ns=switches.day_ns + days * DAY_NS) for days in (-1, 1)), distinct=True
    )
    known = around.group_by("site", "day_ns").agg(known=around.count())
    found = tests.left_join(exposed, "key").left_join(known, ["site", "day_ns"])
    covered_ns = ibis.ifelse(found.seen >= found.known, found.covered_ns, 0).fill_null(0)
    elapsed_ns = found.end_ns - found.start_ns
    unknown = ibis.ifelse(covered_ns == elapsed_ns, "zero", "unknown").fill_null("unknown")
    return found.mutate(
        {
            "class": (found.discards > 0).fill_null(False).ifelse("non-zero", unknown),
            "covered": (covered_ns / elapsed_ns.cast("float64")).fill_null(0.0),
        }
    )


def _described(tests: ir.Table) -> ir.Table:
    """Columns of `results.CONTACTS` that describe the test, and a ``key``."""
    import ibis

    key = ibis.literal("|").join([tests[column].cast("string").fill_null("") for column in _KEY])
    return tests.select(
        *("metro", "site", "machine", "test_id", "start_ns", "speed_bps", "day"),
        end_ns=tests.start_ns + tests.elapsed_ns,
        client=tests.remote_address,
        day_ns=tests.time_ns - tests.time_ns % DAY_NS,
        key=key,
    )


def _overlapping(tests: ir.Table, samples: ir.Table, most_duration_s: float) -> ir.Table:
    """Each test with each sample that overlaps it, clipped to it: ``start``, ``end``, and the sample's ``value``."""
    import ibis

    width: ir.IntegerValue = ibis.literal(WIDTHS_NS[-1])
    for narrower in reversed(WIDTHS_NS[:-1]):
        width = ibis.ifelse(samples.span_ns <= narrower, narrower, width)
    samples = samples.filter(samples.span_ns <= WIDTHS_NS[-1]).select(
        *("site", "switch", "value"),
        sampler=samples.machine,
        sample_start=samples.end_ns - samples.span_ns,
        sample_end=samples.end_ns,
        width=width.cast("int64"),
        bucket=samples.end_ns - samples.end_ns % width,
    )
    wanted = _buckets(tests, WIDTHS_NS[0], most_duration_s)
    for wider in WIDTHS_NS[1:]:
        wanted = wanted.union(_buckets(tests, wider, most_duration_s))
    pairs = wanted.join(
        samples,
        [
            wanted.site == samples.site,
            wanted.width == samples.width,
            wanted.bucket == samples.bucket,
            samples.sample_start < wanted.end_ns,
            samples.sample_end > wanted.start_ns,
            # Only what is read for this day whatever other days are asked for: the day before and the day after.
            samples.sample_end >= wanted.day_ns - DAY_NS,
            samples.sample_end < wanted.day_ns + 2 * DAY_NS,
        ],
    )
    return pairs.select(
        *("key", "switch", "sampler", "value"),
        start=ibis.greatest(pairs.sample_start, pairs.start_ns),
        end=ibis.least(pairs.sample_end, pairs.end_ns),
    )


def _buckets(tests: ir.Table, width_ns: int, most_duration_s: float) -> ir.Table:
    """Each test with each bucket of ``width_ns`` in which samples of that length at most, that overlap it, can end."""
    import ibis

    # Ends are after the test's start, and before its end and another width.
    most = int(most_duration_s * NANOSECONDS) // width_ns + 3
    steps = ibis.array([number * width_ns for number in range(most)]).unnest().name("step").as_table()
    found = tests.select("key", "site", "start_ns", "end_ns", "day_ns").cross_join(steps)
    found = found.mutate(
        width=ibis.literal(width_ns, "int64"), bucket=found.start_ns - found.start_ns % width_ns + found.step
    )
    return found.filter(found.bucket < found.end_ns + width_ns).drop("step")


def _summed(pairs: ir.Table) -> ir.Table:
    """By test: ``discards``, ``covered_ns`` and of how many switches samples were ``seen``.

    Each machine of a site has a view of the same port: together they cover the union of their windows, and the largest
    sum of discards is the most complete one.
    """
    import ibis

    # The union of windows: in order, each counts for what lies behind all before it.
    before = pairs.end.max().over(
        ibis.window(group_by=["key", "switch"], order_by=["start", "end", "sampler"], preceding=(None, 1))
    )
    fresh_from = ibis.greatest(pairs.start, before.fill_null(pairs.start))
    pairs = pairs.mutate(fresh_ns=ibis.greatest(pairs.end - fresh_from, 0))
    views = pairs.group_by("key", "switch", "sampler").agg(
        discards=pairs.value.sum(), fresh_ns=pairs.fresh_ns.sum().cast("int64")
    )
    switches = views.group_by("key", "switch").agg(
        discards=views.discards.max(), covered_ns=views.fresh_ns.sum().cast("int64")
    )
    return switches.group_by("key").agg(
        discards=switches.discards.sum(), covered_ns=switches.covered_ns.min(), seen=switches.count()
    )
