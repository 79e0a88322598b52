"""Sums over connections: what limits them, how fast and far they are, and whether that changed; with 95 % intervals.

Connections of one client are no independent observations. With m connections of each client, the effective number of
independent ones in a group is (sum m)^2 / sum m^2 (L. Kish, "Survey Sampling", 1965, for clients with alike
connections): a cautious estimate, never more than its clients. Shares have the intervals of E. B. Wilson ("Probable
Inference", JASA 22, 1927), quantiles those of R. S. Woodruff ("Confidence Intervals for Medians and Other Position
Measures", JASA 47, 1952), both for that number.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from ipaddress import ip_address, ip_network

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.statistics.differences import holm
from whydrop.studies.days import LEAST_DAYS, dependence, effective, effective_for_variance

Values = NDArray[np.float64]

RECEIVE_WINDOW = "receive window"
SEND_BUFFER = "send buffer"
NETWORK = "congestion window, pacing or recovery"
APPLICATION = "application"
SENDER = "application or send buffer"
MIXED = "no single one"
UNKNOWN = "unknown"
# In the order of the sentences; web100 does not distinguish the application from the send buffer.
LIMITERS = (NETWORK, RECEIVE_WINDOW, SEND_BUFFER, APPLICATION, SENDER, MIXED, UNKNOWN)

# What of a connection has a distribution, its unit, and the factor from the column to it.
QUANTITIES = {"throughput_bps": "bit/s", "mean_rtt_ms": "ms", "retransmitted_share": ""}
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BY = ("all", "site", "day", "network")

LIMITS = {
    "by": pl.String(), "group": pl.String(), "limiter": pl.String(), "connections": pl.Int64(), "share": pl.Float64(),
    "low": pl.Float64(), "high": pl.Float64(),
}  # fmt: skip
DISTRIBUTIONS = {
    "by": pl.String(), "group": pl.String(), "quantity": pl.String(), "connections": pl.Int64(), "worth": pl.Float64(),
    **{f"p{round(100 * q)}": pl.Float64() for q in QUANTILES}, "median_low": pl.Float64(), "median_high": pl.Float64(),
}  # fmt: skip
CHANGES = {
    "site": pl.String(), "quantity": pl.String(), "days_before": pl.Int64(), "days_after": pl.Int64(),
    "before": pl.Float64(), "after": pl.Float64(), "ratio": pl.Float64(), "low": pl.Float64(), "high": pl.Float64(),
    "p": pl.Float64(), "adjusted_p": pl.Float64(), "conclusion": pl.String(),
}  # fmt: skip

SIGNIFICANCE = 0.01
_Z = 1.959963984540054  # 95 %
# The limiter of a connection for more than half of its time is named.
_MOST = 0.5
# A network with fewer connections has no usable shares.
LEAST_OF_NETWORK = 10
# Shorter ones are over before their throughput is more than slow start's.
LEAST_SPAN_NS = 1_000_000_000
# Fewer are the initial window (RFC 6928), of which one retransmission would be a tenth and more.
LEAST_SEGMENTS = 11
# A day's median of fewer connections is one or two clients'.
_LEAST_OF_DAY = 10


def described(connections: pl.DataFrame) -> pl.DataFrame:
    """``connections`` (`queries.connections`) with more columns.

    ``limiter`` (a place in `LIMITERS`), the `QUANTITIES`, the groups that it is in (`BY`), and of each of them how many
    of its connections are of the same client (``BY_alike``).
    """
    span = pl.col("span_ns")
    carried = pl.max_horizontal("acked_bytes", "received_bytes")
    sent = pl.col("segments")
    frame = connections.with_columns(
        throughput_bps=pl.when(span >= LEAST_SPAN_NS).then(carried * 8e9 / span),
        mean_rtt_ms=pl.col("mean_rtt_ns") / 1e6,
        retransmitted_share=pl.when(sent >= LEAST_SEGMENTS).then((pl.col("retransmitted") / sent).clip(0.0, 1.0)),
        limiter=_limiter(),
        all=pl.lit("all"),
        day=pl.from_epoch("start_ns", time_unit="ns").dt.date().cast(pl.String),
    )
    frame = frame.join(_networks(connections["remote_address"]), on="remote_address", how="left", nulls_equal=True)
    # Categories are sooner grouped than text.
    frame = frame.with_columns(pl.col(BY).cast(pl.Categorical))
    alike = {f"{by}_alike": pl.len().over(*keys).cast(pl.Float64) for by, keys in _ALIKE.items()}
    # A client is in one network.
    return frame.with_columns(**alike).with_columns(network_alike="all_alike")


_ALIKE = {"all": ("client",), "site": ("site", "client"), "day": ("day", "client")}


def _limiter() -> pl.Expr:
    """The limit of the sender for most of the time; null for a connection that mostly received."""
    span = pl.col("span_ns")
    parts = {
        RECEIVE_WINDOW: pl.col("receive_window_ns"),
        SEND_BUFFER: pl.col("send_buffer_ns"),
        NETWORK: pl.coalesce(
            "congestion_ns",
            pl.col("busy_ns") - pl.col("receive_window_ns").fill_null(0) - pl.col("send_buffer_ns").fill_null(0),
        ),
        SENDER: pl.col("sender_ns"),
        APPLICATION: span - pl.col("busy_ns"),
    }
    told = pl.coalesce("congestion_ns", "busy_ns").is_not_null() & (span > 0)
    acked = pl.col("acked_bytes")
    sends = (acked > 0) & (acked >= pl.col("received_bytes").fill_null(0))
    places = {name: pl.lit(number, pl.Int8) for number, name in enumerate(LIMITERS)}
    named = pl.coalesce(*(pl.when(held > _MOST * span).then(places[name]) for name, held in parts.items()))
    known = (told & sends).fill_null(value=False)
    return pl.when(known).then(pl.coalesce(named, places[MIXED])).otherwise(places[UNKNOWN])


def _networks(addresses: pl.Series) -> pl.DataFrame:
    """The prefix of each address, /24 of IPv4, /48 of IPv6; and a number for it, which is sooner counted than text."""
    known = pl.DataFrame({"remote_address": addresses.cast(pl.String).unique()})
    of_four = pl.col("remote_address").str.contains(_FOUR).fill_null(value=False)
    others = known.filter(~of_four)
    networks = pl.Series("network", [_network(one) for one in others["remote_address"]], dtype=pl.String)
    without_last = pl.col("remote_address").str.strip_chars_end("0123456789")
    four = known.filter(of_four).with_columns(network=without_last + "0/24")
    return pl.concat([four, others.with_columns(networks)]).with_row_index("client")


# IPv4, of which there may be hundreds of thousands: not one by one.
_FOUR = r"^[^:]*\.[0-9]+$"


def _network(address: str | None) -> str | None:
    """The network of a client with an address that is not written as IPv4.

    >>> _network("2001:db8:1:2::3"), _network("::ffff:192.0.2.77"), _network("none")
    ('2001:db8:1::/48', '192.0.2.0/24', None)
    """
    try:
        found = ip_address(address or "")
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None)
    return str(ip_network(f"{mapped}/24" if mapped else f"{found}/48", strict=False))


@dataclass(frozen=True)
class _Groups:
    """Rows put into groups, those of each beside each other, and in the order that they had.

    Attributes:
        names: of the groups, as they come.
        starts: where each begins in ``rows``.
        rows: numbers of rows of the frame.
        worth: how many independent observations each is worth.
    """

    names: pl.Series
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    worth: Values

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows each has."""
        return np.diff(self.starts, append=len(self.rows))


def _groups(frame: pl.DataFrame, by: str) -> _Groups:
    """The groups of a frame that has ``by`` and ``by_alike`` (`described`); networks of a few connections are none."""
    # 0 where there is none. Numbers of 16 bits are sorted in one pass (radix sort).
    codes = (frame[by].to_physical().cast(pl.Int64) + 1).fill_null(0).to_numpy()
    sizes = np.bincount(codes, minlength=1)
    rows = np.argsort(codes.astype(np.uint16) if len(sizes) <= 1 << 16 else codes, kind="stable")[sizes[0] :]
    if by == "network":
        rows = rows[sizes[codes[rows]] >= LEAST_OF_NETWORK]
    starts = np.flatnonzero(np.diff(codes[rows], prepend=0))
    alike = frame[f"{by}_alike"].to_numpy()[rows]
    counts = np.diff(starts, append=len(rows)).astype(float)
    worth = counts**2 / np.add.reduceat(alike, starts) if len(rows) else counts
    return _Groups(frame[by][rows[starts]].cast(pl.String), starts, rows, worth)


def limits(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame of `LIMITS`: the number of connections of each group by limiter."""
    return pl.concat([_limits(frame, by) for by in BY])


def _limits(frame: pl.DataFrame, by: str) -> pl.DataFrame:
    groups = _groups(frame, by)
    if not len(groups.rows):
        return pl.DataFrame(schema=LIMITS)
    limiters = frame["limiter"].to_numpy()[groups.rows]
    parts = []
    for number, name in enumerate(LIMITERS):
        held = np.add.reduceat((limiters == number).astype(np.int64), groups.starts)
        parts.append(pl.DataFrame({"group": groups.names, "limiter": name, "order": number, "connections": held}))
    all_of = pl.DataFrame({"group": groups.names, "all": groups.counts, "worth": groups.worth})
    share, worth = pl.col("connections") / pl.col("all"), pl.col("worth")
    middle = (share + _Z**2 / (2 * worth)) / (1 + _Z**2 / worth)
    half = _Z / (1 + _Z**2 / worth) * (share * (1 - share) / worth + _Z**2 / (4 * worth**2)).sqrt()
    found = pl.concat(parts).filter(pl.col("connections") > 0).join(all_of, on="group")
    found = found.with_columns(
        by=pl.lit(by), share=share, low=(middle - half).clip(0.0), high=(middle + half).clip(upper_bound=1.0)
    )
    return found.sort("group", "order").select(pl.col(name).cast(kind) for name, kind in LIMITS.items())


def distributions(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame of `DISTRIBUTIONS`: quantiles of each quantity in each group, and the interval of the median."""

    def of(quantity: str) -> pl.DataFrame:
        columns = [quantity, *BY, *(f"{by}_alike" for by in BY)]
        rows = frame.select(columns).drop_nulls(quantity).sort(quantity)
        return pl.concat([_distribution(rows, by, quantity) for by in BY])

    # What takes the time is sorting and gathering, which other threads need not wait for.
    with ThreadPoolExecutor() as pool:
        return pl.concat(pool.map(of, QUANTITIES))


def _distribution(rows: pl.DataFrame, by: str, quantity: str) -> pl.DataFrame:
    """Of rows in the order of the quantity: in each group a quantile is a place."""
    groups = _groups(rows, by)
    if not len(groups.rows):
        return pl.DataFrame(schema=DISTRIBUTIONS)
    values, last = rows[quantity].to_numpy()[groups.rows], groups.counts - 1

    def at(place: Values) -> Values:
        return np.asarray(values[groups.starts + place.astype(np.int64)], dtype=float)

    reach = _Z * 0.5 / np.sqrt(groups.worth)
    ends = at(np.floor(last * np.maximum(0.5 - reach, 0))), at(np.ceil(last * np.minimum(0.5 + reach, 1)))
    # Of fewer clients no two values are known to lie around the median.
    low, high = (np.where(reach < 0.5, end, np.nan) for end in ends)
    found = pl.DataFrame(
        {
            "by": pl.Series([by] * len(last), dtype=pl.String),
            "group": groups.names,
            "quantity": pl.Series([quantity] * len(last), dtype=pl.String),
            "connections": groups.counts,
            "worth": groups.worth,
            **{f"p{round(100 * q)}": at(np.round(last * q)) for q in QUANTILES},
            "median_low": pl.Series(low).fill_nan(None),
            "median_high": pl.Series(high).fill_nan(None),
        }
    )
    return found.sort("group").select(pl.col(name).cast(kind) for name, kind in DISTRIBUTIONS.items())


def days(frame: pl.DataFrame) -> pl.DataFrame:
    """Each site's median of each quantity by day: ``site``, ``day``, ``quantity``, ``connections``, ``median``."""
    parts = [
        frame.select(pl.col("site", "day").cast(pl.String), value=pl.col(quantity))
        .drop_nulls()
        .group_by("site", "day")
        .agg(connections=pl.len().cast(pl.Int64), median=pl.col("value").cast(pl.Float64).median())
        .with_columns(quantity=pl.lit(quantity))
        for quantity in QUANTITIES
    ]
    columns = ["site", "day", "quantity", "connections", "median"]
    return pl.concat(parts).select(columns).sort("quantity", "site", "day")


# Days of one site, and the logarithm of a median of each.
_Half = tuple[NDArray[np.int64], Values]


def changes(of_days: pl.DataFrame) -> pl.DataFrame:
    """A frame of `CHANGES`: the later half of each site's days against the earlier one, by their medians' logarithms.

    The autocorrelation of days gives their effective number. ``higher`` and ``lower`` are conclusions after Holm's
    correction over all sites and quantities. The cause of a difference is not known: it may be a season.
    """
    rows = []
    usable = of_days.filter(pl.col("connections") >= _LEAST_OF_DAY, pl.col("median") > 0)
    for (quantity, site), own in usable.group_by("quantity", "site", maintain_order=True):
        day = np.array([date.fromisoformat(one).toordinal() for one in own["day"]], dtype=np.int64)
        middle = (day[0] + day[-1] + 1) / 2
        values = np.log10(own["median"].to_numpy())
        halves = [(day[which], values[which]) for which in (day < middle, day >= middle)]
        rows.append({"site": site, "quantity": quantity, **_change(*halves)})
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["adjusted_p"] = p
        found = p is not None and p < SIGNIFICANCE
        row["conclusion"] = ("higher" if row["ratio"] > 1 else "lower") if found else "undecided"
    return pl.DataFrame(rows, schema=CHANGES)


def _change(before: _Half, after: _Half) -> dict[str, float | int | None]:
    halves = (before, after)
    means = [float(values.mean()) if len(values) else None for _, values in halves]
    found: dict[str, float | int | None] = {
        "days_before": len(before[0]), "days_after": len(after[0]), "ratio": None, "p": None,
        **{name: None if mean is None else 10**mean for name, mean in zip(("before", "after"), means, strict=True)},
    }  # fmt: skip
    if means[0] is None or means[1] is None:
        return found
    shift = means[1] - means[0]
    found["ratio"] = 10**shift
    if min(len(before[0]), len(after[0])) < LEAST_DAYS:
        return found
    # Of scipy.stats this would be the same, after half a second of importing it.
    from scipy import special

    autocorrelation = dependence(halves)
    counts = [effective(day, autocorrelation) for day, _ in halves]
    freedom = max(1.0, sum(effective_for_variance(day, autocorrelation) for day, _ in halves) - 2)
    squares = sum(float(((values - values.mean()) ** 2).sum()) for _, values in halves)
    # The variance of a dependent series about its own mean is too small.
    variance = squares / sum(len(day) * (1 - 1 / count) for (day, _), count in zip(halves, counts, strict=True))
    error = float(np.sqrt(variance * sum(1 / count for count in counts)))
    reach = float(special.stdtrit(freedom, 0.975)) * error
    found["low"], found["high"] = 10 ** (shift - reach), 10 ** (shift + reach)
    found["p"] = float(2 * special.stdtr(freedom, -abs(shift) / error)) if error > 0 else None
    return found
