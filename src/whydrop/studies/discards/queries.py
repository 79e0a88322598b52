"""The queries of the study, as Ibis expressions: written once for every engine.

Each function gives one table of `results`, which says what its columns and rows mean, for both definitions. The
numbers of faults are those of `docs/discards.md`.

Histories are long, so each figure makes one pass over the samples. It sums them up by day and series (a counter of a
port as one machine polls it); everything else is computed from these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from whydrop.studies.discards import bins, results
from whydrop.studies.discards.exposure import exposure_of_downloads, published_exposure

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import polars as pl

    from whydrop.store.engines import Backend
    from whydrop.studies.discards.parameters import Days, Parameters

NANOSECONDS = 1_000_000_000
SECONDS_OF_A_DAY = 86_400

_SITE_DAY = ("metro", "site", "day")
# A series: the samples of a port that one machine took on one day.
_SERIES = ("metro", "site", "switch", "machine", "day")

#: Called with the table, and how many of how many steps are done.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Tables:
    """The store's tables for the days of a question, and the engine that is asked."""

    backend: Backend
    first: date | None = None
    last: date | None = None

    @property
    def counters(self) -> ir.Table:
        """Samples that end on these days."""
        return self.backend.table("counters", self.first, self.last)

    @property
    def counters_around(self) -> ir.Table:
        """The same, with the day before and the day after: windows overlap midnight."""
        day = timedelta(days=1)
        return self.backend.table("counters", self.first and self.first - day, self.last and self.last + day)

    @property
    def ndt(self) -> ir.Table:
        """Tests of these days."""
        return self.backend.table("ndt", self.first, self.last)

    @classmethod
    def of(cls, backend: Backend, days: Days) -> Tables:
        """The tables for some days."""
        return cls(backend, days.first, days.last)


def _in_metros(table: ir.Table, metros: Collection[str]) -> ir.Table:
    return table.filter(table.metro.isin(list(metros))) if metros else table


def _samples(
    counters: ir.Table, parameters: Parameters, *names: str, metros: Collection[str] | None = None
) -> ir.Table:
    """Samples of some counters of the study's port, those that have a value."""
    counters = _in_metros(counters, parameters.metros if metros is None else metros)
    return counters.filter(
        counters.port == parameters.port,
        counters.counter == names[0] if len(names) == 1 else counters.counter.isin(names),
        counters.value.notnull(),
    )


# Figure 1


def utilisation(tables: Tables, parameters: Parameters) -> ir.Table:
    """Each site's typical rate by day (`results.UTILISATION`)."""
    return _published_utilisation(tables, parameters) if parameters.is_published else _utilisation(tables, parameters)


def _published_utilisation(tables: Tables, parameters: Parameters) -> ir.Table:
    from ibis import _

    samples = _samples(tables.counters, parameters, "octets.tx")
    samples = samples.filter(samples.machine == parameters.published_machine)
    by_day = tables.backend.quantile_by(
        samples, list(_SITE_DAY), "value", parameters.quantile, discrete=True, samples=_.count()
    )
    return by_day.select(
        *_SITE_DAY,
        rate_bps=by_day.quantile * (8.0 / parameters.bin_s),
        samples=by_day.samples,
        coverage=by_day.samples * (parameters.bin_s / SECONDS_OF_A_DAY),
    )


def _utilisation(tables: Tables, parameters: Parameters) -> ir.Table:
    from ibis import _

    samples = _samples(tables.counters, parameters, "octets.tx")
    samples = samples.filter(samples.span_ns > 0)
    samples = samples.mutate(rate_bps=samples.value * (8.0 * NANOSECONDS) / samples.span_ns)
    series = tables.backend.quantile_by(
        samples, list(_SERIES), "rate_bps", parameters.quantile, samples=_.count(), span_ns=_.span_ns.sum()
    )
    best = _best_of_each_switch(series)
    # With one switch at a site, the day's quantile is that of the best series. With several, the quantile of all their
    # samples needs another pass, over these days only.
    several = best.filter(best.switches > 1)
    pooled = tables.backend.quantile_by(
        samples.semi_join(several, _same_series(samples, several)),
        list(_SITE_DAY),
        "rate_bps",
        parameters.quantile,
        samples=_.count(),
        span_ns=_.span_ns.sum(),
        switches=_.switch.nunique(),
    )
    columns = [*_SITE_DAY, "quantile", "samples", "span_ns", "switches"]
    either = best.filter(best.switches == 1).select(columns).union(pooled.select(columns))
    return either.select(
        *_SITE_DAY,
        rate_bps=either.quantile,
        samples=either.samples,
        coverage=either.span_ns / either.switches / (1.0 * SECONDS_OF_A_DAY * NANOSECONDS),
    )


def _best_of_each_switch(series: ir.Table) -> ir.Table:
    """Of each site, switch and day the machine with the most ``samples``; of several the first by name.

    ``switches`` says how many switches the site has on that day.
    """
    import ibis

    ranked = series.mutate(
        rank=ibis.row_number().over(
            group_by=["metro", "site", "switch", "day"],
            order_by=[series.samples.desc(), series.machine.asc(nulls_first=True)],
        )
    )
    best = ranked.filter(ranked["rank"] == 0).drop("rank")
    return best.mutate(switches=best.count().over(group_by=list(_SITE_DAY)))


# Figure 3


def discard_ratio(tables: Tables, parameters: Parameters) -> ir.Table:
    """Each site's discards to packets by day (`results.DISCARD_RATIO`)."""
    return _published_discards(tables, parameters) if parameters.is_published else _discards(tables, parameters)


def _published_discards(tables: Tables, parameters: Parameters) -> ir.Table:
    samples = _samples(tables.counters, parameters, "discards.tx", "unicast.tx")
    samples = samples.filter(samples.machine == parameters.published_machine)
    is_discard = samples.counter == "discards.tx"
    days = samples.group_by(*_SITE_DAY).agg(
        discards=samples.value.sum(where=is_discard),
        packets=samples.value.sum(where=~is_discard),
        samples=samples.count(where=is_discard),
    )
    days = days.filter(days.discards < days.packets)
    days = days.mutate(ratio=days.discards / days.packets)
    return days.filter(days.ratio < 0.01).select(*results.DISCARD_RATIO)


_KINDS = ("discards.tx", "unicast.tx", "multicast.tx", "broadcast.tx")


def _discards(tables: Tables, parameters: Parameters) -> ir.Table:
    import ibis

    samples = _samples(tables.counters, parameters, *_KINDS)
    series = _side_by_side(samples)
    # Counters of a port are nearly always polled together and have samples of the same windows: then sums of series are
    # sums over common windows. The others are joined window by window.
    plain = series.filter(series.alike).select(*_SERIES, "discards", "packets", "samples")
    odd = series.filter(~series.alike, series.discards.notnull(), series.unicast.notnull())
    machines = plain.union(_window_by_window(samples, odd))
    best = _best_of_each_switch(machines)
    days = best.group_by(*_SITE_DAY).agg(
        discards=best.discards.sum(), packets=best.packets.sum(), samples=best.samples.sum()
    )
    null = ibis.null("float64")
    ratio = (days.packets > 0).ifelse(days.discards / days.packets.nullif(0.0), null)
    return days.mutate(ratio=ratio).select(*results.DISCARD_RATIO)


def _side_by_side(samples: ir.Table) -> ir.Table:
    """One row for each series of a machine and day, with the sums of all of its counters.

    ``alike`` says whether discards, unicast and, as far as counted, multicast and broadcast packets have samples of the
    very same windows. It compares the number of ends and two sums over them, linear and quadratic modulo primes:
    different sets that agree in all three do not occur by chance (1 in 2^60), and there is no reason to construct them.
    """
    import ibis

    end = samples.end_ns
    linear = end % 4_294_967_291
    square = (end % 3_037_000_493) * (end % 3_037_000_493) % 2_147_483_647
    sums = samples.group_by(*_SERIES, "counter").agg(
        samples=samples.count(), value=samples.value.sum(), linear=linear.sum(), square=square.sum()
    )
    columns: dict[str, ir.Scalar] = {}
    for kind in _KINDS:
        for column in ("samples", "value", "linear", "square"):
            columns[f"{kind.removesuffix('.tx')}_{column}"] = sums[column].sum(where=sums.counter == kind)
    side = sums.group_by(*_SERIES).agg(**columns)
    alike = ibis.literal(True)
    for kind in ("unicast", "multicast", "broadcast"):
        for column in ("samples", "linear", "square"):
            same = side[f"{kind}_{column}"] == side[f"discards_{column}"]
            # Null: there is no such counter. Of unicast there must be one.
            alike = alike & same.fill_null(kind != "unicast")
    return side.select(
        *_SERIES,
        discards=side.discards_value,
        unicast=side.unicast_value,
        packets=side.unicast_value + side.multicast_value.fill_null(0.0) + side.broadcast_value.fill_null(0.0),
        samples=side.discards_samples,
        alike=alike,
    )


def _window_by_window(samples: ir.Table, odd: ir.Table) -> ir.Table:
    """Sums over the windows for which there are both a discard and a unicast value, of the series ``odd``."""
    samples = samples.semi_join(odd, _same_series(samples, odd))
    windows = samples.group_by(*_SERIES, "end_ns").agg(
        **{kind.removesuffix(".tx"): samples.value.sum(where=samples.counter == kind) for kind in _KINDS}
    )
    windows = windows.filter(windows.discards.notnull(), windows.unicast.notnull())
    return windows.group_by(*_SERIES).agg(
        discards=windows.discards.sum(),
        packets=(windows.unicast + windows.multicast.fill_null(0.0) + windows.broadcast.fill_null(0.0)).sum(),
        samples=windows.count(),
    )


def _same_series(samples: ir.Table, series: ir.Table) -> list[ir.BooleanValue]:
    """Join's condition: a sample is of one of the series. Equality of columns only, or BigQuery makes no join of it."""
    return [
        samples[column].fill_null("") == series[column].fill_null("") for column in ("site", "switch", "machine", "day")
    ]


# Downloads


def _downloads(
    ndt: ir.Table, parameters: Parameters, metros: Collection[str], *, all_clients: bool = False
) -> ir.Table:
    """The report's ``dl``: tests with ``elapsed_ns``, and ``speed_bps``."""
    limits = parameters.tests
    ndt = _in_metros(ndt, metros)
    elapsed = ndt.receiver_limited_ns + ndt.congestion_limited_ns + ndt.sender_limited_ns
    ndt = ndt.mutate(elapsed_ns=elapsed if parameters.is_published else elapsed.coalesce(ndt.duration_ns))
    ndt = ndt.filter(
        ndt.direction == "download",
        ndt.acked_bytes >= limits.least_acked_bytes,
        ndt.elapsed_ns > 0,
        ndt.elapsed_ns >= round(limits.least_duration_s * NANOSECONDS),
        ndt.elapsed_ns < round(limits.most_duration_s * NANOSECONDS),
    )
    if limits.excluded_clients and not all_clients:
        ndt = ndt.filter(ndt.remote_address.isnull() | ndt.remote_address.notin(limits.excluded_clients))
    return ndt.mutate(speed_bps=ndt.acked_bytes * (8.0 * NANOSECONDS) / ndt.elapsed_ns)


# Figure 2


def download_speed(tables: Tables, parameters: Parameters) -> ir.Table:
    """Each site's typical best speed of a client by day (`results.DOWNLOAD_SPEED`)."""
    from ibis import _

    tests = _downloads(tables.ndt, parameters, parameters.metros)
    tests = tests.filter(tests.remote_address.notnull())
    clients = tests.group_by(*_SITE_DAY, "remote_address").agg(most=tests.speed_bps.max(), tests=tests.count())
    by_day = tables.backend.quantile_by(
        clients, list(_SITE_DAY), "most", parameters.quantile, discrete=parameters.is_published,
        clients=_.count(), tests=_.tests.sum(),
    )  # fmt: skip
    return by_day.rename(speed_bps="quantile").select(*results.DOWNLOAD_SPEED)


# Figure 4


def retransmission_ratio(tables: Tables, parameters: Parameters) -> ir.Table:
    """Retransmitted to sent segments by day (`results.RETRANSMISSION_RATIO`)."""
    import ibis

    tests = _downloads(tables.ndt, parameters, parameters.metros)
    tests = tests.filter(tests.sent_segments.notnull(), tests.retransmitted_segments.notnull())
    if parameters.is_published:
        return _published_retransmissions(tables, parameters, tests)
    days = tests.group_by(*_SITE_DAY).agg(
        retransmitted=tests.retransmitted_segments.sum(),
        segments=tests.sent_segments.sum(),
        clients=tests.remote_address.nunique(),
        tests=tests.count(),
    )
    ratio = days.retransmitted / days.segments.nullif(0).cast("float64")
    return days.mutate(ratio=ratio, machine=ibis.null("string")).select(*results.RETRANSMISSION_RATIO)


def _published_retransmissions(tables: Tables, parameters: Parameters, tests: ir.Table) -> ir.Table:
    from ibis import _

    tests = tests.filter(tests.sent_segments > 0, tests.remote_address.notnull())
    by = ["metro", "site", "machine", "day"]
    clients = tests.group_by(*by, "remote_address").agg(
        most=(tests.retransmitted_segments / tests.sent_segments.cast("float64")).max(),
        retransmitted=tests.retransmitted_segments.sum(),
        segments=tests.sent_segments.sum(),
        tests=tests.count(),
    )
    by_day = tables.backend.quantile_by(
        clients, by, "most", parameters.quantile, discrete=True, retransmitted=_.retransmitted.sum(),
        segments=_.segments.sum(), clients=_.count(), tests=_.tests.sum(),
    )  # fmt: skip
    return by_day.rename(ratio="quantile").select(*results.RETRANSMISSION_RATIO)


# Figure 6


def client_speeds(tables: Tables, parameters: Parameters) -> ir.Table:
    """Speeds of clients with many tests both before and after the change (`results.CLIENT_SPEEDS`).

    Reads the days of the change's periods, not those of ``tables``.

    Raises:
        ValueError: the parameters name no change.
    """
    import ibis

    change = parameters.change
    if change is None:
        raise ValueError("the parameters name no change of configuration to compare speeds before and after")
    periods = []
    for name, days in (("before", change.before), ("after", change.after)):
        tests = _downloads(Tables.of(tables.backend, days).ndt, parameters, change.metros or parameters.metros)
        tests = tests.filter(tests.remote_address.notnull())
        periods.append(tests.mutate(client=tests.remote_address, period=ibis.literal(name)))
    tests = periods[0].union(periods[1])
    by = ["metro", "site", "machine"] if parameters.is_published else ["metro", "site"]
    clients = tests.group_by(*by, "client", "period").agg(
        tests=tests.count(),
        mean_bps=tests.speed_bps.mean(),
        max_bps=tests.speed_bps.max(),
        sd_bps=tests.speed_bps.std(how="sample"),
        min_bps=tests.speed_bps.min(),
    )
    clients = clients.mutate(cv=clients.sd_bps / clients.mean_bps.nullif(0.0))
    if parameters.is_published:
        clients = _frequent(clients, change.more_tests_than, "metro")
        # The report drops clients without a standard deviation.
        clients = clients.filter(clients.tests > 1)
    else:
        clients = _frequent(clients, change.more_tests_than, "metro", "site").mutate(machine=ibis.null("string"))
    return clients.select(*results.CLIENT_SPEEDS)


def _frequent(clients: ir.Table, more_than: int, *within: str) -> ir.Table:
    """Rows of clients that have more than so many tests in each period, counted within a metro or a site."""
    clients = clients.mutate(tests_within=clients.tests.sum().over(group_by=[*within, "client", "period"]))
    clients = clients.mutate(
        least=clients.tests_within.min().over(group_by=[*within, "client"]),
        first_period=clients.period.min().over(group_by=[*within, "client"]),
        last_period=clients.period.max().over(group_by=[*within, "client"]),
    )
    return clients.filter(clients.least > more_than, clients.first_period != clients.last_period)


# Figure 7


def contacts(tables: Tables, parameters: Parameters) -> ir.Table:
    """Which tests were exposed to discards (`results.CONTACTS`)."""
    published = parameters.is_published
    metros = parameters.contact.metros or parameters.metros
    tests = _downloads(tables.ndt, parameters, metros, all_clients=published)
    samples = _samples(tables.counters_around, parameters, "discards.tx", metros=metros)
    if published:
        exposed = published_exposure(tests, samples, parameters)
    else:
        exposed = exposure_of_downloads(tests, samples, parameters.tests.most_duration_s)
    return exposed.select(*results.CONTACTS)


def contact_days(tables: Tables, parameters: Parameters) -> ir.Table:
    """Tests of each class by day (`results.CONTACT_DAYS`)."""
    tests = contacts(tables, parameters)
    return tests.group_by(*_SITE_DAY, "class").agg(tests=tests.count())


# Figure 8


def discard_bin_days(tables: Tables, parameters: Parameters) -> ir.Table:
    """Samples of discards by series, day and length (`results.DISCARD_BIN_DAYS`); both definitions alike."""
    return bins.by_length(tables.counters, parameters)


# The tables together

QUERIES: dict[str, Callable[[Tables, Parameters], ir.Table]] = {
    "utilisation": utilisation,
    "download_speed": download_speed,
    "discard_ratio": discard_ratio,
    "retransmission_ratio": retransmission_ratio,
    "client_speeds": client_speeds,
    "contacts": contacts,
    "contact_days": contact_days,
    "discard_bin_days": discard_bin_days,
}

# Rows of samples that a block of days should have at most: some 300 MB while their quantiles are found.
_ROWS_OF_A_BLOCK = 40_000_000


def compute(
    backend: Backend,
    parameters: Parameters,
    progress: Progress | None = None,
    only: Collection[str] | None = None,
) -> dict[str, pl.DataFrame]:
    """The tables of the study, as `results.TABLES` says, sorted.

    Args:
        backend: a store, opened with an engine.
        parameters: what was chosen.
        progress: called before the first and after every step of each table.
        only: names of tables; others are not computed.

    Raises:
        ValueError: ``only`` names a table that queries do not give.
        BackendError: the engine failed.
    """
    wanted = list(QUERIES) if only is None else list(only)
    unknown = [name for name in wanted if name not in QUERIES]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: not computed by a query; expected some of {', '.join(QUERIES)}")
    found: dict[str, pl.DataFrame] = {}
    for name in QUERIES:
        if name == "contact_days" and "contacts" in found:
            found[name] = _counted(found["contacts"])
        elif name in wanted:
            found[name] = _compute(backend, parameters, name, progress or (lambda *_: None))
    return {name: frame for name, frame in found.items() if name in wanted}


def _counted(contacts: pl.DataFrame) -> pl.DataFrame:
    """As `contact_days`, of contacts that are there already."""
    import polars as pl

    by = [*_SITE_DAY, "class"]
    return contacts.group_by(by).agg(pl.len().cast(pl.Int64()).alias("tests")).sort(by)


def _compute(backend: Backend, parameters: Parameters, name: str, progress: Progress) -> pl.DataFrame:
    import polars as pl

    schema = results.TABLES[name]
    if name == "client_speeds":
        blocks = [] if parameters.change is None else [parameters.days]
    else:
        blocks = list(_blocks(backend, parameters.days))
    frames = [pl.DataFrame(schema=schema)]
    progress(name, 0, len(blocks))
    for number, days in enumerate(blocks, 1):
        frame = backend.run(QUERIES[name](Tables.of(backend, days), parameters))
        frames.append(frame.select(pl.col(column).cast(kind) for column, kind in schema.items()))
        progress(name, number, len(blocks))
    # Ties beyond the leading text are broken by the rest, so that every engine gives the same frame.
    return pl.concat(frames).sort(list(schema), nulls_last=False)


def _blocks(backend: Backend, days: Days) -> Iterator[Days]:
    """The days of the study, a few at a time where the engine has only this machine. Groups never cross days."""
    from whydrop.studies.discards.parameters import Days

    if not backend.in_blocks:
        yield days
        return
    rows = backend.rows_of_days("counters")
    named = {*rows, *backend.rows_of_days("ndt")}
    every = (days.first + timedelta(days=number) for number in range(days.length))
    present = [day for day in every if day.isoformat() in named]
    block: list[date] = []
    size = 0
    for day in present:
        more = rows.get(day.isoformat(), 0)
        if block and size + more > _ROWS_OF_A_BLOCK:
            yield Days(first=block[0], last=block[-1])
            block, size = [], 0
        block.append(day)
        size += more
    if block:
        yield Days(first=block[0], last=block[-1])
