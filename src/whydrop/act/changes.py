"""Changes of an interface: as messages for the kernel, and as the commands of tc(8), ip(8), ethtool(8)."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from whydrop.act.pauses import Pauses
from whydrop.act.snapshot import PROTOCOL, Piece, Request, Snapshot, can_be_recreated, rehearsed
from whydrop.errors import Error
from whydrop.runtime.rtnetlink import (
    IFLA_TXQLEN,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    ROOT,
    RTM_DELQDISC,
    RTM_DELROUTE,
    RTM_DELTCLASS,
    RTM_DELTFILTER,
    RTM_NEWLINK,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWTCLASS,
    RTM_NEWTFILTER,
    TCA_KIND,
    TCA_OPTIONS,
    TCMSG,
    Route,
    attribute,
    handle,
    host_route,
)
from whydrop.text import quantities

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# A full frame without preamble and checksum, as tc counts.
FRAME_BYTES = 1514
# Timers of the kernel are about so late: what may go at once is at least as much as the rate brings in that time.
_LATE_S = 1e-4
# A queue of our own before the paced rate: so many frames, or what the rate drains in so long where that is more.
_QUEUE_FRAMES, _QUEUE_S = 100, 0.1
# "wd": the discipline's handle that whydrop takes where it is free.
_HANDLE = 0x7764
# Faster than any interface: no limit.
_UNLIMITED_BPS = 100e9
# The leaf that splits large packets sends them at this rate: it delays none.
_SPLIT_BPS = 32e9
_QUANTUM_BYTES = 60_000
_TICK_NS = 64
# linux/pkt_sched.h
_HTB_PARMS, _HTB_INIT, _HTB_DIRECT_QLEN, _HTB_RATE64, _HTB_CEIL64, _HTB_VERSION = 1, 2, 5, 6, 7, 3
_TBF_PARMS, _TBF_BURST = 1, 6
_FQ_FLOW_MAX_RATE = 7
_LINKLAYER_ETHERNET = 1
_U32_CLASSID, _U32_SEL, _U32_TERMINAL = 1, 5, 1
_PREFERENCE = 100
_PROTOCOLS = {4: (0x0800, "ip"), 6: (0x86DD, "ipv6")}
# What tc calls the objects and verbs of messages.
_NEW = {"qdisc": RTM_NEWQDISC, "class": RTM_NEWTCLASS, "filter": RTM_NEWTFILTER}
_VERBS = {"add": NLM_F_EXCL, "replace": NLM_F_REPLACE}


class CannotChangeError(Error):
    """These queues are left alone; the message says why, and what to try."""


@dataclass(frozen=True)
class Step:
    """One message, and the command that does the same."""

    request: Request
    command: str


@dataclass(frozen=True)
class Change:
    """A change to one interface, and what takes it back.

    Attributes:
        interface: its name.
        words: what it does, for people.
        before: the queues, or flow control, as they are.
        steps: in order.
        undo: messages that bring back ``before``; each may fail where there is nothing to be done.
        owns: the handle that is ours; what else stands there is not removed. 0: it changes no queue.
        notes: side effects, for the person who applies it.
        addresses: of the host that it is for; none: for all.
    """

    interface: str
    words: str
    before: Snapshot | Pauses
    steps: tuple[Step, ...]
    undo: tuple[Request, ...]
    owns: int
    notes: tuple[str, ...] = ()
    addresses: tuple[Address, ...] = ()

    def commands(self) -> list[str]:
        """Of tc, ip or ethtool, to paste."""
        return [step.command for step in self.steps]


@dataclass(frozen=True)
class Pace:
    """How fast packets to one host may leave.

    Attributes:
        rate_bps: on the Ethernet layer, without preamble and checksum, as tc counts.
        burst_bytes: what may leave at once.
        addresses: of the host.
    """

    rate_bps: float
    burst_bytes: int
    addresses: tuple[Address, ...] = field(default=())

    @property
    def limit_bytes(self) -> int:
        """The bytes that may wait for it."""
        return round(max(_QUEUE_FRAMES * FRAME_BYTES, self.rate_bps / 8 * _QUEUE_S))


def least_burst_bytes(rate_bps: float, frame_bytes: int = FRAME_BYTES) -> int:
    """The smallest burst that holds the rate: a frame, or what comes while a timer is late.

    >>> least_burst_bytes(10e6), least_burst_bytes(10e9), least_burst_bytes(10e6, 9014)
    (1600, 125000, 9100)
    """
    return max(-(-frame_bytes // 100) * 100, round(rate_bps / 8 * _LATE_S))


# The steps of a change, the messages that undo it, the handle that is ours, and notes.
_Parts = tuple[Sequence[Step], Sequence[Request], int, Sequence[str]]


def paced(interface: str, snapshot: Snapshot, pace: Pace, *, replace_root: bool = False) -> Change:
    """Pace the packets to one host, and leave all others as they are.

    On an interface with default queues, HTB takes the place of the kernel's default and forwards all other packets
    unpaced. A configured HTB gets one more class.

    Args:
        interface: its name.
        snapshot: its queues now.
        pace: rate, burst and addresses.
        replace_root: also take the place of a discipline that somebody configured; it goes on, with all beneath it,
            for all other traffic.

    Raises:
        CannotChangeError: it would have to touch what somebody configured, or could not put it back exactly.
    """
    root = snapshot.root
    if root is None or not root.handle or replace_root:
        parts = _as_root(interface, snapshot, root, pace)
    elif root.kind == "htb":
        parts = _beside(interface, snapshot, root, pace)
    else:
        raise CannotChangeError(
            f"{interface}: {root.kind} {handle(root.handle)} is configured at its root, and whydrop does not "
            "change it. --replace-root puts it beneath a queue of whydrop, and restores it afterwards"
        )
    to, rate = ", ".join(map(str, pace.addresses)), quantities.rate(pace.rate_bps)
    words = f"packets to {to} leave {interface} at {rate}, at most {quantities.exact_size(pace.burst_bytes)} at once"
    return replace(_change(interface, words, snapshot, *parts), addresses=pace.addresses)


def _as_root(interface: str, snapshot: Snapshot, root: Piece | None, pace: Pace) -> _Parts:
    """HTB as the root; what was configured there continues beneath it."""
    ours = _free_handle(snapshot, 3)
    default, paced_class, second = ours | 1, ours | 2, 1 << 16
    undo = [_deleted(RTM_DELQDISC, ours, ROOT)]
    steps, notes = [_root(interface, ours, snapshot)], []
    if root is not None and root.handle:
        _check_restorable(interface, snapshot, "--replace-root")
        steps.append(_class(interface, ours, default, _UNLIMITED_BPS, _QUANTUM_BYTES))
        nested = snapshot.requests(default)
        steps += [Step(one, f"# {_words(one)} as it was, beneath {handle(default)}") for one in nested]
        undo += snapshot.requests()
        notes.append(
            f"{root.kind} {handle(root.handle)} continues beneath {handle(default)}; it is restored afterwards"
        )
    else:
        kind = _default_kind(interface, snapshot)
        if kind is not None:
            steps.append(_class(interface, ours, default, _UNLIMITED_BPS, _QUANTUM_BYTES))
            steps.append(_step(interface, "qdisc add", ours + second, default, kind))
        if root is not None and root.kind == "mq":
            notes.append(f"{interface} has several queues; while it is paced, all packets pass one lock")
    if not snapshot.queue_length:
        undo.append(_queue_length(snapshot.index, 0))
    steps += _class_steps(interface, ours, paced_class, ours + 2 * second, pace, _PREFERENCE)
    return steps, undo, ours, notes


def _beside(interface: str, snapshot: Snapshot, root: Piece, pace: Pace) -> _Parts:
    """One more class in a configured HTB."""
    major = root.handle >> 16
    used = {one.handle & 0xFFFF for one in snapshot.classes if one.handle >> 16 == major}
    paced_class = major << 16 | next(minor for minor in range(_HANDLE, 0xFFFF) if minor not in used)
    leaf = _free_handle(snapshot)
    taken = [one.info >> 16 for one in snapshot.filters if one.parent == root.handle]
    # One for each version of IP.
    preference = min([_PREFERENCE + 2, *taken]) - 2
    if preference < 1:
        raise CannotChangeError(f"{interface}: its filters leave no preference before them; whydrop's must come first")
    undo = [
        _deleted(RTM_DELTFILTER, 0, root.handle, _preference_and_protocol(preference, version), "u32")
        for version in sorted({address.version for address in pace.addresses})
    ]
    undo.append(_deleted(RTM_DELTCLASS, paced_class, root.handle))
    steps = _class_steps(interface, root.handle, paced_class, leaf, pace, preference)
    notes = [f"packets to the host pass {handle(paced_class)} and no longer the classes of {handle(root.handle)}"]
    return steps, undo, paced_class, notes


def _change(
    interface: str,
    words: str,
    snapshot: Snapshot,
    steps: Sequence[Step],
    undo: Sequence[Request],
    owns: int,
    notes: Sequence[str] = (),
) -> Change:
    """A change with the interface in all of its messages."""
    made = tuple(Step(one.request.of(snapshot.index), one.command) for one in steps)
    back = tuple(one.of(snapshot.index) if one.kind != RTM_NEWLINK else one for one in undo)
    return Change(interface, words, snapshot, made, back, owns, tuple(notes))


def managed(interface: str, snapshot: Snapshot, kind: str, *, replace_root: bool = False) -> Change:
    """Let a managed queue (``fq_codel``, ``cake``) take the place of the FIFO in which packets of this host wait.

    The FIFO is the leaf of a rate limit (HTB, TBF), or the root.

    Raises:
        CannotChangeError: there is no such FIFO, or it could not be put back exactly.
    """
    fifos = [one for one in snapshot.qdiscs if one.kind in ("pfifo", "bfifo", "pfifo_fast")]
    if len(fifos) != 1 or (fifos[0].parent == ROOT and not fifos[0].handle):
        kinds = ", ".join(one.kind for one in snapshot.qdiscs) or "none"
        raise CannotChangeError(f"{interface}: expected one FIFO to replace, found: {kinds}")
    fifo = fifos[0]
    if fifo.parent == ROOT and not replace_root:
        raise CannotChangeError(
            f"{interface}: {fifo.kind} {handle(fifo.handle)} is configured at its root; --replace-root replaces "
            f"it by {kind}, and restores it afterwards"
        )
    _check_restorable(interface, snapshot, kind)
    ours = _free_handle(snapshot)
    if (problem := _problem_with(kind)) is not None:
        raise CannotChangeError(f"this kernel has no {kind} ({problem}); try: modprobe sch_{kind}")
    step = _step(interface, "qdisc replace", ours, fifo.parent, kind)
    words = f"{kind} takes the place of {fifo.kind} {handle(fifo.handle)} on {interface}"
    return _change(interface, words, snapshot, [step], [fifo.recreated(RTM_NEWQDISC)], ours)


def segmented(
    interface: str, snapshot: Snapshot, addresses: Sequence[Address], routes: Sequence[Route], mtu_bytes: int
) -> Change:
    """Send packets to one host that are no longer than this, by a route to that host alone."""
    steps, undo = [], []
    for address, route in zip(addresses, routes, strict=True):
        to = str(address)
        words = f"ip route add {to}/{address.max_prefixlen}" + (f" via {route.gateway}" if route.gateway else "")
        words += f" dev {interface}" + (f" src {route.source}" if route.source else "")
        body = host_route(to, route, PROTOCOL, mtu_bytes)
        request = Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body)
        steps.append(Step(request, f"{words} mtu lock {mtu_bytes} proto {PROTOCOL}"))
        undo.append(Request(RTM_DELROUTE, 0, host_route(to, route, PROTOCOL)))
    named = ", ".join(map(str, addresses))
    words = f"packets to {named} leave {interface} with at most {quantities.exact_size(mtu_bytes)} each"
    return Change(interface, words, snapshot, tuple(steps), tuple(undo), 0, addresses=tuple(addresses))


def _check_restorable(interface: str, snapshot: Snapshot, what: str) -> None:
    try:
        exact = can_be_recreated(snapshot)
    except OSError as reason:
        raise CannotChangeError(f"{interface}: cannot try whether its queues can be restored: {reason}") from None
    if not exact:
        kinds = ", ".join(dict.fromkeys(one.kind for one in (*snapshot.qdiscs, *snapshot.filters)))
        raise CannotChangeError(
            f"{interface}: its queues ({kinds}) cannot be restored exactly, as a trial in an empty network "
            f"namespace showed; {what} is refused"
        )


def _default_kind(interface: str, snapshot: Snapshot) -> str | None:
    """The discipline that the kernel gave the interface by itself, to serve all else; None: it has none (``noqueue``).

    Raises:
        CannotChangeError: the kernel would give it another one afterwards.
    """
    root = snapshot.root
    kinds = {one.kind for one in snapshot.qdiscs if root is None or root.kind != "mq" or one.parent != ROOT}
    if not kinds or kinds == {"noqueue"}:
        return None
    try:
        default = Path("/proc/sys/net/core/default_qdisc").read_text().strip()
    except OSError:
        default = ""
    if kinds != {default} or any(one.handle for one in snapshot.qdiscs):
        raise CannotChangeError(
            f"{interface}: it has {', '.join(sorted(kinds))} by default, but the kernel would restore "
            f"{default or 'an unknown discipline'} (net.core.default_qdisc); whydrop does not change it"
        )
    return default


def _root(interface: str, ours: int, snapshot: Snapshot) -> Step:
    glob = struct.pack("=5I", _HTB_VERSION, 10, 1, 0, 0)
    length = snapshot.queue_length or 1000
    options = attribute(_HTB_INIT, glob) + attribute(_HTB_DIRECT_QLEN, struct.pack("=I", length))
    return _step(interface, "qdisc replace", ours, ROOT, "htb", options, f"default 1 direct_qlen {length}")


def _class_steps(interface: str, parent: int, paced_class: int, leaf: int, pace: Pace, preference: int) -> list[Step]:
    """A class with its leaf, and last the filter that sends packets there."""
    quantum = min(pace.burst_bytes, _QUANTUM_BYTES)
    return [
        _class(interface, parent, paced_class, pace.rate_bps, quantum, pace.burst_bytes),
        _leaf(interface, paced_class, leaf, pace),
        *(_filter(interface, parent, paced_class, address, preference) for address in pace.addresses),
    ]


def _class(interface: str, parent: int, own: int, rate_bps: float, quantum: int, burst: int | None = None) -> Step:
    burst = burst or round(rate_bps / 8 * _LATE_S)
    quantum = max(quantum, FRAME_BYTES)
    rate = round(rate_bps / 8)
    ticks = _ticks(burst, rate)
    options = attribute(_HTB_PARMS, 2 * _rate(rate) + struct.pack("=5I", ticks, ticks, quantum, 0, 0))
    if rate > 0xFFFFFFFF:
        options += b"".join(attribute(kind, struct.pack("=Q", rate)) for kind in (_HTB_RATE64, _HTB_CEIL64))
    settings = f"rate {rate * 8}bit ceil {rate * 8}bit burst {burst} cburst {burst} quantum {quantum}"
    return _step(interface, "class add", own, parent, "htb", options, settings)


def _leaf(interface: str, parent: int, own: int, pace: Pace) -> Step:
    """The queue before the paced rate: ``fq`` spaces the packets of each flow; else TBF splits large ones.

    With segmentation offload a packet holds up to 64 KiB: it would leave as one burst. TBF cuts what is longer than its
    burst (as does no other discipline), and ``fq`` is of use only where nothing must be cut.
    """
    rate = round(pace.rate_bps / 8)
    fits = _longest_packet_bytes(interface) <= pace.burst_bytes and rate < 0xFFFFFFFF
    if fits and _problem_with("fq") is None:
        options = attribute(_FQ_FLOW_MAX_RATE, struct.pack("=I", rate))
        return _step(interface, "qdisc add", own, parent, "fq", options, f"maxrate {rate * 8}bit")
    rate = round(_SPLIT_BPS / 8)
    parameters = _rate(rate) + _rate(0) + struct.pack("=3I", pace.limit_bytes, _ticks(pace.burst_bytes, rate), 0)
    options = attribute(_TBF_PARMS, parameters) + attribute(_TBF_BURST, struct.pack("=I", pace.burst_bytes))
    settings = f"rate {rate * 8}bit burst {pace.burst_bytes} limit {pace.limit_bytes}"
    return _step(interface, "qdisc add", own, parent, "tbf", options, settings)


def _filter(interface: str, parent: int, to: int, address: Address, preference: int) -> Step:
    begins, data = (16 if address.version == 4 else 24), address.packed
    keys = b"".join(
        struct.pack("=I", 0xFFFFFFFF) + data[place : place + 4] + struct.pack("=ii", begins + place, 0)
        for place in range(0, len(data), 4)
    )
    selector = struct.pack("=BBBxHHhhI", _U32_TERMINAL, 0, len(data) // 4, 0, 0, 0, 0, 0) + keys
    options = attribute(_U32_CLASSID, struct.pack("=I", to)) + attribute(_U32_SEL, selector)
    info = _preference_and_protocol(preference, address.version)
    named = f"protocol {_PROTOCOLS[address.version][1]} pref {info >> 16}"
    match = f"match {'ip' if address.version == 4 else 'ip6'} dst {address}/{address.max_prefixlen}"
    settings = f"{match} flowid {handle(to)}"
    return _step(interface, "filter add", 0, parent, "u32", options, settings, named=named, info=info)


def _preference_and_protocol(preference: int, version: int) -> int:
    # Filters of one preference are of one protocol.
    return (preference + (version == 6)) << 16 | socket.htons(_PROTOCOLS[version][0])


def _step(
    interface: str,
    command: str,
    own: int,
    parent: int,
    kind: str,
    options: bytes = b"",
    settings: str = "",
    *,
    named: str = "",
    info: int = 0,
) -> Step:
    """A ``command`` of tc such as ``qdisc add``, and its message, for any interface.

    ``options`` are the kernel's settings, ``settings`` the same for tc; tc knows it by its handle, or as ``named``.
    """
    what, verb = command.split()
    place = "root" if parent == ROOT else f"parent {handle(parent)}"
    named = named or f"{'classid' if what == 'class' else 'handle'} {handle(own)}"
    words = f"tc {command} dev {interface} {place} {named} {kind} {settings}".rstrip()
    body = TCMSG.pack(0, 0, 0, 0, own, parent, info) + attribute(TCA_KIND, kind.encode() + b"\0")
    body += attribute(TCA_OPTIONS, options) if options else b""
    return Step(Request(_NEW[what], NLM_F_CREATE | _VERBS[verb], body), words)


def _deleted(message: int, own: int, parent: int, info: int = 0, kind: str = "") -> Request:
    body = TCMSG.pack(0, 0, 0, 0, own, parent, info)
    return Request(message, 0, body + (attribute(TCA_KIND, kind.encode() + b"\0") if kind else b""))


def _free_handle(snapshot: Snapshot, count: int = 1) -> int:
    """The first of so many handles in a row that no discipline has."""
    used = snapshot.majors()
    return next(one for one in range(_HANDLE, 0xFFF0) if not used & set(range(one, one + count))) << 16


def _queue_length(index: int, packets: int) -> Request:
    head = struct.pack("=BBHiII", 0, 0, 0, index, 0, 0)
    return Request(RTM_NEWLINK, 0, head + attribute(IFLA_TXQLEN, struct.pack("=I", packets)))


def _rate(bytes_per_s: int) -> bytes:
    """``struct tc_ratespec``."""
    layer = _LINKLAYER_ETHERNET if bytes_per_s else 0
    return struct.pack("=BBHhHI", 0, layer, 0, 0, 0, min(bytes_per_s, 0xFFFFFFFF))


def _ticks(size_bytes: int, rate: int) -> int:
    """How long so many bytes take, in ticks of the packet scheduler."""
    return int(size_bytes / rate * 1e9 / _TICK_NS)


def _problem_with(kind: str) -> str | None:
    """The reason why this kernel makes no such discipline; ``None`` where it does."""
    try:
        rehearsed([_step("", "qdisc add", _HANDLE << 16, ROOT, kind).request])
    except OSError as reason:
        return str(reason.strerror)
    return None


def _longest_packet_bytes(interface: str) -> int:
    """The longest that TCP may hand to the interface at once: a frame where segments are cut before."""
    from whydrop.measure.host.ethtool import Ethtool

    with contextlib.closing(Ethtool(interface)) as asked:
        offloads = asked.offloads()
    cut_late = offloads.get("tcp-segmentation-offload", True) or offloads.get("generic-segmentation-offload", True)
    return 65536 if cut_late else FRAME_BYTES


def _words(request: Request) -> str:
    piece = Piece(request.body)
    what = {RTM_NEWQDISC: "", RTM_NEWTCLASS: "class ", RTM_NEWTFILTER: "filter "}[request.kind]
    return f"{what}{piece.kind} {handle(piece.handle)}"
