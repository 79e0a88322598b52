"""DISCO's samples as rows of the table ``counters``, with their spans, values and quality.

Version 1 has rates of RRD over windows of ten seconds. M-Lab's own parser leaves out the last sample of each file,
which the next file repeats; but files lack what RRD did not know, so that the last may be another. Here the sample at
the end of the file's time is left out.

Version 2 has differences of counters, as the poller made them without a thought of wraps and resets. A failed poll
leaves a gap, and the next difference spans it. Differences are of 64 bits without a sign, so that one of 2^63 or more
means a counter that fell: it wrapped, if it has 32 bits, or it was reset.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import polars as pl

from whydrop.formats.archives import disco_octets
from whydrop.formats.archives.noting import Warnings
from whydrop.store.tables import COUNTERS, conform

_NS = 1_000_000_000
# RRD's step, and the length of every sample of version 1.
_STEP_S = 10
_HOUR_S = 3600
_NAMED_END = re.compile(r"-to-(\d{4})-?(\d\d)-?(\d\d)T(\d\d)(?::|%3A)?(\d\d)(?::|%3A)?(\d\d)", re.IGNORECASE)

# No switch of the platform had ports of more than 10 Gb/s. Ten times that leaves no doubt, and what a counter that
# was reset is taken for is commonly nine orders of magnitude beyond.
_FASTEST_BPS = 100e9
# An Ethernet frame of 64 B, its preamble and the gap behind it.
_LEAST_WIRE_BYTES = 84
# Times that are none: before this software was thought of, or beyond what int64 holds in nanoseconds.
_EARLIEST_S, _LATEST_S = 946_684_800, 9_200_000_000

_WORD, _HALF = 1 << 64, 1 << 63
_WORD_32 = 1 << 32
# What the poller asks for by OIDs of 32 bits: ifInDiscards, ifInErrors, dot3InPauseFrames and their like.
_COUNTED_IN_32_BITS = ("discards", "errors", "pause")
# A reset is distinguished from a wrap by the growth that a wrap would mean; where the time since the poll before is not
# known, half of what 32 bits hold is taken for too much.
_MOST_OF_UNKNOWN_SPAN = _WORD_32 / 2

_WINDOW = {"second": pl.Int64(), "value": pl.Float64()}
_POLL = {
    "metric": pl.Int32(),
    "second": pl.Int64(),
    "total": pl.UInt64(),
    "delta": pl.UInt64(),
    "poll_start_ns": pl.Int64(),
    "poll_end_ns": pl.Int64(),
}
_PLACE = ("metro", "site", "switch", "machine", "port", "counter")


class Series(NamedTuple):
    """The samples of one metric, as the file has them."""

    metro: str | None
    site: str | None
    switch: str
    machine: str
    port: str
    counter: str
    samples: Sequence[Any]

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.counter} of {self.port}"

    @property
    def has_counters(self) -> bool:
        """True if it is of version 2."""
        return any(isinstance(sample, dict) and "counter" in sample for sample in self.samples)


def rows_of(series: Sequence[Series], name: str, warnings: Warnings) -> pl.DataFrame:
    """The samples of one file, of either version.

    Args:
        series: its metrics.
        name: of the file, which commonly has the time of its end.
        warnings: what was amiss is added to them.
    """
    places = pl.DataFrame(
        [(number, *of[:-1]) for number, of in enumerate(series)],
        {"metric": pl.Int32(), **{name: COUNTERS[name] for name in _PLACE}},
        orient="row",
    )
    windows, polls = (
        [(number, of) for number, of in enumerate(series) if of.has_counters is has_counters]
        for has_counters in (False, True)
    )
    found = [pl.DataFrame(schema=COUNTERS)]
    if windows:
        rows = _windows(windows, warnings).join(places, on="metric", how="left", maintain_order="left")
        found.append(conform("counters", _of_windows(rows, name, warnings)))
    if polls:
        rows = _polls(polls, warnings).join(places, on="metric", how="left", maintain_order="left")
        found.append(conform("counters", _of_polls(rows, len(polls), warnings)))
    return pl.concat(found)


def _windows(series: Sequence[tuple[int, Series]], warnings: Warnings) -> pl.DataFrame:
    """Starts of windows and values of version 1; samples that are null are not there."""
    frames = []
    for number, of in series:
        try:
            # Nearly all files: nothing in them needs a second look.
            seconds = [sample["timestamp"] for sample in of.samples]
            values = [sample["value"] for sample in of.samples]
            is_plain = set(map(type, seconds)) == {int} and set(map(type, values)) <= {float}
            is_plain = is_plain and all(map(_is_time, (min(seconds), max(seconds))))
        except (TypeError, KeyError):
            is_plain = False
        if not is_plain:
            seconds, values = [], []
            for sample in of.samples:
                second = _second(sample)
                value = sample.get("value", "") if second is not None else ""
                if isinstance(value, bool) or not isinstance(value, int | float | None):
                    kind = "Samples are none (expected a timestamp and a number as value)"
                    warnings.add(kind, f"{of.name}: {sample}")
                elif value is not None:
                    seconds.append(second)
                    values.append(_as_float(value))
        frames.append(pl.DataFrame({"second": seconds, "value": values}, _WINDOW).with_columns(metric=pl.lit(number)))
    return pl.concat(frames)


def _polls(series: Sequence[tuple[int, Series]], warnings: Warnings) -> pl.DataFrame:
    """The polls of version 2."""
    found = []
    for number, of in series:
        for sample in of.samples:
            second = _second(sample)
            counter = _whole(sample.get("counter"), _WORD) if second is not None else None
            if counter is None:
                warnings.add("Samples are none (expected timestamp, value and counter)", f"{of.name}: {sample}")
                continue
            times = (_whole(sample.get(key), _HALF) for key in ("collectstart", "collectend"))
            found.append((number, second, counter, _whole(sample.get("value"), _WORD), *times))
    return pl.DataFrame(found, _POLL, orient="row")


def _second(sample: Any) -> int | None:
    """A sample's timestamp; None where it has none that could be."""
    stamp = sample.get("timestamp") if isinstance(sample, dict) else None
    if isinstance(stamp, float) and stamp.is_integer():
        stamp = int(stamp)
    return stamp if type(stamp) is int and _is_time(stamp) else None


def _is_time(second: int) -> bool:
    return _EARLIEST_S <= second < _LATEST_S


def _whole(value: Any, end: int) -> int | None:
    return value if type(value) is int and 0 <= value < end else None


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _of_windows(rows: pl.DataFrame, name: str, warnings: Warnings) -> pl.DataFrame:
    """Rows of version 1; what no port can have carried becomes null, as after a reset."""
    end_s = _named_end_s(name)
    if end_s is None and rows.height:
        # The next full hour after the beginning.
        first, last = rows.select(first=pl.col("second").min(), last=pl.col("second").max()).row(0)
        end_s = last if last % _HOUR_S == 0 and last > first else None
    rows = rows.filter(pl.col("second").ne_missing(end_s)).with_columns(end_s=pl.col("second") + _STEP_S)
    value = pl.col("value")
    is_possible = value.is_between(0, _most(pl.lit(_STEP_S)))
    warnings.add_all(
        "Values are more than a port can carry, as RRD computes them after a reset: taken as resets",
        rows.filter(~is_possible),
        lambda row: f"{row['value']:g} at {row['end_s']}",
    )
    quality = pl.when(~is_possible).then(pl.lit("reset")).when(value == value.floor()).then(pl.lit("ok"))
    return rows.select(
        *_PLACE,
        end_ns=pl.col("end_s") * _NS,
        span_ns=pl.lit(_STEP_S * _NS, dtype=pl.Int64),
        value=pl.when(is_possible).then(value),
        quality=quality.otherwise(pl.lit("interpolated")),
    )


def _named_end_s(name: str) -> int | None:
    found = _NAMED_END.search(name)
    try:
        return int(datetime(*map(int, found.groups()), tzinfo=UTC).timestamp()) if found else None  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def _of_polls(rows: pl.DataFrame, metrics: int, warnings: Warnings) -> pl.DataFrame:
    """Rows of version 2, of so many metrics."""
    # Of 64 bits without a sign, as the poller's: what fell is more than half of them.
    rows = rows.with_columns(
        step_s=pl.col("second").diff().over("metric"),
        grown=(pl.col("total") - pl.col("total").shift(1)).over("metric"),
    ).with_columns(span_s=pl.when(pl.col("step_s") > 0).then("step_s"))
    warnings.add_all(
        "Samples are not behind the one before them in time: how long they cover is not known",
        rows.filter(pl.col("step_s") <= 0),
        lambda row: f"{row['second']} behind {row['second'] - row['step_s']}",
    )
    warnings.add_all(
        "Values are not the difference of the counters beside them, which is taken instead",
        rows.filter(pl.col("grown").is_not_null() & pl.col("delta").ne_missing(pl.col("grown"))),
        lambda row: f"{row['delta']} at {row['second']}, not {row['grown']}",
    )
    rows = _without_first_growth(rows.with_columns(delta=pl.coalesce("grown", "delta")), metrics, warnings)
    rows = _with_values(rows, warnings)
    rows = disco_octets.named(rows, warnings)
    flags = [pl.when(flag).then(pl.lit(flag)) for flag in ("gap", "wrap", "reset", "repaired")]
    quality = pl.concat_str(flags, separator="+", ignore_nulls=True)
    return rows.select(
        *_PLACE,
        pl.col("second").mul(_NS).alias("end_ns"),
        pl.col("span_s").mul(_NS).alias("span_ns"),
        "value",
        pl.when(pl.col("total") < _HALF).then("total"),
        "poll_start_ns",
        "poll_end_ns",
        pl.when(quality == "").then(pl.lit("ok")).otherwise(quality).alias("quality"),
    )


def _without_first_growth(rows: pl.DataFrame, metrics: int, warnings: Warnings) -> pl.DataFrame:
    """Without the growth of samples that are the poller's first: all counters seem to have grown from zero at once."""
    is_first = pl.col("metric").is_first_distinct()
    first = rows.filter(is_first)
    if not (first["delta"].eq_missing(first["total"]).all() and (first["total"] > 0).any()):
        return rows
    warnings.add("The first samples are a poller's first: their growth is not known", f"{metrics} metrics")
    return rows.with_columns(delta=pl.when(~is_first).then("delta"))


def _with_values(rows: pl.DataFrame, warnings: Warnings) -> pl.DataFrame:
    """The growth of each sample, as far as it is known, and why not or why it is another."""
    spans = rows["span_s"].drop_nulls()
    usual_s = spans.mode().min() if len(spans) else None
    delta, total = pl.col("delta"), pl.col("total")
    fell = (delta >= _HALF).fill_null(value=False)
    has_32_bits = pl.col("counter").str.split(".").list.first().is_in(_COUNTED_IN_32_BITS)
    # A counter of 64 bits takes centuries to wrap: where one fell, its port was reset.
    was_reset = (fell & ~has_32_bits).any().over("switch", "port", "second")
    limit = pl.when(pl.col("span_s").is_null()).then(_MOST_OF_UNKNOWN_SPAN).otherwise(_most(pl.col("span_s")))
    # Of a counter of 32 bits that was full in between.
    wrapped = delta + pl.lit(_WORD_32, dtype=pl.UInt64)
    wraps = (
        (fell & has_32_bits & ~was_reset)
        & ((total - delta) < _WORD_32)
        & (delta >= pl.lit(_WORD - _WORD_32, dtype=pl.UInt64))
        & wrapped.is_between(1, limit)
    )
    is_too_much = ~fell & pl.col("span_s").is_not_null() & (delta > limit)
    rows = rows.with_columns(
        # Polls were missed before a sample that covers more than half an interval too much.
        gap=(2 * pl.col("span_s") > 3 * pl.lit(usual_s, dtype=pl.Int64)).fill_null(value=False),
        wrap=wraps.fill_null(value=False),
        too_much=is_too_much.fill_null(value=False),
    ).with_columns(reset=(fell & ~pl.col("wrap")) | pl.col("too_much"), repaired=pl.lit(value=False))
    warnings.add_all(
        "Values are more than a port can carry: taken as resets of counters",
        rows.filter("too_much"),
        lambda row: f"{row['delta']} at {row['second']}",
    )
    value = pl.when("wrap").then(wrapped).when(~pl.col("reset")).then(delta)
    return rows.with_columns(value=value.cast(pl.Float64))


def _most(span_s: pl.Expr) -> pl.Expr:
    """More than a port can count in that time: bytes of a counter of octets, packets of any other."""
    is_octets = pl.col("counter").str.starts_with("octets.")
    per_s = pl.when(is_octets).then(_FASTEST_BPS / 8).otherwise(_FASTEST_BPS / 8 / _LEAST_WIRE_BYTES)
    return (per_s * span_s).ceil()
