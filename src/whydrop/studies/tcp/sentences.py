"""Sentences about what the study found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from whydrop.studies.tcp.analysis import LIMITERS, MIXED, UNKNOWN
from whydrop.studies.tcp.study import Results
from whydrop.text import quantities

TITLE = "What limits TCP connections"
QUANTITIES = {
    "throughput_bps": "throughput",
    "mean_rtt_ms": "round-trip time",
    "retransmitted_share": "share of retransmitted segments",
}
# The most sites that stand out and changes that get a sentence; the tables have all.
_MOST_TOLD = 5


def value(quantity: str, number: float | None) -> str:
    """A quantity with its unit.

    >>> value("throughput_bps", 2e6), value("mean_rtt_ms", 20.5), value("retransmitted_share", 0.012)
    ('2 Mbit/s', '20.5 ms', '1.2 %')
    """
    if number is None:
        return "not known"
    if quantity == "throughput_bps":
        return quantities.rate(number)
    return (
        f"{quantities.significant(number)} ms"
        if quantity == "mean_rtt_ms"
        else f"{quantities.significant(100 * number)} %"
    )


def share(row: dict[str, Any]) -> str:
    """A share with its interval, in per cent."""
    low, high = (quantities.significant(100 * row[name]) for name in ("low", "high"))
    return f"{quantities.significant(100 * row['share'])} % ({low} to {high})"


def summary(results: Results) -> list[str]:
    """The answer first, then what stands out."""
    return [*_headline(results), *_medians(results), *_standing_out(results), *_changed(results), *_caveats(results)]


def _headline(results: Results) -> Iterator[str]:
    facts, limits = results.facts, results.tables["limits"]
    if not facts["connections"]:
        yield "The store has no statistics of TCP connections of these days and sites."
        return
    days = f"{facts['first']} to {facts['last']}" if facts["first"] else "without a date"
    rows = limits.filter(pl.col("by") == "all").sort("share", descending=True).to_dicts()
    named = [row for row in rows if row["limiter"] != UNKNOWN]
    of = f"{quantities.count(facts['connections'])} connections, {days}"
    if not named:
        yield f"What limits them is unknown: no kernel of {of} reported it."
        return
    parts = [f"{row['limiter']} {share(row)}" for row in named]
    yield f"Of {of}, for most of their time limited by: {', '.join(parts)}."


def _medians(results: Results) -> Iterator[str]:
    frame = results.tables["distributions"].filter(pl.col("by") == "all")
    for row in frame.iter_rows(named=True):
        quantity = row["quantity"]
        middle, p5, p95 = (value(quantity, row[name]) for name in ("p50", "p5", "p95"))
        ends = [row["median_low"], row["median_high"]]
        of = "too few clients for an interval" if None in ends else " to ".join(value(quantity, end) for end in ends)
        yield f"Median {QUANTITIES[quantity]}: {middle} ({of}); from {p5} to {p95} in nine of ten."


def _standing_out(results: Results) -> Iterator[str]:
    """Sites at which a limiter holds more connections than anywhere else, their intervals apart."""
    limits = results.tables["limits"].filter(~pl.col("limiter").is_in([MIXED, UNKNOWN]))
    everywhere = {row["limiter"]: row for row in limits.filter(pl.col("by") == "all").iter_rows(named=True)}
    found = [
        (row["low"] - everywhere[row["limiter"]]["high"], row)
        for row in limits.filter(pl.col("by") == "site").iter_rows(named=True)
        if row["low"] > everywhere[row["limiter"]]["high"]
    ]
    for _, row in sorted(found, key=lambda one: -one[0])[:_MOST_TOLD]:
        usual = quantities.significant(100 * everywhere[row["limiter"]]["share"])
        yield f"At {row['group']} {row['limiter']} holds {share(row)} of connections, of all {usual} %."


def _changed(results: Results) -> Iterator[str]:
    frame = results.tables["changes"].filter(pl.col("conclusion") != "undecided").sort("p")
    for row in frame.head(_MOST_TOLD).iter_rows(named=True):
        low, high = (quantities.significant(row[name]) for name in ("low", "high"))
        yield (
            f"{row['site']}: the median {QUANTITIES[row['quantity']]} of the later days is {row['conclusion']}, "
            f"{quantities.significant(row['ratio'])} ({low} to {high}) times that of the earlier ones."
        )
    if frame.height > _MOST_TOLD:
        yield f"{frame.height - _MOST_TOLD} more changes are in the tables."


def _caveats(results: Results) -> Iterator[str]:
    rows = results.tables["limits"].filter((pl.col("by") == "all") & (pl.col("limiter") == UNKNOWN)).to_dicts()
    if rows and rows[0]["share"] < 1:
        yield (
            f"The limiter of {quantities.percent(rows[0]['share'])} is unknown: they sent nothing, they received more "
            "than they sent (only the other end's kernel has their limiter), or their kernel does not record it."
        )
    if results.tables["changes"].height:
        yield "The cause of a difference between earlier and later days is unknown: it may be seasons or other clients."


def order(limiters: list[str]) -> list[str]:
    """Limiters in the order of the sentences."""
    return [name for name in LIMITERS if name in limiters]
