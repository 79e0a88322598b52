"""Which ports of switches newly discard too much, and whether bursts shorter than a sample are why.

A port exceeds when, over the window that ends now, its discards are more than ``watch.ratio`` of its packets and at
least ``watch.least_discards``. It is *new* if it was not reported before, by the state that is kept from one look to
the next; without a state, if it did not exceed in the window before. It is *ongoing* until a window with samples shows
that it no longer exceeds: a switch without samples has not recovered.

A discard in a sample with a low mean utilisation is due to a microburst: the queue overflowed although the port was
idle for most of the sample. Utilisation needs the port's speed, which stores do not record. It comes from the
parameters; otherwise it is the smallest usual speed above the highest rate of a day: a 10 Gbit/s port that never
carried more than 0.8 Gbit/s counts as 1 Gbit/s, which overestimates utilisation and underestimates microbursts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.discards import results

if TYPE_CHECKING:
    from whydrop.store.engines import Backend
    from whydrop.studies.discards.parameters import Parameters, Watch

_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_DIRECTIONS = ("rx", "tx")
# RFC 2863 counts discarded packets among these.
_PACKETS = ("unicast", "multicast", "broadcast")
# Of Ethernet, bit/s.
USUAL_SPEEDS_BPS = (10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9, 200e9, 400e9, 800e9)

# One direction of a port: site, switch, machine, port, direction.
Key = tuple[str | None, str | None, str | None, str | None, str]
_KEY = ("site", "switch", "machine", "port", "direction")


@dataclass(frozen=True)
class Look:
    """The findings of one look at the ports.

    Attributes:
        now_ns: the end of the window.
        alerts: a frame of `results.ALERTS`: the new ones first.
        ports: the number of ports with samples of discards in the window; each direction counts as one.
        silent: those that had some within the day before the window, but none in it.
        unjudged: those that discarded in the window, without counts of packets, so that there is no ratio.
        last_ns: where no port had samples in the window, when the last of the store ended; ``None``: it has none.
        reported: since when each port exceeds: what the next look is to know.
    """

    now_ns: int
    alerts: pl.DataFrame
    ports: int
    silent: list[Key] = field(default_factory=list)
    unjudged: list[Key] = field(default_factory=list)
    last_ns: int | None = None
    reported: dict[Key, int] = field(default_factory=dict)

    @property
    def new(self) -> pl.DataFrame:
        """The alerts that were not reported before."""
        return self.alerts.filter(pl.col("state") == "new")


def look(backend: Backend, parameters: Parameters, now_ns: int, reported: Mapping[Key, int] | None = None) -> Look:
    """Look at every port of the store.

    Args:
        backend: an open store.
        parameters: ``watch`` and ``port``, the uplink that all machines of a site see; ``metros`` are ignored.
        now_ns: the end of the window.
        reported: what the last look said; empty: this is the first, and everything is new; ``None``: it is not kept.
    """
    watch = parameters.watch
    window_ns = round(watch.window_s * _SECOND)
    series = _series(backend, now_ns, window_ns)
    discards = _one_of_shared(series.filter(kind="discards"), parameters.port)
    suspects = discards.filter(pl.col("discards") >= watch.least_discards)
    seen, silent = (_keys(discards.filter(which)) for which in (pl.col("samples") > 0, pl.col("samples") == 0))
    unjudged, rows = _keys(suspects), []
    if unjudged:
        samples = _samples(backend, suspects, now_ns - 2 * window_ns, now_ns)
        samples = samples.join(_speeds(series, watch), on=_KEY[:4], how="left", nulls_equal=True)
        ports = _summed(samples, now_ns - window_ns, watch.low_utilisation)
        unjudged -= _keys(ports.filter(pl.col("samples") > 0))
        ports = ports.with_columns(exceeded_before=_exceeds(watch, "_before")).filter(_exceeds(watch))
        rows = [_alert(row, reported) for row in ports.iter_rows(named=True)]
    rows.sort(key=lambda row: (row["state"] != "new", -row["ratio"]))
    kept = {_key(row): int(row["since_ns"]) for row in rows}
    # Ports without samples keep their state.
    kept |= {key: since for key, since in (reported or {}).items() if key not in seen or key in unjudged}
    return Look(
        now_ns,
        pl.DataFrame(rows, schema=results.ALERTS),
        len(seen),
        sorted(silent, key=_order),
        sorted(unjudged, key=_order),
        None if seen else _last(backend),
        kept,
    )


def _last(backend: Backend) -> int | None:
    """When the last sample of discards in the store ended."""
    days = backend.rows_of_days("counters")
    if not days:
        return None
    last = date.fromisoformat(max(days))
    table = backend.table("counters", last, last)
    table = table.filter(table.counter.isin([f"discards.{direction}" for direction in _DIRECTIONS]))
    found = backend.run(table.aggregate(last=table.end_ns.max()))["last"][0]
    return None if found is None else int(found)


def _order(key: Key) -> tuple[str, ...]:
    return tuple(part or "" for part in key)


def _key(row: Mapping[str, Any]) -> Key:
    return row["site"], row["switch"], row["machine"], row["port"], row["direction"]


def _keys(frame: pl.DataFrame) -> set[Key]:
    return {_key(row) for row in frame.iter_rows(named=True)}


def _series(backend: Backend, now_ns: int, window_ns: int) -> pl.DataFrame:
    """Each series of discards and octets that has samples in the window or within a day before it.

    Columns: ``_KEY``, ``kind``, ``samples`` and ``discards`` of the window, ``highest_bps`` of the whole time.
    """
    import ibis

    names = [f"{kind}.{direction}" for kind in ("discards", "octets") for direction in _DIRECTIONS]
    first_ns = now_ns - window_ns - _DAY
    table = _between(backend, first_ns, now_ns)
    table = table.filter(table.counter.isin(names), table.value.notnull())
    inside = table.end_ns > now_ns - window_ns
    rate = ibis.cases((table.span_ns > 0, table.value * (8.0 * _SECOND) / table.span_ns))
    found = table.group_by("site", "switch", "machine", "port", "counter").agg(
        samples=inside.cast("int64").sum(),
        discards=ibis.cases((inside, table.value), else_=0.0).sum(),
        highest_bps=rate.max(),
    )
    split = pl.col("counter").str.split_exact(".", 1)
    return (
        backend.run(found)
        .with_columns(kind=split.struct.field("field_0"), direction=split.struct.field("field_1"))
        .drop("counter")
    )


def _between(backend: Backend, first_ns: int, last_ns: int) -> Any:
    """Samples that end after ``first_ns``, up to ``last_ns``; of the days that these lie on."""
    days = (datetime.fromtimestamp(ns / _SECOND, UTC).date() for ns in (first_ns, last_ns))
    table = backend.table("counters", *days)
    return table.filter(table.end_ns > first_ns, table.end_ns <= last_ns)


def _one_of_shared(series: pl.DataFrame, shared: str) -> pl.DataFrame:
    """Every machine of a site polls the same uplink: of these the series with the most samples, by name the first."""
    order = series.sort("samples", "machine", descending=[True, False], nulls_last=True)
    alone = order.filter(pl.col("port").ne_missing(shared))
    same = order.filter(pl.col("port") == shared)
    best = same.unique(["site", "switch", "port", "direction"], keep="first", maintain_order=True)
    return pl.concat([alone, best])


def _speeds(series: pl.DataFrame, watch: Watch) -> pl.DataFrame:
    """The speed of each port in bit/s, and where it comes from; null if unknown."""
    rows: list[tuple[Any, ...]] = []
    highest = series.filter(kind="octets").group_by(_KEY[:4]).agg(pl.col("highest_bps").max())
    for *place, rate in highest.iter_rows():
        speed, source = watch.port_speed_bps.get(place[3] or ""), "parameters"
        if speed is None and rate is not None:
            # Frames' preambles and gaps are not among the octets, so that a full port stays below its speed.
            speed, source = next((usual for usual in USUAL_SPEEDS_BPS if usual >= rate), None), "rates"
        rows.append((*place, speed, None if speed is None else source))
    schema = {**dict.fromkeys(_KEY[:4], pl.String()), "speed_bps": pl.Float64(), "speed_from": pl.String()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _samples(backend: Backend, ports: pl.DataFrame, first_ns: int, last_ns: int) -> pl.DataFrame:
    """The samples of some ports, one row for each poll: ``_KEY``, ``end_ns``, ``span_ns``, and the counters' growth.

    Of polls that have both discards and unicast packets: a ratio of what is counted over different times is none.
    """
    table = _between(backend, first_ns, last_ns)
    kinds = ("discards", "octets", *_PACKETS)
    counters = [f"{kind}.{direction}" for kind in kinds for direction in _DIRECTIONS]
    # Names narrow the query down to few ports; exactly which, nulls and all, is settled here.
    wanted = table.counter.isin(counters)
    for column in ("site", "switch", "port"):
        names = ports[column].drop_nulls().unique().to_list()
        wanted &= table[column].isin(names) | table[column].isnull()
    columns = ["site", "switch", "machine", "port", "counter", "end_ns", "span_ns", "value"]
    found = backend.run(table.filter(wanted, table.value.notnull()).select(columns))
    split = pl.col("counter").str.split_exact(".", 1)
    found = found.with_columns(kind=split.struct.field("field_0"), direction=split.struct.field("field_1"))
    found = found.join(ports.select(_KEY), on=_KEY, how="semi", nulls_equal=True)
    polls = found.group_by(*_KEY, "end_ns").agg(
        pl.col("span_ns").max(),
        *(pl.col("value").filter(pl.col("kind") == kind).sum().alias(kind) for kind in kinds),
        *((pl.col("kind") == kind).any().alias(f"has_{kind}") for kind in ("discards", "unicast", "octets")),
    )
    return polls.filter(pl.col("has_discards") & pl.col("has_unicast")).sort(*_KEY, "end_ns", nulls_last=True)


def _summed(samples: pl.DataFrame, since_ns: int, low: float) -> pl.DataFrame:
    """One row for each port: sums of its window and of the one before, and how idle it was when it discarded."""
    inside = pl.col("end_ns") > since_ns
    discards, packets = pl.col("discards"), pl.sum_horizontal(_PACKETS)
    begin = pl.col("end_ns") - pl.col("span_ns").fill_null(0)
    used = pl.col("octets") * (8.0 * _SECOND) / pl.col("span_ns") / pl.col("speed_bps")
    known = inside & pl.col("has_octets") & (pl.col("span_ns") > 0) & (discards > 0) & pl.col("speed_bps").is_not_null()
    sums = [
        part
        for end, which in (("", inside), ("_before", ~inside))
        for part in (
            discards.filter(which).sum().alias(f"discards{end}"),
            packets.filter(which).sum().alias(f"packets{end}"),
            begin.filter(which & (discards > 0)).first().alias(f"since{end}"),
        )
    ]
    ports = samples.group_by(_KEY, maintain_order=True).agg(
        *sums,
        pl.col("speed_bps", "speed_from").first(),
        samples=inside.sum(),
        in_quiet_bins=pl.when(known.any()).then(discards.filter(known & (used < low)).sum()),
        median_utilisation_at_discards=used.filter(known).median(),
    )
    return ports.with_columns(
        pl.when(pl.col(f"packets{end}") > 0)
        .then(pl.col(f"discards{end}") / pl.col(f"packets{end}"))
        .alias(f"ratio{end}")
        for end in ("", "_before")
    )


def _exceeds(watch: Watch, end: str = "") -> pl.Expr:
    return (pl.col(f"ratio{end}") > watch.ratio) & (pl.col(f"discards{end}") >= watch.least_discards)


def _alert(row: dict[str, Any], reported: Mapping[Key, int] | None) -> dict[str, Any]:
    earlier = None if reported is None else reported.get(_key(row))
    if reported is None and row["exceeded_before"]:
        earlier = row["since_before"]
    state = {"state": "new", "since_ns": row["since"]} if earlier is None else {"state": "ongoing", "since_ns": earlier}
    return {name: value for name, value in (row | state).items() if name in results.ALERTS}


def named(key: Iterable[str | None]) -> str:
    """A port as people say it.

    >>> named(("dfw01", "s1.dfw01", "mlab1", "uplink", "tx"))
    'dfw01 s1.dfw01 mlab1 uplink tx'
    """
    return " ".join(part for part in key if part)
