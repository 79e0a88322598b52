"""Pause frames (IEEE 802.3x) against the performance of tests: each site's days, and how their ranks go together.

A port that receives pause frames must stop sending: its queue grows, and overflows if the pause is long. A port that
sends them makes its neighbour wait instead of discarding. Both may slow tests down, and busy hours bring both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.statistics.differences import holm
from whydrop.studies.days import LEAST_DAYS, dependence, effective
from whydrop.studies.discards.bins import DIRECTIONS, samples_of

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from whydrop.store.engines import Backend
    from whydrop.studies.discards.parameters import Parameters

_I64, _F64, _TEXT = pl.Int64(), pl.Float64(), pl.String()
_SITE_DAY = ("metro", "site", "day")
_MEASURES = {"speed": "speed_bps", "discards": "discard_ratio"}

# One row for each site and day with a value of a pause counter. `rx_per_s`: pause frames that the switch received on
# the port, `tx_per_s` sent, over the time that samples cover; of the machine with most samples, added over switches.
# `speed_bps` as figure 2, `discard_ratio` as figure 3 (tx); null without tests, or without packets.
DAYS = {
    "metro": _TEXT, "site": _TEXT, "day": _TEXT, "rx_per_s": _F64, "tx_per_s": _F64, "speed_bps": _F64,
    "discard_ratio": _F64,
}  # fmt: skip

# One row for each site, direction of pause frames and measure (speed, discards). `rho`: Spearman's rank correlation
# over days that have both; `low` and `high` its interval (95 %), `p` of no correlation, by `effective_days`; adjusted
# by Holm over all rows. `conclusion`: higher, lower (the measure on days with more pause frames), undecided, unknown
# (`why`).
CORRELATIONS = {
    "metro": _TEXT, "site": _TEXT, "direction": _TEXT, "measure": _TEXT, "days": _I64, "effective_days": _F64,
    "rho": _F64, "low": _F64, "high": _F64, "p": _F64, "adjusted_p": _F64, "conclusion": _TEXT, "why": _TEXT,
}  # fmt: skip


@dataclass(frozen=True)
class Pauses:
    """Pause frames beside tests.

    Attributes:
        days: a row for each site and day.
        correlations: a row for each site, direction and measure.
        notes: sentences on what is unknown and why.
    """

    days: pl.DataFrame
    correlations: pl.DataFrame
    notes: list[str]


def pauses(backend: Backend, parameters: Parameters) -> Pauses:
    """Pause frames of each site and day, beside the speed of downloads and the discards.

    Args:
        backend: an open store.
        parameters: the days, metros and port; definitions are the corrected ones.
    """
    from whydrop.studies.discards import diagnosis, queries

    parameters, notes = diagnosis.fitted(backend, parameters)
    tables = queries.Tables.of(backend, parameters.days)
    series = backend.run(by_day(tables.counters, parameters))
    if series.is_empty():
        return Pauses(pl.DataFrame(schema=DAYS), pl.DataFrame(schema=CORRELATIONS), [*notes, _nothing(parameters)])
    found = queries.compute(backend, parameters, only=("download_speed", "discard_ratio"))
    speeds = found["download_speed"].select(*_SITE_DAY, "speed_bps")
    discards = found["discard_ratio"].select(*_SITE_DAY, discard_ratio="ratio")
    days = _rates(series)
    for other in (speeds, discards):
        days = days.join(other, on=_SITE_DAY, how="left", nulls_equal=True)
    days = days.select(pl.col(name).cast(kind) for name, kind in DAYS.items()).sort(_SITE_DAY)
    level = 0.01 if parameters.change is None else parameters.change.significance
    return Pauses(days, correlations(days, level), notes)


def _nothing(parameters: Parameters) -> str:
    where = f" of {', '.join(parameters.metros)}" if parameters.metros else ""
    days = f"{parameters.days.first} to {parameters.days.last}"
    return (
        f"Whether pause frames slow tests down is unknown: the store has no values of the counters pause.rx and "
        f"pause.tx of the port {parameters.port!r}{where} from {days}. `whydrop collect` "
        "stores them where a switch has EtherLike-MIB's dot3PauseTable."
    )


def by_day(counters: ir.Table, parameters: Parameters, counter: str = "pause") -> ir.Table:
    """Pause frames, or what another counter of both directions counts, by machine, day and direction."""
    samples = samples_of(counter, counters, parameters)
    return samples.group_by("metro", "site", "switch", "machine", "day", "direction").agg(
        samples=samples.count(), frames=samples.value.sum(), span_ns=samples.span_ns.sum()
    )


def _rates(series: pl.DataFrame) -> pl.DataFrame:
    """Frames per second of each site and day, in both directions."""
    own = ["metro", "site", "switch", "day", "direction"]
    best = series.sort("samples", "machine", descending=[True, False], nulls_last=False)
    best = best.unique(own, keep="first", maintain_order=True)
    rate = pl.col("frames") * 1e9 / pl.col("span_ns")
    each = [
        rate.filter(pl.col("direction") == name).sum().alias(f"{name}_per_s")
        if name in series["direction"]
        else pl.lit(None, dtype=_F64).alias(f"{name}_per_s")
        for name in DIRECTIONS
    ]
    counted = [(pl.col("direction") == name).any().alias(f"has_{name}") for name in DIRECTIONS]
    days = best.group_by(_SITE_DAY).agg(*each, *counted)
    # A direction that was not counted on a day is unknown, not zero.
    return days.with_columns(pl.when(f"has_{name}").then(f"{name}_per_s").alias(f"{name}_per_s") for name in DIRECTIONS)


def correlations(days: pl.DataFrame, significance: float = 0.01) -> pl.DataFrame:
    """A frame of `CORRELATIONS` from one of `DAYS`."""
    rows = list(_rows(days))
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["adjusted_p"] = p
        if not row["why"]:
            word = "higher" if row["rho"] > 0 else "lower"
            row["conclusion"] = word if p is not None and p < significance else "undecided"
    return pl.DataFrame(rows, schema=CORRELATIONS)


def _rows(days: pl.DataFrame) -> Iterator[dict[str, Any]]:
    for (metro, site), own in days.sort(_SITE_DAY).group_by("metro", "site", maintain_order=True):
        for direction in DIRECTIONS:
            for measure, column in _MEASURES.items():
                both = own.drop_nulls([f"{direction}_per_s", column])
                ordinals = np.array([date.fromisoformat(day).toordinal() for day in both["day"]], dtype=np.int64)
                found = correlation(ordinals, both[f"{direction}_per_s"].to_numpy(), both[column].to_numpy())
                place = {"metro": metro, "site": site, "direction": direction, "measure": measure}
                yield {**place, "days": both.height, **found}


def correlation(day: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64]) -> dict[str, Any]:
    """Spearman's rank correlation of two series of days, its interval and p-value.

    Days depend on each other. Two series of which both do have fewer independent pairs, by the product of their
    autocorrelations (M. S. Bartlett, "On the theoretical specification and sampling properties of autocorrelated
    time-series", JRSS Supplement 8, 1946). The interval is Fisher's, with the variance of ranks (D. G. Bonett and T. A.
    Wright, "Sample size requirements for estimating Pearson, Kendall and Spearman correlations", Psychometrika 65,
    2000).

    Args:
        day: proleptic ordinals, in order.
        x: a value of each day.
        y: another one.
    """
    from scipy import special

    row: dict[str, Any] = dict.fromkeys(("effective_days", "rho", "low", "high", "p"))
    row |= {"conclusion": "unknown", "why": ""}
    if len(day) < LEAST_DAYS:
        return row | {"why": f"fewer than {LEAST_DAYS} days have both"}
    if not np.ptp(x) or not np.ptp(y):
        what = "pause frames are" if not np.ptp(x) else "the measure is"
        return row | {"why": f"{what} {'0' if not (x if not np.ptp(x) else y).any() else 'the same'} on all days"}
    rank_x, rank_y = (pl.Series(values).rank().to_numpy() for values in (x, y))
    rho = float(np.corrcoef(rank_x, rank_y)[0, 1])
    count = effective(day, dependence([(day, x)]) * dependence([(day, y)]))
    row |= {"rho": rho, "effective_days": count}
    if count < LEAST_DAYS:
        return row | {"why": "the days depend on each other too much: fewer than 5 are independent"}
    inside = max(-1 + 1e-9, min(1 - 1e-9, rho))
    quantile = float(special.stdtrit(count - 2, 0.975))
    reach = quantile * math.sqrt((1 + inside**2 / 2) / (count - 3))
    statistic = abs(inside) * math.sqrt((count - 2) / (1 - inside**2))
    return row | {
        "low": math.tanh(math.atanh(inside) - reach), "high": math.tanh(math.atanh(inside) + reach),
        "p": float(2 * special.stdtr(count - 2, -statistic)),
    }  # fmt: skip
