"""Who tests, when and how fast: few clients often, most seldom, at speeds of three decades; tests that do not count.

Rows have the columns of the store's ``ndt``, and ``kind``, what the test was meant to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .plan import BIN_NS, BINS_PER_DAY, DAY_NS, Plan
from .traffic import Site, correlated_days, daily_course

if TYPE_CHECKING:
    from .fleet import Contacts

Floats = NDArray[np.float64]
SEGMENT_BYTES = 1448
# What the study leaves out by its parameters: M-Lab's own monitoring.
EXCLUDED = ("45.56.98.222", "2600:3c03::f03c:91ff:fe33:819", "35.225.75.192")
# Kinds of tests and their shares. The study must distinguish the first from all others.
KINDS = {
    "plain": 0.86,
    "short": 0.02,  # less than 9 s
    "small": 0.02,  # less than 1 MB
    "long": 0.02,  # a minute or more, less than ten
    "endless": 0.01,  # ten minutes or more
    "excluded": 0.02,  # a client that does not count
    "unlimited": 0.02,  # without the three times of its limits, as NDT5 reports none
    "upload": 0.03,
}
# 198.18.0.0/15 is for benchmarks (RFC 2544), 2001:db8::/32 for documentation (RFC 3849).
_IPV4, _IPV6 = int(IPv4Address("198.18.0.0")), int(IPv6Address("2001:db8::"))
_AT_HOME = 0.75


@dataclass(frozen=True)
class Clients:
    """The clients of a metro: arrays with one entry for each."""

    address: NDArray[np.str_]
    log_speed: Floats
    """log10 of its usual speed in bit/s."""
    spread: Floats
    """Standard deviation of log10 of its tests' speeds."""
    weight: Floats
    """Share of the metro's tests."""
    home: NDArray[np.int64]
    """The site that it mostly tests against."""
    loss: Floats
    min_rtt_ns: NDArray[np.int64]


def clients_of(plan: Plan, metro: str, sites: int) -> Clients:
    """Draw them."""
    chance = plan.chance("clients", metro)
    size = plan.clients
    hosts = chance.choice(2**17 - 2, size, replace=False) + 1
    new = chance.random(size) < 0.25
    address = [str(IPv6Address(_IPV6 + (int(host) << 64) + 1)) if six else str(IPv4Address(_IPV4 + int(host)))
               for host, six in zip(hosts, new, strict=True)]  # fmt: skip
    # Lognormal, with a tail of fast ones as fibre has it.
    log_speed = chance.normal(7.2, 0.45, size) + np.where(chance.random(size) < 0.06, chance.exponential(0.6, size), 0)
    weight = chance.pareto(1.3, size) + 0.15
    return Clients(
        np.array(address),
        np.clip(log_speed, 5.3, 8.9),
        chance.uniform(0.03, 0.2, size),
        weight / weight.sum(),
        chance.integers(0, sites, size),
        chance.exponential(0.002, size),
        (np.exp(chance.normal(3.3, 0.6, size)) * 1e6).astype(np.int64),
    )


def tests(plan: Plan, sites: list[Site], contacts: dict[str, Contacts], number: int) -> pl.DataFrame:
    """Tests that begin on day ``number``, in no order."""
    found = []
    for metro in plan.metros():
        there = [site for site in sites if site.metro == metro]
        found.append(_of_metro(plan, metro, there, contacts, number))
    return pl.concat(found) if found else nothing()


def nothing() -> pl.DataFrame:
    """No tests."""
    return pl.DataFrame(schema=_SCHEMA)


def _of_metro(plan: Plan, metro: str, sites: list[Site], contacts: dict[str, Contacts], number: int) -> pl.DataFrame:
    pool = clients_of(plan, metro, len(sites))
    chance = plan.chance("tests", metro, number)
    weekend = 1.15 if plan.day(number).weekday() >= 5 else 1.0
    size = int(chance.poisson(plan.tests_per_day * len(sites) * weekend))
    who = chance.choice(plan.clients, size, p=pool.weight)
    where = np.where(chance.random(size) < _AT_HOME, pool.home[who], chance.integers(0, len(sites), size))
    kind = chance.choice(list(KINDS), size, p=list(KINDS.values()))
    duration_ns = _durations_ns(chance, kind)
    start_ns = _starts_ns(plan, chance, metro, number, duration_ns)
    # Numbers of their own: not all fleets have telemetry.
    beside = plan.chance("beside", metro, number)
    start_ns = _beside_discards(plan, beside, sites, contacts, number, where, start_ns, duration_ns)
    speed_bps = 10 ** _log_speeds(plan, chance, pool, who, where, sites, start_ns)
    payload = np.minimum(speed_bps, 9.4e8) * duration_ns / 8e9
    acked = np.where(kind == "small", chance.choice([999_999, 400_000, 0], size), payload).astype(np.int64)
    # Right at the least that counts, now and then.
    acked = np.where((kind == "plain") & (chance.random(size) < 0.01), 1_000_000, acked).astype(np.int64)
    segments = np.maximum(1, acked // SEGMENT_BYTES).astype(np.int64)
    touched = _touched(plan, sites, contacts, where, start_ns, duration_ns)
    # How many of these are drawn depends on the speeds, and nothing else is to.
    again = plan.chance("resent", metro, number)
    resent = again.binomial(segments, np.minimum(0.5, pool.loss[who] + 0.004 * touched))
    return _frame(plan, chance, number, sites, pool, who, where, kind, start_ns, duration_ns, acked, segments, resent)


def _durations_ns(chance: np.random.Generator, kind: NDArray[np.str_]) -> NDArray[np.int64]:
    size = len(kind)
    usual = chance.uniform(9.3e6, 11.5e6, size)
    usual = np.where(chance.random(size) < 0.1, chance.uniform(11e6, 25e6, size), usual)
    usual = np.where(chance.random(size) < 0.02, 9_000_000, usual)  # what is just long enough
    usual = np.where(chance.random(size) < 0.03, 10_000_000, usual)
    by_kind = {
        "short": chance.choice([8_999_999, 3_000_000, 500_000], size),
        "long": np.where(chance.random(size) < 0.2, 60_000_000, chance.uniform(6e7, 5.9e8, size)),
        "endless": np.where(chance.random(size) < 0.3, 600_000_000, chance.uniform(6e8, 9e8, size)),
    }
    for name, values in by_kind.items():
        usual = np.where(kind == name, values, usual)
    return usual.astype(np.int64) * 1000


def _starts_ns(
    plan: Plan, chance: np.random.Generator, metro: str, number: int, duration_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """By the course of the day, to the microsecond; some begin or end exactly where a window does, or near midnight."""
    size = len(duration_ns)
    hours = np.arange(24, dtype=np.float64) + 0.5
    course = daily_course(metro, hours)
    seconds = 3600 * chance.choice(24, size, p=course / course.sum()) + chance.uniform(0, 3600, size)
    late = chance.random(size) < plan.edges / 15
    seconds = np.where(late, 86_400 - chance.uniform(0, 12, size), seconds)
    start_ns = plan.start_ns + number * DAY_NS + (seconds * 1e6).astype(np.int64) * 1000
    edge = chance.random(size)
    begins = start_ns - start_ns % BIN_NS
    ends = start_ns + duration_ns
    start_ns = np.where(edge < plan.edges * 2 / 3, begins, start_ns)
    ends_there = (edge >= plan.edges * 2 / 3) & (edge < plan.edges)
    return np.where(ends_there, ends - ends % BIN_NS - duration_ns, start_ns).astype(np.int64)


def _beside_discards(
    plan: Plan,
    chance: np.random.Generator,
    sites: list[Site],
    contacts: dict[str, Contacts],
    number: int,
    where: NDArray[np.int64],
    start_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Move some tests to where they just touch a window with discards, or just do not."""
    moved = start_ns.copy()
    for index, site in enumerate(sites):
        if site.name not in contacts:
            continue
        day = slice(number * BINS_PER_DAY, (number + 1) * BINS_PER_DAY)
        windows_there = np.flatnonzero(contacts[site.name].dropped[day]) + number * BINS_PER_DAY
        here = np.flatnonzero((where == index) & (chance.random(len(where)) < plan.edges / 3))
        if not len(windows_there) or not len(here):
            continue
        end = plan.start_ns + BIN_NS * chance.choice(windows_there, len(here))
        choice = chance.integers(0, 4, len(here))
        duration = duration_ns[here]
        begins = end - BIN_NS
        moved[here] = np.choose(choice, [end, end - 1000, begins - duration, begins - duration + 1000])
    return moved


def _log_speeds(
    plan: Plan,
    chance: np.random.Generator,
    pool: Clients,
    who: NDArray[np.int64],
    where: NDArray[np.int64],
    sites: list[Site],
    start_ns: NDArray[np.int64],
) -> Floats:
    """log10 of the speed in bit/s: the client's own, less in the evening, and what the change does."""
    number = (start_ns - plan.start_ns) // DAY_NS
    local = ((start_ns % DAY_NS) / 3.6e12 - 6) % 24
    evening = -0.04 * np.exp(-0.5 * ((local - 21) / 2) ** 2)
    speed = pool.log_speed[who] + pool.spread[who] * chance.standard_normal(len(who)) + evening
    first, last = (int(number.min()), int(number.max())) if len(number) else (0, 0)
    changed = np.array([[plan.is_changed(site.name, day) for day in range(first, last + 1)] for site in sites])
    if len(who):
        speed = speed + np.log10(plan.speed_ratio) * changed[where, number - first]
    if plan.shared_shock:
        shocks = np.stack([correlated_days(plan.chance("shock", site.name), plan.days) for site in sites])
        speed = speed + plan.shared_shock * shocks[where, np.clip(number, 0, plan.days - 1)]
    return np.asarray(speed)


def _touched(
    plan: Plan,
    sites: list[Site],
    contacts: dict[str, Contacts],
    where: NDArray[np.int64],
    start_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which tests were going on in a window in which their uplink dropped packets."""
    touched = np.zeros(len(where), dtype=bool)
    for index, site in enumerate(sites):
        if site.name in contacts:
            here = where == index
            first, last = windows(plan, start_ns[here], duration_ns[here])
            touched[here] = any_in(contacts[site.name].dropped > 0, first, last)
    return touched


def windows(
    plan: Plan, start_ns: NDArray[np.int64], duration_ns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last window that a test overlaps. Window ``w`` is [(w - 1) x 10 s, w x 10 s) of the fleet's time."""
    since = start_ns - plan.start_ns
    return since // BIN_NS + 1, -(-(since + duration_ns) // BIN_NS)


def any_in(marks: NDArray[np.bool_], first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True where any of the windows first ... last is marked; beyond the fleet's time none is."""
    sums = np.concatenate([[0], np.cumsum(marks)])
    return sums[np.clip(last + 1, 0, len(marks))] > sums[np.clip(first, 0, len(marks))]


_SCHEMA = {
    "time_ns": pl.Int64(), "start_ns": pl.Int64(), "end_ns": pl.Int64(), "test_id": pl.String(),
    "protocol": pl.String(), "direction": pl.String(), "metro": pl.String(), "site": pl.String(),
    "machine": pl.String(), "server": pl.String(), "local_address": pl.String(), "local_port": pl.Int64(),
    "remote_address": pl.String(), "remote_port": pl.Int64(), "duration_ns": pl.Int64(), "acked_bytes": pl.Int64(),
    "received_bytes": pl.Int64(), "sent_segments": pl.Int64(), "retransmitted_segments": pl.Int64(),
    "receiver_limited_ns": pl.Int64(), "congestion_limited_ns": pl.Int64(), "sender_limited_ns": pl.Int64(),
    "min_rtt_ns": pl.Int64(), "kind": pl.String(),
}  # fmt: skip


def _frame(
    plan: Plan,
    chance: np.random.Generator,
    number: int,
    sites: list[Site],
    pool: Clients,
    who: NDArray[np.int64],
    where: NDArray[np.int64],
    kind: NDArray[np.str_],
    start_ns: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    acked: NDArray[np.int64],
    segments: NDArray[np.int64],
    resent: NDArray[np.int64],
) -> pl.DataFrame:
    size = len(who)
    names = np.array([site.name for site in sites])[where] if size else np.empty(0, str)
    machines = np.array(plan.machine_names())[chance.integers(0, plan.machines, size)]
    client = np.where(kind == "excluded", chance.choice(EXCLUDED, size), pool.address[who])
    # The log names a test by when its server heard of it, a little before data flows.
    time_ns = start_ns - chance.integers(0, 1_500_000, size) * 1000
    receiver = (chance.random(size) * 0.3 * duration_ns).astype(np.int64) // 1000 * 1000
    sender = (chance.random(size) * 0.05 * duration_ns).astype(np.int64) // 1000 * 1000
    upload = kind == "upload"
    bare = pl.Series(kind == "unlimited")
    frame = pl.DataFrame(
        {
            "time_ns": time_ns, "start_ns": start_ns, "end_ns": start_ns + duration_ns,
            "metro": [sites[0].metro] * size, "site": names.astype(str), "machine": machines.astype(str),
            "local_port": np.full(size, 3001), "remote_address": client.astype(str),
            "remote_port": chance.integers(1024, 65_536, size), "duration_ns": duration_ns,
            "acked_bytes": np.where(upload, 0, acked), "received_bytes": np.where(upload, acked, 1000),
            "sent_segments": segments, "retransmitted_segments": resent, "receiver_limited_ns": receiver,
            "congestion_limited_ns": duration_ns - receiver - sender, "sender_limited_ns": sender,
            "min_rtt_ns": pool.min_rtt_ns[who], "kind": kind.astype(str),
        }
    )  # fmt: skip
    limits = ("receiver_limited_ns", "congestion_limited_ns", "sender_limited_ns")
    server = pl.format("ndt.iupui.{}.{}.measurement-lab.org", "machine", "site")
    network = pl.lit(plan.day(number).year % 200)
    return (
        frame.with_columns(
            pl.when(bare).then(None).otherwise(pl.col(limits)).name.keep(),
            pl.when(bare).then(pl.lit("ndt5")).otherwise(pl.lit("web100")).alias("protocol"),
            pl.when(pl.col("kind") == "upload").then(pl.lit("upload")).otherwise(pl.lit("download")).alias("direction"),
            server.alias("server"),
            pl.format("192.0.{}.{}", network, pl.col("machine").str.slice(4)).alias("local_address"),
            pl.format("{}_{}:{}", "time_ns", "remote_address", "remote_port").alias("test_id"),
        )
        .select(list(_SCHEMA))
        .cast(_SCHEMA)  # type: ignore[arg-type]
        .unique(("test_id",), keep="first", maintain_order=True)
    )
