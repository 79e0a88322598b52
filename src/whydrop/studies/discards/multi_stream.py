"""The comparison before and after a change, repeated with tests of several connections at once.

A single connection is slow where it loses packets; several at once share the loss, and fill the path sooner. M-Lab's
SideStream sampled the connections of every test that its servers served. Here connections of one client to one site
that overlap in time are one test; its speed is what all of them carried, over the time from the first one's start to
the last one's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from whydrop.studies.discards import diagnosis, inference, results
from whydrop.studies.discards.parameters import Days, Parameters
from whydrop.studies.discards.study import placebo_comparisons, placebos
from whydrop.studies.discards.study import run as run_study
from whydrop.studies.tcp import queries as tcp_queries

if TYPE_CHECKING:
    from whydrop.store.engines import Backend

_NS = 1_000_000_000
_PLACE = ("site", "remote_address")
# A connection with less than this share of the largest one's bytes is no stream: a test's control connection, say.
_LEAST_SHARE = 0.1
# One row for each site: the conclusions on clients' mean speeds, of tests of several connections and of NDT's single
# ones. `agreement`: agree, disagree, undecided (one of them), one kind only (the other has no clients).
AGREEMENT = {
    "metro": pl.String(), "site": pl.String(), "multi_stream": pl.String(), "single_stream": pl.String(),
    "agreement": pl.String(),
}  # fmt: skip


@dataclass(frozen=True)
class MultiStream:
    """Speeds of tests of several connections before and after the change.

    Attributes:
        client_speeds: rows of `results.CLIENT_SPEEDS`.
        comparisons: rows of `results.COMPARISONS`.
        single_stream: the same of NDT's tests.
        agreement: rows of `AGREEMENT`.
        notes: sentences on what is unknown and why.
    """

    client_speeds: pl.DataFrame
    comparisons: pl.DataFrame
    single_stream: pl.DataFrame
    agreement: pl.DataFrame
    notes: list[str]


def compare(backend: Backend, parameters: Parameters) -> MultiStream:
    """Compare speeds of tests of several connections before and after the change, beside those of NDT's tests.

    Args:
        backend: an open store.
        parameters: the change, metros and limits of tests; definitions are the corrected ones.
    """
    parameters, notes = diagnosis.fitted(backend, parameters)
    change = parameters.change
    if change is None:
        return _nothing([*notes, "The parameters name no change of configuration to compare speeds before and after."])
    speeds = client_speeds(backend, parameters)
    if speeds.is_empty():
        return _nothing([*notes, _why_none(parameters)])
    earlier = placebo_comparisons(placebos(parameters), lambda shifted: client_speeds(backend, shifted))
    compared = inference.comparisons(speeds, parameters, earlier)
    single = run_study(backend, parameters, only=("client_speeds",)).tables["comparisons"]
    return MultiStream(speeds, compared, single, _agreement(compared, single), notes)


def client_speeds(backend: Backend, parameters: Parameters) -> pl.DataFrame:
    """Speeds of clients with many such tests in both periods, as rows of `results.CLIENT_SPEEDS`."""
    change = parameters.change
    assert change is not None
    periods = [
        tests(backend, parameters, days).with_columns(period=pl.lit(name))
        for name, days in (("before", change.before), ("after", change.after))
    ]
    speed = pl.col("speed_bps")
    clients = pl.concat(periods).group_by("metro", "site", pl.col("remote_address").alias("client"), "period").agg(
        tests=pl.len().cast(pl.Int64), mean_bps=speed.mean(), max_bps=speed.max(), sd_bps=speed.std(),
        min_bps=speed.min(),
    )  # fmt: skip
    frequent = clients.filter(pl.col("tests") > change.more_tests_than)
    both = pl.col("period").n_unique().over("metro", "site", "client") == 2
    frequent = frequent.filter(both).with_columns(
        machine=pl.lit(None, dtype=pl.String()), cv=pl.col("sd_bps") / pl.col("mean_bps")
    )
    return frequent.select(pl.col(name).cast(kind) for name, kind in results.CLIENT_SPEEDS.items()).sort(
        "metro", "site", "client", "period"
    )


def tests(backend: Backend, parameters: Parameters, days: Days) -> pl.DataFrame:
    """Downloads of two connections or more: ``metro``, ``site``, ``remote_address``, ``start_ns``, ``streams``,
    ``speed_bps``.
    """
    limits = parameters.tests
    found = tcp_queries.connections(backend, days.first, days.last)
    found = found.filter(
        found.start_ns.notnull(), found.span_ns > 0, found.site.notnull(), found.remote_address.notnull(),
        found.acked_bytes > found.received_bytes,
    )  # fmt: skip
    if limits.excluded_clients:
        found = found.filter(found.remote_address.notin(limits.excluded_clients))
    rows = backend.run(found.select(*_PLACE, "start_ns", "span_ns", "acked_bytes"))
    # A site is its metro with a number.
    rows = rows.with_columns(
        metro=pl.col("site").str.replace(r"\d+$", ""), end_ns=pl.col("start_ns") + pl.col("span_ns")
    )
    if parameters.metros:
        rows = rows.filter(pl.col("metro").is_in(list(parameters.metros)))
    rows = _numbered(rows)
    of_test = ["metro", *_PLACE, "test"]
    rows = rows.filter(pl.col("acked_bytes") >= _LEAST_SHARE * pl.col("acked_bytes").max().over(of_test))
    elapsed = pl.col("end_ns").max() - pl.col("start_ns").min()
    each = rows.group_by(of_test).agg(
        start_ns=pl.col("start_ns").min(), streams=pl.len().cast(pl.Int64), acked=pl.col("acked_bytes").sum(),
        elapsed_ns=elapsed,
    )  # fmt: skip
    each = each.filter(
        pl.col("streams") > 1,
        pl.col("acked") >= limits.least_acked_bytes,
        pl.col("elapsed_ns") >= round(limits.least_duration_s * _NS),
        pl.col("elapsed_ns") < round(limits.most_duration_s * _NS),
    )
    speed = pl.col("acked") * (8.0 * _NS) / pl.col("elapsed_ns")
    return each.select("metro", *_PLACE, "start_ns", "streams", speed_bps=speed)


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Connections with the number of their test within a client and a site: a new one begins when all others ended."""
    rows = rows.sort(*_PLACE, "start_ns", "end_ns")
    ended = pl.col("end_ns").cum_max().shift(1).over(*_PLACE)
    begins = (pl.col("start_ns") >= ended).fill_null(value=True)
    return rows.with_columns(begins=begins).with_columns(test=pl.col("begins").cast(pl.Int64).cum_sum().over(*_PLACE))


def _agreement(multi: pl.DataFrame, single: pl.DataFrame) -> pl.DataFrame:
    own, other = (
        frame.filter(pl.col("statistic") == "mean").select("metro", "site", pl.col("conclusion").alias(name))
        for frame, name in ((multi, "multi_stream"), (single, "single_stream"))
    )
    joined = own.join(other, on=["metro", "site"], how="full", coalesce=True, nulls_equal=True)
    rows = [
        row | {"agreement": _agree(row["multi_stream"], row["single_stream"])} for row in joined.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=AGREEMENT).sort("metro", "site")


def _agree(one: str | None, other: str | None) -> str:
    if one is None or other is None:
        return "one kind only"
    # With a question mark if no placebos show the variation without a change.
    one, other = (word.removesuffix(results.UNSURE) for word in (one, other))
    if "undecided" in (one, other):
        return "undecided"
    return "agree" if one == other else "disagree"


def _nothing(notes: list[str]) -> MultiStream:
    speeds, comparisons = pl.DataFrame(schema=results.CLIENT_SPEEDS), pl.DataFrame(schema=results.COMPARISONS)
    return MultiStream(speeds, comparisons, comparisons, pl.DataFrame(schema=AGREEMENT), notes)


def _why_none(parameters: Parameters) -> str:
    change = parameters.change
    assert change is not None
    where = f" of {', '.join(parameters.metros)}" if parameters.metros else ""
    return (
        f"Unknown: no client{where} has more than {change.more_tests_than} tests of several connections in each of the "
        f"periods {change.before.first} to {change.before.last} and {change.after.first} to {change.after.last}. "
        "`whydrop store import` reads connections from SideStream's and tcp-info's archives."
    )
