"""DISCO's version 2: differences of counters, as the poller made them without a thought of wraps and resets.

A failed poll leaves a gap, and the next difference spans it. Differences are of 64 bits without a sign, so that one of
2^63 or more means a counter that fell: it wrapped, if it has 32 bits, or it was reset.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any

from whydrop.formats.archives import disco_octets
from whydrop.formats.archives.disco_rows import NS, Rows, Series, Warnings, most
from whydrop.formats.archives.disco_samples import HALF, Grown, Sample

_WORD = 1 << 64
_WORD_32 = 1 << 32

# What the poller asks for by OIDs of 32 bits: ifInDiscards, ifInErrors, dot3InPauseFrames and their like.
COUNTED_IN_32_BITS = ("discards", "errors", "pause")

# A reset is distinguished from a wrap by the growth that a wrap would mean; where the time since the poll before is not
# known, half of what 32 bits hold is taken for too much.
_MOST_OF_UNKNOWN_SPAN = _WORD_32 // 2


def rows_of(series: Sequence[Series], warnings: Warnings) -> Rows:
    """The samples of one file of version 2.

    Args:
        series: its metrics.
        warnings: what was amiss is added to them.
    """
    grown = [Grown(of, _samples(of, warnings)) for of in series]
    for metric in grown:
        _difference(metric, warnings)
    _note_gaps([sample for metric in grown for sample in metric.samples])
    if _is_first_poll(grown):
        warnings.add("The first samples are a poller's first: their growth is not known", f"{len(grown)} metrics")
        for metric in grown:
            metric.samples[:1] = [_without_value(sample) for sample in metric.samples[:1]]
    fallen = _resets(grown)
    for metric in grown:
        for sample in metric.samples:
            _give_value(metric.of, sample, fallen, warnings)
    rows = Rows()
    for metric, counter in disco_octets.named(grown, warnings):
        _add(rows, metric, counter)
    return rows


def _samples(of: Series, warnings: Warnings) -> list[Sample]:
    found = []
    for sample in of.samples:
        second = of.second(sample)
        counter = _unsigned(sample.get("counter")) if second is not None else None
        if second is None or counter is None:
            warnings.add("Samples are none (expected timestamp, value and counter)", f"{of.name}: {sample}")
            continue
        start_ns, end_ns = _time(sample.get("collectstart")), _time(sample.get("collectend"))
        found.append(Sample(second, counter, _unsigned(sample.get("value")), start_ns, end_ns))
    return found


def _unsigned(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _WORD else None


def _time(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < HALF else None


def _difference(metric: Grown, warnings: Warnings) -> None:
    """The time between samples; and the growth by the counters themselves, which the file's must equal."""
    for before, sample in zip(metric.samples, metric.samples[1:], strict=False):
        if sample.second > before.second:
            sample.span_s = sample.second - before.second
        else:
            warnings.add(
                "Samples are not behind the one before them in time: how long they cover is not known",
                f"{metric.of.name}: {sample.second} behind {before.second}",
            )
        grown = (sample.counter - before.counter) % _WORD
        if sample.delta != grown:
            warnings.add(
                "Values are not the difference of the counters beside them, which is taken instead",
                f"{metric.of.name}: {sample.delta} at {sample.second}, not {grown}",
            )
            sample.delta = grown


def _note_gaps(samples: Sequence[Sample]) -> None:
    """Polls were missed before a sample that covers more than half an interval too much."""
    spans = Tally(sample.span_s for sample in samples if sample.span_s is not None)
    if not spans:
        return
    interval_s = min(spans, key=lambda span: (-spans[span], span))
    for sample in samples:
        if sample.span_s is not None and 2 * sample.span_s > 3 * interval_s:
            sample.flags.append("gap")


def _is_first_poll(grown: Sequence[Grown]) -> bool:
    """True if the poller had just begun: all counters seem to have grown from zero at once."""
    first = [metric.samples[0] for metric in grown if metric.samples]
    return all(sample.delta == sample.counter for sample in first) and any(sample.counter for sample in first)


def _without_value(sample: Sample) -> Sample:
    sample.delta = None
    return sample


def _resets(grown: Sequence[Grown]) -> set[tuple[str, str, int]]:
    """The times of a port's resets: a counter of 64 bits, which takes centuries to wrap, fell."""
    return {
        (metric.of.switch, metric.of.port, sample.second)
        for metric in grown
        if not _has_32_bits(metric.of)
        for sample in metric.samples
        if sample.fell
    }


def _has_32_bits(of: Series) -> bool:
    return of.counter.partition(".")[0] in COUNTED_IN_32_BITS


def _give_value(of: Series, sample: Sample, fallen: set[tuple[str, str, int]], warnings: Warnings) -> None:
    if sample.delta is None:
        return
    limit = _MOST_OF_UNKNOWN_SPAN if sample.span_s is None else most(of.counter, sample.span_s)
    if sample.fell and _has_32_bits(of) and (of.switch, of.port, sample.second) not in fallen:
        before = (sample.counter - sample.delta) % _WORD
        wrapped = sample.delta - _WORD + _WORD_32
        if before < _WORD_32 and 0 < wrapped <= limit:
            sample.flags.append("wrap")
            sample.value = wrapped
            return
    if sample.fell:
        sample.flags.append("reset")
    elif sample.span_s is not None and sample.delta > limit:
        warnings.add(
            "Values are more than a port can carry: taken as resets of counters",
            f"{of.name}: {sample.delta} at {sample.second}",
        )
        sample.flags.append("reset")
    else:
        sample.value = sample.delta


def _add(rows: Rows, metric: Grown, counter: str) -> None:
    samples = metric.samples
    rows.add(
        metric.of,
        counter,
        end_ns=[sample.second * NS for sample in samples],
        span_ns=[None if sample.span_s is None else sample.span_s * NS for sample in samples],
        value=[None if sample.value is None else float(sample.value) for sample in samples],
        total=[sample.counter if sample.counter < HALF else None for sample in samples],
        poll_start_ns=[sample.poll_start_ns for sample in samples],
        poll_end_ns=[sample.poll_end_ns for sample in samples],
        quality=["+".join(sample.flags) or "ok" for sample in samples],
    )
