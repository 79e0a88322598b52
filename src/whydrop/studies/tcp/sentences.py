"""The study's results in sentences: the answer first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from whydrop.studies.tcp.analysis import LIMITERS, MIXED, UNKNOWN
from whydrop.studies.tcp.study import Results
from whydrop.text import quantities
from whydrop.text.phrases import fill, table

TITLE = "What limits TCP connections"
QUANTITIES = {
    "throughput_bps": "throughput",
    "mean_rtt_ms": "round-trip time",
    "retransmitted_share": "share of retransmitted segments",
}
# The most sites and changes that have a sentence each; the tables have all.
_MOST = 5

_SENTENCES = table(
    """
    empty: The store has no statistics of TCP connections of these days and sites.
    unknown: The limits of {connections|connection}, {days}, are unknown: no kernel reported them.
    limits: The limit that applied for most of the time, of {connections|connection}, {days}: {parts}.
    median: Median {quantity}: {middle} ([interval?95 % interval {interval}|too few clients for an interval]); from
        {p5} to {p95} for nine in ten connections.
    site: At {group}, {limiter} limits {share} of connections; of all connections, {usual_share}.
    change: {site}: the median {quantity} of the later days is {conclusion}, {ratio} ({interval}) times that of the
        earlier days.
    more-changes: The tables have {more|more change}.
    no-limiter: The limiter of {unknown_share} is unknown: they sent nothing, they received more than they sent (only
        the other end's kernel has their limiter), or their kernel does not record it.
    cause: The cause of a difference between earlier and later days is unknown: it may be seasons or other clients.
    """
)


def value(quantity: str, number: float | None) -> str:
    """A quantity with its unit.

    >>> value("throughput_bps", 2e6), value("mean_rtt_ms", 20.5), value("retransmitted_share", 0.012)
    ('2.00\\xa0Mbit/s', '20.5\\xa0ms', '1.2\\xa0%')
    """
    if quantity == "mean_rtt_ms":
        return quantities.written("rtt_s", None if number is None else number / 1e3)
    return quantities.written(quantity, number)


def share(row: dict[str, Any]) -> str:
    """A share with its interval, in per cent."""
    return f"{quantities.percent(row['share'])} ({quantities.interval(quantities.percent, row['low'], row['high'])})"


def order(limiters: list[str]) -> list[str]:
    """Limiters in the order of the sentences."""
    return [name for name in LIMITERS if name in limiters]


def summary(results: Results) -> list[str]:
    """The answer first, then what stands out."""
    return [*_headline(results), *_medians(results), *_standing_out(results), *_changed(results), *_caveats(results)]


def _say(code: str, **values: Any) -> str:
    return fill(_SENTENCES[code], values)


def _headline(results: Results) -> Iterator[str]:
    facts = results.facts
    days = f"{facts['first']} to {facts['last']}" if facts["first"] else "without a date"
    rows = results.tables["limits"].filter(by="all").sort("share", descending=True).to_dicts()
    parts = [f"{row['limiter']} {share(row)}" for row in rows if row["limiter"] != UNKNOWN]
    code = "limits" if parts else "unknown" if facts["connections"] else "empty"
    yield _say(code, connections=facts["connections"], days=days, parts=", ".join(parts))


def _medians(results: Results) -> Iterator[str]:
    for row in results.tables["distributions"].filter(by="all").iter_rows(named=True):
        name, low, high = row["quantity"], row["median_low"], row["median_high"]
        middle, p5, p95 = (value(name, row[column]) for column in ("p50", "p5", "p95"))
        known = None not in (low, high)
        interval = quantities.interval(lambda end, name=name: value(name, end), low, high) if known else None  # type: ignore[misc]
        yield _say("median", quantity=QUANTITIES[name], middle=middle, p5=p5, p95=p95, interval=interval)


def _standing_out(results: Results) -> Iterator[str]:
    """Sites at which a limiter limits more connections than at all sites together, their intervals apart."""
    limits = results.tables["limits"].filter(~pl.col("limiter").is_in([MIXED, UNKNOWN]))
    usual = limits.filter(by="all").select("limiter", usual="share", usual_high="high")
    found = limits.filter(by="site").join(usual, on="limiter", maintain_order="left")
    found = found.with_columns(apart=pl.col("low") - pl.col("usual_high")).filter(pl.col("apart") > 0)
    for row in found.sort("apart", descending=True, maintain_order=True).head(_MOST).iter_rows(named=True):
        yield _say("site", group=row["group"], limiter=row["limiter"], share=share(row), usual_share=row["usual"])


def _changed(results: Results) -> Iterator[str]:
    frame = results.tables["changes"].filter(pl.col("conclusion") != "undecided").sort("p")
    for row in frame.head(_MOST).iter_rows(named=True):
        yield _say(
            "change", site=row["site"], quantity=QUANTITIES[row["quantity"]], conclusion=row["conclusion"],
            ratio=quantities.significant(row["ratio"]),
            interval=quantities.interval(quantities.significant, row["low"], row["high"]),
        )  # fmt: skip
    if frame.height > _MOST:
        yield _say("more-changes", more=frame.height - _MOST)


def _caveats(results: Results) -> Iterator[str]:
    unknown = results.tables["limits"].filter(by="all", limiter=UNKNOWN)["share"]
    if len(unknown) and unknown[0] < 1:
        yield _say("no-limiter", unknown_share=unknown[0])
    if results.tables["changes"].height:
        yield _say("cause")
