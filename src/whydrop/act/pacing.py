"""``whydrop pace`` step by step: where packets to the host leave, at which rate they should, and whether it helps."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whydrop.act import proving, searching
from whydrop.act.applying import Lease
from whydrop.act.changes import Address, Change, Pace, managed, paced, segmented
from whydrop.act.meter import ETHERNET_BYTES, RESPONDER_JUDGED, Judged, Measuring, NoMeasurementError, Reading
from whydrop.act.planning import Bottleneck, Estimate, NoPlanError, burst_for
from whydrop.act.searching import Search, Tried
from whydrop.act.sizes import Sizes
from whydrop.act.snapshot import Snapshot
from whydrop.measure.engine import EngineError
from whydrop.runtime.rtnetlink import Netlink
from whydrop.text import quantities

# A flow needs so many round trips to start and to show what becomes of it.
_ROUND_TRIPS = 60
# Of Ethernet without jumbo frames; and the longest of these.
USUAL_MTU_BYTES = 1500
_LONGEST_FRAME_BYTES = 9216
# Of IPv4, below which Linux does not go (net.ipv4.route.min_pmtu), and of IPv6 (RFC 8200).
LEAST_MTU_BYTES = {4: 552, 6: 1280}
# Of an interface with an unknown speed.
_SPEED_BPS = 10e9
# Bursts that are larger than need be by this.
_LARGER = 10
# Two runs over one path differ by so much anyway.
_NOISE = 0.05


@dataclass(frozen=True)
class Route:
    """How packets leave this host for another.

    Attributes:
        addresses: of the host, that are reached by this interface; the first is the one that is measured.
        interface: its name; and its index, and its queues now.
        replace_root: whether a root queue that was configured by hand may be replaced.
    """

    addresses: tuple[Address, ...]
    interface: str
    index: int
    snapshot: Snapshot
    replace_root: bool = False

    @property
    def speed_bps(self) -> float:
        """The speed of the interface, as its driver reports it."""
        try:
            mbit_per_s = int(Path(f"/sys/class/net/{self.interface}/speed").read_text())
        except (OSError, ValueError):
            mbit_per_s = -1
        return mbit_per_s * 1e6 if mbit_per_s > 0 else _SPEED_BPS

    def paced(self, rate_bps: float, burst_bytes: int | None = None) -> Change:
        """The change that paces packets; by default as little leaves at once as the rate needs.

        Raises:
            whydrop.act.changes.CannotChangeError: it would have to touch what somebody configured.
        """
        pace = Pace(rate_bps, burst_bytes or self.least_burst_bytes(rate_bps), self.addresses)
        return paced(self.interface, self.snapshot, pace, replace_root=self.replace_root)

    @property
    def mtu_bytes(self) -> int:
        """The largest packet that the interface takes."""
        try:
            return int(Path(f"/sys/class/net/{self.interface}/mtu").read_text())
        except (OSError, ValueError):
            return USUAL_MTU_BYTES

    def least_burst_bytes(self, rate_bps: float) -> int:
        """The smallest burst that holds a rate; a full frame of this interface at least."""
        frame_bytes = min(self.mtu_bytes, _LONGEST_FRAME_BYTES) + ETHERNET_BYTES
        return burst_for(rate_bps, frame_bytes=frame_bytes)

    def segmented(self, mtu_bytes: int) -> Change:
        """The change that keeps packets to the host no longer than this.

        Raises:
            EngineError: the route has gone.
        """
        with contextlib.closing(Netlink()) as netlink:
            try:
                routes = [netlink.route_to(str(address)) for address in self.addresses]
            except OSError as reason:
                raise EngineError(f"{self.addresses[0]}: there is no route to it any more ({reason})") from None
        return segmented(self.interface, self.snapshot, self.addresses, routes, mtu_bytes)

    def managed(self, kind: str) -> Change:
        """The change that replaces a FIFO by a managed queue; raises as :meth:`paced`."""
        return managed(self.interface, self.snapshot, kind, replace_root=self.replace_root)


def route_to(host: str, ip_version: int | None = None, *, replace_root: bool = False) -> Route:
    """Where packets to a host leave.

    Raises:
        EngineError: it has no address, or no route.
    """
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(ip_version or 0, socket.AF_UNSPEC)
    try:
        answers = socket.getaddrinfo(host, None, family, socket.SOCK_DGRAM)
    except OSError as reason:
        raise EngineError(f"{host}: cannot find the address of this host: {reason.strerror}") from None
    addresses = [ipaddress.ip_address(one[4][0].partition("%")[0]) for one in answers]  # type: ignore[union-attr]
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
        snapshot = Snapshot.take(netlink, index)
        return Route(tuple(reached), socket.if_indextoname(index), index, snapshot, replace_root)


@dataclass(frozen=True)
class LargerBurst:
    """The best rate of a search, measured once more with larger bursts.

    Attributes:
        burst_bytes: that may leave at once.
        goodput_bps: of payload, that arrived.
        retransmitted: share of the segments; NaN where it is not known.
    """

    burst_bytes: int
    goodput_bps: float
    retransmitted: float


@dataclass(frozen=True)
class Plan:
    """At which rate to pace, and why.

    Attributes:
        rate_bps, burst_bytes: as of :class:`whydrop.act.changes.Pace`.
        why: for people.
        search: what was measured for it; None where it was known.
        bottleneck: what was known, or what the search makes likely.
        round_trip_s, mss_bytes: of the path, where measured; else NaN and a usual one.
        larger_burst: what larger bursts brought; ``None`` where that was not measured.
        mtu_bytes: packets are kept to this size instead of being paced; ``None``: they are paced.
    """

    rate_bps: float
    burst_bytes: int
    why: str
    search: Search | None
    bottleneck: Bottleneck
    round_trip_s: float = math.nan
    mss_bytes: float = 1448.0
    mtu_bytes: int | None = None
    larger_burst: LargerBurst | None = None

    @property
    def helps(self) -> bool:
        """True if the search found more than there is without pacing; also where nothing was searched."""
        if self.mtu_bytes is not None:
            return True
        if self.search is None or self.search.best is None:
            return True
        return self.search.best.goodput_bps > self.search.unpaced.goodput_bps * (1 + _NOISE)


@dataclass(frozen=True)
class Paced:
    """The outcome of :func:`whydrop.pace`.

    Attributes:
        plan: the rate, and why.
        change: what is changed on this host; ``change.commands()`` are the commands of ``tc``.
        proof: the measurements with and without it, in turns; ``None`` where it was not proved.
        outcome: ``planned``, ``does not help``, ``applied``, ``better``, ``not better``.
        judged: the source of its numbers.
        sizes: what the path carries with large packets and with usual ones; ``None`` where it takes no large ones, or
            that was not measured.
    """

    plan: Plan
    change: Change
    proof: proving.Proof | None
    outcome: Literal["planned", "does not help", "applied", "better", "not better"]
    judged: Judged = RESPONDER_JUDGED
    sizes: Sizes | None = None

    @property
    def helps(self) -> bool:
        """False where the plan or the proof says that pacing does not help."""
        return self.outcome in ("planned", "applied", "better")

    def __repr__(self) -> str:
        return f"<whydrop.Paced: {self.outcome}; {self.change.words}>"


def searched(
    meter: Measuring,
    route: Route,
    lease: Lease | None = None,
    *,
    highest_bps: float | None = None,
    seed: int | None = None,
) -> Plan:
    """Find the rate by measuring.

    Args:
        meter: measures the host.
        route: the route to the host.
        lease: of a change by :meth:`Route.paced`, which is tried at each rate; it is on or off at the end. Without one
            nothing on this host is changed: whydrop's own flows are paced by their sockets. But Linux lets the first
            ten segments of a connection go at once all the same, and a queue of a few packets does not take them.
        highest_bps: no higher rate of payload is tried; by default the interface's.
        seed: of the order of the last measurements.

    Raises:
        whydrop.act.meter.NoMeasurementError, EngineError: the path cannot be measured.
    """
    if lease is None and meter.cannot_pace is not None:
        raise NoMeasurementError(meter.cannot_pace)
    readings: list[Reading] = []
    # The sockets' own pacing counts payload, that of the fq discipline frames.
    by_frames = any(one.kind == "fq" for one in route.snapshot.qdiscs)

    def measure(rate_bps: float) -> Tried:
        if math.isinf(rate_bps):
            reading = meter.reading("unpaced")
            if math.isfinite(reading.min_rtt_s):
                meter.lasts_at_least(_ROUND_TRIPS * reading.min_rtt_s)
        else:
            title = f"paced at {quantities.rate(rate_bps)} of payload"
            frames_bps = rate_bps * readings[0].frame_bytes / readings[0].mss_bytes
            if lease is not None:
                lease.use(route.paced(frames_bps))
                reading = meter.reading(title)
            else:
                reading = meter.reading(title, pacing_rate_bps=frames_bps if by_frames else rate_bps)
        readings.append(reading)
        return Tried(rate_bps, reading.goodput_bps, reading.retransmitted)

    found = searching.search(
        measure,
        highest_bps or route.speed_bps,
        seed,
        most=meter.most_measurements,
        final_rounds=meter.final_rounds,
    )
    assert found.best is not None
    first = readings[0]
    rate = found.best.rate_bps * first.frame_bytes / first.mss_bytes
    why = (
        f"of {len(found.tried)} measurements, the best was at this rate: {quantities.rate(found.best.goodput_bps)}; "
        f"without pacing {quantities.rate(found.unpaced.goodput_bps)}"
    )
    burst_bytes = route.least_burst_bytes(rate)
    larger = None
    if lease is not None and meter.sends:
        larger = _with_larger_bursts(meter, route, lease, rate)
        why += f"; in bursts of {quantities.exact_size(larger.burst_bytes)} {quantities.rate(larger.goodput_bps)}"
        if larger.goodput_bps > found.best.goodput_bps * (1 + _NOISE):
            burst_bytes = larger.burst_bytes
    likely = Bottleneck("unknown", Estimate(rate), found="the highest rate at which all arrived")
    return Plan(rate, burst_bytes, why, found, likely, first.min_rtt_s, first.mss_bytes, larger_burst=larger)


def _with_larger_bursts(meter: Measuring, route: Route, lease: Lease, rate_bps: float) -> LargerBurst:
    """Measure the best rate with larger bursts, as an interface sends them with segmentation offload."""
    burst_bytes = _LARGER * route.least_burst_bytes(rate_bps)
    lease.use(route.paced(rate_bps, burst_bytes))
    reading = meter.reading(f"bursts of {quantities.exact_size(burst_bytes)}")
    return LargerBurst(burst_bytes, reading.goodput_bps, reading.retransmitted)


def known(bottleneck: Bottleneck, pace: Pace) -> Plan:
    """A plan from what is known."""
    return Plan(pace.rate_bps, pace.burst_bytes, bottleneck.found, None, bottleneck)


def kept_to(mtu_bytes: int, route: Route) -> Plan:
    """A plan that keeps packets to a size.

    Raises:
        NoPlanError: that is no size, or packets are no larger anyway.
    """
    least = LEAST_MTU_BYTES[max(address.version for address in route.addresses)]
    if not least <= mtu_bytes < route.mtu_bytes:
        raise NoPlanError(
            f"an MTU of {mtu_bytes} bytes: expected {least} at least, and less than the {route.mtu_bytes} bytes of "
            f"{route.interface}"
        )
    unknown = Bottleneck("unknown", Estimate(math.nan))
    return Plan(math.nan, 0, "the MTU was given", None, unknown, mtu_bytes=mtu_bytes)


def change_of(plan: Plan, route: Route) -> Change:
    """The change that a plan asks for; raises as :meth:`Route.paced` and :meth:`Route.segmented`."""
    if plan.mtu_bytes is not None:
        return route.segmented(plan.mtu_bytes)
    return route.paced(plan.rate_bps, plan.burst_bytes)


def proved(meter: Measuring, lease: Lease) -> proving.Proof:
    """Measure with and without the change in turns, with flows that know nothing of it."""

    def measured(title: str) -> Path:
        return meter.loaded(f"{title}: {lease.change.words}", delay_s=0.0)

    return proving.prove(measured, lease.on, lease.off, "goodput-up", ("rtt-median", "retransmits"))
