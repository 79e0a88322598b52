"""Traffic through a switch's uplink: a load that follows day and week, bursts shorter than a window, and their drops.

A burst is two or more machines sending to the uplink at line rate at once, for milliseconds. It overflows when what
arrives beyond the port's speed, besides the load that passes anyway, is more than the port's buffer holds:

    (senders + utilisation - 1) x speed x duration > buffer

whatever the mean of the ten seconds around it, which it hardly moves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .plan import BIN_S, BINS_PER_DAY, Plan

Counts = NDArray[np.int64]
FULL_FRAME_BYTES = 1514
# Local midnight in UTC; the others lie in between.
_MIDNIGHT_H = {"dfw": 6, "lga": 5, "nuq": 8, "lhr": 0, "syd": 14}
_DAY_CORRELATION = 0.5


@dataclass
class Site:
    """The constants of a site."""

    plan: Plan
    name: str
    speed_bps: int = 0
    peak_utilisation: float = 0.0
    packet_bytes: float = 0.0
    buffer_bytes: float = 0.0
    day_factors: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))
    shares: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))

    def __post_init__(self) -> None:
        chance = self.plan.chance("site", self.name)
        self.speed_bps = int(chance.choice(self.plan.port_speeds_bps))
        self.peak_utilisation = float(chance.uniform(0.1, 0.45))
        self.packet_bytes = float(chance.uniform(850, 1300))
        self.buffer_bytes = float(chance.uniform(0.2e6, 1.0e6))
        self.shares = chance.dirichlet(np.full(self.plan.machines, 8.0))
        burstiness = chance.normal(0, 0.5)
        self.day_factors = np.exp(burstiness + 0.4 * correlated_days(chance, self.plan.days))

    @property
    def metro(self) -> str:
        """Group of sites."""
        return self.name[:3]

    @property
    def switch(self) -> str:
        """As DISCO names it."""
        return f"s1.{self.name}"


def correlated_days(chance: np.random.Generator, days: int) -> NDArray[np.float64]:
    """A factor's logarithm for each day, of variance 1, which remembers half of the day before."""
    values = chance.standard_normal(days)
    for day in range(1, days):
        values[day] = _DAY_CORRELATION * values[day - 1] + np.sqrt(1 - _DAY_CORRELATION**2) * values[day]
    return values


def daily_course(metro: str, hours: NDArray[np.float64]) -> NDArray[np.float64]:
    """The load at UTC ``hours``, 0 to 1: least at four in the morning, most at nine in the evening, local time."""
    local = (hours - _MIDNIGHT_H.get(metro, 6)) % 24
    evening = np.exp(-0.5 * ((local - 21) / 2.5) ** 2) + np.exp(-0.5 * ((local + 24 - 21) / 2.5) ** 2)
    office = np.exp(-0.5 * ((local - 14) / 4.0) ** 2)
    return np.asarray(np.minimum(1.0, 0.25 + 0.35 * office + 0.6 * evening))


def utilisation(site: Site, number: int) -> NDArray[np.float64]:
    """Mean load of each window of a day, as a share of the port's speed."""
    plan = site.plan
    chance = plan.chance("load", site.name, number)
    hours = np.arange(BINS_PER_DAY) * BIN_S / 3600
    anchors = [0.2 * plan.chance("hours", site.name, day).standard_normal(24) for day in (number, number + 1)]
    drift = np.interp(hours, np.arange(25), np.append(anchors[0], anchors[1][0]))
    weekend = 0.8 if plan.day(number).weekday() >= 5 else 1.0
    noise = 0.15 * chance.standard_normal(BINS_PER_DAY)
    load = site.peak_utilisation * weekend * daily_course(site.metro, hours) * np.exp(drift + noise)
    return np.asarray(np.clip(load, 0.0005, 0.9))


@dataclass(frozen=True)
class Burst:
    """The effects of a day's bursts in each window."""

    octets: NDArray[np.float64]
    discards: Counts
    held: Counts
    """Bursts that flow control delayed: pause frames were sent to the machines."""


def bursts(site: Site, number: int, load: NDArray[np.float64]) -> Burst:
    """Microbursts of a day, and what the port's buffer could not hold of them."""
    plan = site.plan
    chance = plan.chance("bursts", site.name, number)
    mean = plan.bursts_per_bin * site.day_factors[number] * load / site.peak_utilisation
    window = np.repeat(np.arange(BINS_PER_DAY), chance.poisson(mean))
    size = len(window)
    senders = chance.integers(2, 5, size)
    # The same bytes take a tenth of the time on a port ten times as fast.
    duration_s = 0.004 * np.exp(0.8 * chance.standard_normal(size)) * 1e9 / site.speed_bps
    arrived_bytes = senders * site.speed_bps * duration_s / 8
    excess_bytes = (senders - 1 + load[window]) * site.speed_bps * duration_s / 8 - site.buffer_bytes
    dropped = np.maximum(0, np.ceil(excess_bytes / FULL_FRAME_BYTES)).astype(np.int64)
    kept = chance.random(size) < plan.discards_kept if plan.is_changed(site.name, number) else np.full(size, True)
    dropped[~kept] = 0

    def per_window(values: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(window, weights=values, minlength=BINS_PER_DAY), dtype=np.float64)

    return Burst(
        per_window(arrived_bytes - dropped * FULL_FRAME_BYTES),
        per_window(dropped).astype(np.int64),
        per_window(~kept).astype(np.int64),
    )


def growth(site: Site, number: int, down: NDArray[np.bool_]) -> dict[str, dict[str, Counts]]:
    """Growth of each counter in each window of a day: ``{"uplink": {"octets.tx": (8640,), ...}, "mlab1": ...}``.

    Machines' names stand for their own ports. Nothing passes while the switch is ``down``. What flow control and
    discards do is seen on the uplink; machines' ports share its traffic. Discarded packets are among unicast.tx, as
    RFC 2863 has it, and not among octets.tx.
    """
    plan = site.plan
    chance = plan.chance("packets", site.name, number)
    load = utilisation(site, number)
    burst = bursts(site, number, load)
    most = site.speed_bps * BIN_S / 8
    octets = np.minimum(most, load * most + burst.octets)
    packets = octets / (site.packet_bytes * np.exp(0.03 * chance.standard_normal(BINS_PER_DAY)))
    uplink = {"octets.tx": octets, "unicast.tx": packets + burst.discards, "discards.tx": burst.discards}
    if set(plan.counters) - set(NEEDED) or "local" in plan.ports:
        uplink |= {
            "octets.rx": 0.06 * octets * np.exp(0.3 * chance.standard_normal(BINS_PER_DAY)) + 66 * packets / 2,
            "unicast.rx": packets * 0.55,
            "multicast.tx": chance.poisson(3, BINS_PER_DAY),
            "multicast.rx": chance.poisson(20, BINS_PER_DAY),
            "broadcast.tx": chance.poisson(1, BINS_PER_DAY),
            "broadcast.rx": chance.poisson(10, BINS_PER_DAY),
            "discards.rx": np.zeros(BINS_PER_DAY),
            "errors.tx": np.zeros(BINS_PER_DAY),
            "errors.rx": chance.poisson(0.0005, BINS_PER_DAY),
        }
    found = {"uplink": uplink}
    if "local" in plan.ports:
        for machine, share in zip(plan.machine_names(), site.shares, strict=True):
            found[machine] = {_across(name): share * values for name, values in uplink.items() if name in _SHARED}
            found[machine] |= {"pause.tx": share * 50 * burst.held, "discards.tx": np.zeros(BINS_PER_DAY)}
    return {
        port: {name: np.where(down, 0, np.rint(values)).astype(np.int64) for name, values in counters.items()}
        for port, counters in found.items()
    }


NEEDED = ("octets.tx", "unicast.tx", "discards.tx")
_SHARED = ("octets.tx", "octets.rx", "unicast.tx", "unicast.rx")


def _across(counter: str) -> str:
    """The counter on the other side: what goes out of the uplink came in from a machine."""
    kind, _, direction = counter.partition(".")
    return f"{kind}.{'rx' if direction == 'tx' else 'tx'}"
