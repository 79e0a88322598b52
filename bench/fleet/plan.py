"""The choices that make a fleet."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

import numpy as np

BIN_S = 10
BIN_NS = BIN_S * 1_000_000_000
BINS_PER_DAY = 86_400 // BIN_S
DAY_NS = 86_400 * 1_000_000_000

TYPES = ("octets", "unicast", "multicast", "broadcast", "discards", "errors")
ALL_COUNTERS = tuple(f"{kind}.{direction}" for kind in TYPES for direction in ("tx", "rx"))


@dataclass(frozen=True)
class Plan:
    """A fleet.

    Args:
        sites: each with one switch; the metro is the first three letters.
        machines: at each site, each of which polls the uplink.
        counters: which are kept; pause.tx is kept of local ports where ``pause`` is.
        ports: ``uplink``, the same for all machines of a site, and ``local``, each machine's own.
        telemetry: what a missed poll leaves behind. v2: the growth of the next spans the gap (DISCO v2 and whydrop's
            collector). v1: a window without both polls has no sample (DISCO v1).
        bursts_per_bin: microbursts in ten seconds of the mean load, before sites and days differ.
        change_day: from this UTC day on flow control is on, ``change_sites`` permitting (empty: everywhere).
        discards_kept: share of bursts that flow control does not hold back.
        speed_ratio: factor of every download from the change on: the true effect on clients.
        shared_shock: standard deviation of log10 of a factor that all tests of one site and day have in common.
        outages: how often polls fail in a row, times what is usual; 0 for none, nor single ones.
        tests_per_day: of each site, uploads and invalid ones among them; 0 for none.
        clients: of each metro.
        edges: share of tests placed to begin or end exactly where a window does.
    """

    sites: tuple[str, ...] = ("dfw01", "dfw02", "lga01")
    machines: int = 2
    first_day: date = date(2018, 2, 1)
    days: int = 30
    seed: int = 1
    counters: tuple[str, ...] = ALL_COUNTERS
    ports: tuple[str, ...] = ("uplink",)
    telemetry: Literal["v1", "v2"] = "v2"
    port_speeds_bps: tuple[int, ...] = (1_000_000_000, 10_000_000_000)
    bursts_per_bin: float = 0.15
    change_day: date | None = None
    change_sites: tuple[str, ...] = ()
    discards_kept: float = 0.02
    speed_ratio: float = 1.0
    shared_shock: float = 0.0
    outages: float = 1.0
    tests_per_day: float = 150.0
    clients: int = 150
    edges: float = 0.15

    def __post_init__(self) -> None:
        if self.days < 1 or self.machines < 1 or not self.sites:
            raise ValueError("a fleet has at least one site, one machine and one day")
        if self.machines > 9 or len(set(self.sites)) != len(self.sites):
            raise ValueError("sites differ, and have at most nine machines")
        if not set(self.counters) <= set(ALL_COUNTERS):
            raise ValueError(f"counters are among {', '.join(ALL_COUNTERS)}")

    @property
    def bins(self) -> int:
        """Windows of ten seconds. Window ``w`` ends ``w`` x 10 s after the first midnight: the first began before."""
        return self.days * BINS_PER_DAY

    @property
    def start_ns(self) -> int:
        """The first day's midnight."""
        return midnight_ns(self.first_day)

    def day(self, number: int) -> date:
        """The UTC day ``number``, from 0."""
        return self.first_day + timedelta(days=number)

    def is_changed(self, site: str, number: int) -> bool:
        """True if flow control is on at ``site`` on day ``number``."""
        if self.change_day is None or (self.change_sites and site not in self.change_sites):
            return False
        return self.day(number) >= self.change_day

    def metros(self) -> tuple[str, ...]:
        """In order."""
        return tuple(sorted({site[:3] for site in self.sites}))

    def machine_names(self) -> list[str]:
        """mlab1, mlab2, ..."""
        return [f"mlab{number}" for number in range(1, self.machines + 1)]

    def chance(self, *what: str | int) -> np.random.Generator:
        """Random numbers of their own for ``what``: those of one site are the same whichever others there are."""
        words = [part if isinstance(part, int) else zlib.crc32(part.encode()) for part in what]
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence([self.seed, *words])))


def midnight_ns(day: date) -> int:
    """Where a UTC day begins."""
    return (day - date(1970, 1, 1)).days * DAY_NS
