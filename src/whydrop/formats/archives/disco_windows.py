"""DISCO's version 1: rates of RRD over windows of ten seconds.

M-Lab's own parser leaves out the last sample of each file, which the next file repeats; but files lack what RRD did not
know, so that the last may be another. Here the sample at the end of the file's time is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from whydrop.formats.archives.disco_rows import NS, Rows, Series, Warnings, is_time, most

# RRD's step, and the length of every sample.
STEP_S = 10
_HOUR_S = 3600

_NAMED_END = re.compile(r"-to-(\d{4})-?(\d\d)-?(\d\d)T(\d\d)(?::|%3A)?(\d\d)(?::|%3A)?(\d\d)", re.IGNORECASE)

_Samples = tuple[list[int], list[float]]


def rows_of(series: Sequence[Series], name: str, warnings: Warnings) -> Rows:
    """The samples of one file of version 1.

    Args:
        series: its metrics.
        name: of the file, which commonly has the time of its end.
        warnings: what was amiss is added to them.
    """
    rows = Rows()
    parsed = [(of, _samples(of, warnings)) for of in series]
    end_s = _named_end_s(name)
    if end_s is None:
        end_s = _told_end_s([bound(seconds) for _, (seconds, _) in parsed if seconds for bound in (min, max)])
    for of, (seconds, values) in parsed:
        kept = [index for index, second in enumerate(seconds) if second != end_s]
        ends = [seconds[index] + STEP_S for index in kept]
        checked, qualities = _checked(of, ends, [values[index] for index in kept], warnings)
        rows.add(
            of,
            end_ns=[end * NS for end in ends],
            span_ns=[STEP_S * NS] * len(ends),
            value=checked,
            quality=qualities,
        )
    return rows


def _samples(of: Series, warnings: Warnings) -> _Samples:
    """Starts of windows in seconds, and values; those that are null are not there."""
    try:
        # Nearly all files: nothing in them needs a second look.
        seconds = [sample["timestamp"] for sample in of.samples]
        values = [sample["value"] for sample in of.samples]
    except (TypeError, KeyError):
        return _one_by_one(of, warnings)
    plain = set(map(type, seconds)) == {int} and set(map(type, values)) <= {float}
    if plain and is_time(min(seconds)) and is_time(max(seconds)) and math.isfinite(sum(values)):
        return seconds, values
    return _one_by_one(of, warnings)


def _one_by_one(of: Series, warnings: Warnings) -> _Samples:
    seconds, values = [], []
    for sample in of.samples:
        second = of.second(sample)
        value = sample.get("value", "") if second is not None else ""
        if second is None or isinstance(value, bool) or not isinstance(value, int | float | None):
            warnings.add("Samples are none (expected a timestamp and a number as value)", f"{of.name}: {sample}")
        elif value is not None:
            seconds.append(second)
            values.append(_as_float(value))
    return seconds, values


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _checked(
    of: Series, ends: Sequence[int], values: Sequence[float], warnings: Warnings
) -> tuple[list[float | None], list[str]]:
    """Values and their quality; what no port can have carried becomes null, as after a reset."""
    limit = most(of.counter, STEP_S)
    checked: list[float | None] = []
    qualities = []
    for end, value in zip(ends, values, strict=True):
        if 0 <= value <= limit:
            checked.append(value)
            qualities.append("ok" if value.is_integer() else "interpolated")
        else:
            warnings.add(
                "Values are more than a port can carry, as RRD computes them after a reset: taken as resets",
                f"{of.name}: {value:g} at {end}",
            )
            checked.append(None)
            qualities.append("reset")
    return checked, qualities


def _named_end_s(name: str) -> int | None:
    found = _NAMED_END.search(name)
    if found is None:
        return None
    try:
        return int(datetime(*map(int, found.groups()), tzinfo=UTC).timestamp())  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def _told_end_s(bounds: Sequence[int]) -> int | None:
    """The end of a file without a time in its name: the next full hour after its beginning."""
    if not bounds:
        return None
    first, last = min(bounds), max(bounds)
    return last if last % _HOUR_S == 0 and last > first else None
