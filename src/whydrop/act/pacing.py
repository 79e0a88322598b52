"""``whydrop pace`` step by step: where packets to the host leave, at which rate they should, and whether it helps."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from whydrop.act import proving, searching
from whydrop.act.applying import Lease
from whydrop.act.changes import Address, Change, Pace, paced
from whydrop.act.meter import Meter, Reading
from whydrop.act.planning import Bottleneck, Estimate, burst_for
from whydrop.act.searching import Search, Tried
from whydrop.act.snapshot import Snapshot
from whydrop.measure.engine import EngineError
from whydrop.runtime.rtnetlink import Netlink

# A flow needs so many round trips to start and to show what becomes of it.
_ROUND_TRIPS = 60
# Of an interface with an unknown speed.
_SPEED_BPS = 10e9
# Two runs over one path differ by so much anyway.
_NOISE = 0.05


@dataclass(frozen=True)
class Route:
    """How packets leave this host for another.

    Attributes:
        addresses: of the host, that are reached by this interface; the first is the one that is measured.
        interface: its name; and its index, and its queues now.
    """

    addresses: tuple[Address, ...]
    interface: str
    index: int
    snapshot: Snapshot

    @property
    def speed_bps(self) -> float:
        """The speed of the interface, as its driver reports it."""
        try:
            mbit_per_s = int(Path(f"/sys/class/net/{self.interface}/speed").read_text())
        except (OSError, ValueError):
            mbit_per_s = -1
        return mbit_per_s * 1e6 if mbit_per_s > 0 else _SPEED_BPS


def route_to(host: str, ip_version: int | None = None) -> Route:
    """Where packets to a host leave.

    Raises:
        EngineError: it has no address, or no route.
    """
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(ip_version or 0, socket.AF_UNSPEC)
    try:
        told = socket.getaddrinfo(host, None, family, socket.SOCK_DGRAM)
    except OSError as reason:
        raise EngineError(f"{host}: cannot find the address of this host: {reason.strerror}") from None
    addresses = [ipaddress.ip_address(one[4][0].partition("%")[0]) for one in told]  # type: ignore[union-attr]
    found: dict[int, list[Address]] = {}
    problem: OSError | None = None
    with contextlib.closing(Netlink()) as netlink:
        for address in dict.fromkeys(addresses):
            try:
                index = netlink.route_to(str(address)).interface
            except OSError as reason:
                problem = reason
                continue
            if index is not None:
                found.setdefault(index, []).append(address)
        if not found:
            raise EngineError(f"{host}: there is no route to it ({problem})")
        index, reached = next(iter(found.items()))
        return Route(tuple(reached), socket.if_indextoname(index), index, Snapshot.take(netlink, index))


@dataclass(frozen=True)
class Plan:
    """At which rate to pace, and why.

    Attributes:
        pace: with addresses.
        why: for people.
        search: what was measured for it; None where it was known.
        bottleneck: what was known, or what the search makes likely.
        round_trip_s, mss_bytes: of the path, where measured; else NaN and a usual one.
    """

    pace: Pace
    why: str
    search: Search | None
    bottleneck: Bottleneck
    round_trip_s: float = math.nan
    mss_bytes: float = 1448.0

    @property
    def helps(self) -> bool:
        """True if the search found more than there is without pacing; also where nothing was searched."""
        if self.search is None or self.search.best is None:
            return True
        return self.search.best.goodput_bps > self.search.unpaced.goodput_bps * (1 + _NOISE)


def searched(
    meter: Meter,
    route: Route,
    lease: Lease | None = None,
    *,
    highest_bps: float | None = None,
    replace_root: bool = False,
    seed: int | None = None,
) -> Plan:
    """Find the rate by measuring.

    Args:
        meter: measures the host.
        route: the route to the host.
        lease: of a change by :func:`change_for`, which is tried at each rate; it is on or off at the end. Without one
            nothing on this host is changed: whydrop's own flows are paced by their sockets. But Linux lets the first
            ten segments of a connection go at once all the same, and a queue of a few packets does not take them.
        highest_bps: no higher rate of payload is tried; by default the interface's.
        replace_root: as of :func:`change_for`.
        seed: of the order of the last measurements.

    Raises:
        whydrop.act.meter.NoMeasurementError, EngineError: the path cannot be measured.
    """
    readings: list[Reading] = []
    by_frames = _counts_frames(route.snapshot)

    def measure(rate_bps: float) -> Tried:
        if math.isinf(rate_bps):
            reading = meter.reading("unpaced")
            if math.isfinite(reading.min_rtt_s):
                meter.length_s = max(meter.length_s, _ROUND_TRIPS * reading.min_rtt_s)
        else:
            title = f"paced at {rate_bps / 1e6:.6g} Mbit/s of payload"
            frames_bps = rate_bps * readings[0].frame_bytes / readings[0].mss_bytes
            if lease is not None:
                pace = Pace(frames_bps, burst_for(frames_bps), route.addresses)
                lease.use(paced(route.interface, route.snapshot, pace, replace_root=replace_root))
                reading = meter.reading(title)
            else:
                # The sockets' own pacing counts payload, that of the fq discipline frames.
                reading = meter.reading(title, pacing_rate_bps=frames_bps if by_frames else rate_bps)
        readings.append(reading)
        return Tried(rate_bps, reading.goodput_bps, reading.retransmitted)

    found = searching.search(measure, highest_bps or route.speed_bps, seed)
    assert found.best is not None
    first = readings[0]
    rate = found.best.rate_bps * first.frame_bytes / first.mss_bytes
    pace = Pace(rate, burst_for(rate), route.addresses)
    why = f"of {len(found.tried)} measurements, paced at this rate brought {found.best.goodput_bps / 1e6:.4g} Mbit/s"
    why += f"; unpaced {found.unpaced.goodput_bps / 1e6:.4g} Mbit/s"
    likely = Bottleneck("unknown", Estimate(rate), found="the highest rate at which all arrived")
    return Plan(pace, why, found, likely, first.min_rtt_s, first.mss_bytes)


def to_be_tried(route: Route, *, replace_root: bool = False) -> Change:
    """The change for a search, which varies its rate."""
    pace = Pace(route.speed_bps, burst_for(route.speed_bps), route.addresses)
    return paced(route.interface, route.snapshot, pace, replace_root=replace_root)


def _counts_frames(snapshot: Snapshot) -> bool:
    return any(one.kind == "fq" for one in snapshot.qdiscs)


def change_for(plan: Plan, route: Route, *, replace_root: bool = False) -> Change:
    """The change of the interface. Raises :class:`whydrop.act.changes.CannotChangeError`."""
    return paced(route.interface, route.snapshot, plan.pace, replace_root=replace_root)


def known(bottleneck: Bottleneck, pace: Pace, route: Route) -> Plan:
    """A plan from what is known."""
    return Plan(replace(pace, addresses=route.addresses), bottleneck.found, None, bottleneck)


def proved(meter: Meter, lease: Lease) -> proving.Proof:
    """Measure with and without the change in turns, with flows that know nothing of it."""

    def measured(title: str) -> Path:
        return meter.loaded(f"{title}: {lease.change.words}", delay_s=0.0).folder

    return proving.prove(measured, lease.on, lease.off, "goodput-up", ("rtt-median", "retransmits"))
