"""The share of time bins in which a switch discarded packets, by site, month and direction.

A bin is a sample of the telemetry as it is: ten seconds of DISCO, less than a second where a switch is polled as often.
A sample after a gap covers several bins of unknown content, and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.studies.days import LEAST_DAYS, dependence, effective, effective_for_variance
from whydrop.studies.discards import results

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from whydrop.studies.discards.parameters import Parameters

# In the order of the legend.
DIRECTIONS = ("rx", "tx")
#: Stands for all months together.
ALL = "all"

_SECOND = 1_000_000_000
_SERIES = ("metro", "site", "switch", "machine", "day", "direction")
_PLACE = ("metro", "site", "direction")
# A span beyond this many usual ones of the day covers a missed poll.
_MOST_SPANS = 1.5


def samples_of(counter: str, counters: ir.Table, parameters: Parameters) -> ir.Table:
    """Known samples of a counter of both directions at the studied port and metros, with their ``direction``."""
    if parameters.metros:
        counters = counters.filter(counters.metro.isin(list(parameters.metros)))
    samples = counters.filter(
        counters.port == parameters.port,
        counters.counter.isin([f"{counter}.{direction}" for direction in DIRECTIONS]),
        counters.value.notnull(),
        counters.span_ns > 0,
    )
    return samples.mutate(direction=(samples.counter == f"{counter}.tx").ifelse("tx", "rx"))


def by_length(counters: ir.Table, parameters: Parameters) -> ir.Table:
    """Samples of discards by series, day and length (`results.DISCARD_BIN_DAYS`)."""
    samples = samples_of("discards", counters, parameters)
    # Lengths to the second, short ones to 10 ms: polls are some milliseconds beside their tick.
    unit = (samples.span_ns >= 5 * _SECOND).ifelse(_SECOND, _SECOND // 100)
    nearest = samples.span_ns + (samples.span_ns >= 5 * _SECOND).ifelse(_SECOND // 2, _SECOND // 200)
    samples = samples.mutate(
        bin_ns=nearest - nearest % unit,
    )
    return samples.group_by(*_SERIES, "bin_ns").agg(
        bins=samples.count(),
        with_discards=samples.count(where=samples.value > 0),
        discards=samples.value.sum(),
    )


def discard_bins(days_by_length: pl.DataFrame) -> pl.DataFrame:
    """A frame of `results.DISCARD_BINS`: each site's months, and all of them together, in each direction."""
    days = _days(days_by_length)
    parts = [days.with_columns(month=pl.col("day").str.slice(0, 7)), days.with_columns(month=pl.lit(ALL))]
    rows = list(_rows(pl.concat(parts)))
    order = ["metro", "site", "month", "direction"]
    return pl.DataFrame(rows, schema=results.DISCARD_BINS).sort(order, nulls_last=False)


def _days(days_by_length: pl.DataFrame) -> pl.DataFrame:
    """Each site's bins of the day's usual length: of the machine with most bins of each switch, over its switches."""
    switch_day = ["metro", "site", "switch", "direction", "day"]
    usual = (
        days_by_length.group_by(*switch_day, "bin_ns")
        .agg(pl.col("bins").sum())
        .sort("bins", "bin_ns", descending=[True, False])
        .unique(switch_day, keep="first", maintain_order=True)
        .select(*switch_day, usual_ns="bin_ns")
    )
    kept = days_by_length.join(usual, on=switch_day, nulls_equal=True)
    kept = kept.filter(pl.col("bin_ns") <= _MOST_SPANS * pl.col("usual_ns"))
    series = kept.group_by(_SERIES).agg(pl.col("bins", "with_discards", "discards").sum(), pl.col("usual_ns").first())
    best = series.sort("bins", "machine", descending=[True, False], nulls_last=False).unique(
        switch_day, keep="first", maintain_order=True
    )
    sums = pl.col("bins", "with_discards", "discards").sum()
    return best.group_by(*_PLACE, "day").agg(sums, pl.col("usual_ns").sort_by("bins").last())


def _rows(days: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for (metro, site, direction, month), own in days.sort("day").group_by(*_PLACE, "month", maintain_order=True):
        with_discards, bins = (own[name].to_numpy().astype(float) for name in ("with_discards", "bins"))
        ordinals = np.array([date.fromisoformat(day).toordinal() for day in own["day"]], dtype=np.int64)
        low, high = _interval(ordinals, with_discards, bins)
        yield {
            "metro": metro, "site": site, "month": month, "direction": direction,
            "bin_s": own.sort("bins")["usual_ns"][-1] / _SECOND, "days": own.height, "bins": int(bins.sum()),
            "with_discards": int(with_discards.sum()), "share": with_discards.sum() / bins.sum(), "low": low,
            "high": high, "discards": own["discards"].sum(),
        }  # fmt: skip


def _interval(
    day: NDArray[np.int64], with_discards: NDArray[np.float64], bins: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """A 95 % interval of the share; none where there are few days, or no discard that would show how days differ.

    Bins of a day are alike, and days depend on each other. So days are the units of a ratio of sums (W. G. Cochran,
    "Sampling Techniques", 1977, section 6.8), their effective number follows from their autocorrelation, and the
    error is at least that of independent bins. On the scale of logarithms, as shares are near zero.
    """
    from scipy import special

    if len(day) < LEAST_DAYS or not with_discards.any():
        return None, None
    share = float(with_discards.sum() / bins.sum())
    autocorrelation = dependence([(day, with_discards / bins)])
    count = effective(day, autocorrelation)
    freedom = effective_for_variance(day, autocorrelation) - 1
    if freedom < 1 or count <= 1:
        return None, None
    influence = (with_discards - share * bins) / (share * bins.mean())
    # The variance of dependent days about their own mean is too small.
    of_days = float((influence**2).sum()) / (len(day) - len(day) / count) / count
    of_bins = (1 - share) / float(with_discards.sum())
    reach = float(special.stdtrit(freedom, 0.975)) * math.sqrt(max(of_days, of_bins))
    return share * math.exp(-reach), min(1.0, share * math.exp(reach))
