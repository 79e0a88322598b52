"""Changes of an interface's queues: as messages for the kernel, and as the commands of tc(8) that do the same."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whydrop.act.rehearsal import can_be_made_again, rehearsed
from whydrop.act.snapshot import Piece, Request, Snapshot
from whydrop.errors import Error
from whydrop.runtime.rtnetlink import (
    IFLA_TXQLEN,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    ROOT,
    RTM_DELQDISC,
    RTM_DELTCLASS,
    RTM_DELTFILTER,
    RTM_NEWLINK,
    RTM_NEWQDISC,
    RTM_NEWTCLASS,
    RTM_NEWTFILTER,
    TCA_KIND,
    TCA_OPTIONS,
    TCMSG,
    attribute,
    handle,
)

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
        before: the queues as they are.
        steps: in order.
        undo: messages that bring back ``before``; each may fail where there is nothing to be done.
        owns: the handle that is ours; what else stands there is not removed.
        notes: side effects, for the person who applies it.
    """

    interface: str
    words: str
    before: Snapshot
    steps: tuple[Step, ...]
    undo: tuple[Request, ...]
    owns: int
    notes: tuple[str, ...] = ()

    def commands(self) -> list[str]:
        """Of tc, to paste."""
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


def least_burst_bytes(rate_bps: float) -> int:
    """The smallest burst that holds the rate: a frame, or what comes while a timer is late.

    >>> least_burst_bytes(10e6), least_burst_bytes(10e9)
    (1600, 125000)
    """
    return max(1600, round(rate_bps / 8 * _LATE_S))


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
    if root is not None and root.kind == "htb" and root.handle and not replace_root:
        return _beside(interface, snapshot, root, pace)
    if root is not None and root.handle and not replace_root:
        raise CannotChangeError(
            f"{interface}: {root.kind} {handle(root.handle)} is configured at its root, and whydrop does not "
            "change it. --replace-root puts it beneath a queue of whydrop, and restores it afterwards"
        )
    major = next(one for one in range(_HANDLE, 0xFFF0) if not {one, one + 1, one + 2} & snapshot.majors())
    ours, default, paced_class = major << 16, major << 16 | 1, major << 16 | 2
    undo = [_remove(RTM_DELQDISC, ours, ROOT)]
    steps, notes = _new_root(interface, ours, snapshot), []
    if root is not None and root.handle:
        _check_again(interface, snapshot, "--replace-root")
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
            steps.append(_plain(interface, kind, default, (major + 1) << 16))
        if root is not None and root.kind == "mq":
            notes.append(f"{interface} has several queues; while it is paced, all packets pass one lock")
    if not snapshot.queue_length:
        undo.append(_queue_length(snapshot.index, 0))
    steps += _class_steps(interface, ours, paced_class, (major + 2) << 16, pace, _PREFERENCE)
    return _complete(interface, snapshot, pace, steps, undo, ours, notes)


def _beside(interface: str, snapshot: Snapshot, root: Piece, pace: Pace) -> Change:
    """One more class in a configured HTB."""
    major = root.handle >> 16
    used = {one.handle & 0xFFFF for one in snapshot.classes if one.handle >> 16 == major}
    paced_class = major << 16 | next(minor for minor in range(_HANDLE, 0xFFFF) if minor not in used)
    leaf = next(one for one in range(_HANDLE, 0xFFF0) if one not in snapshot.majors()) << 16
    taken = [one.info >> 16 for one in snapshot.filters if one.parent == root.handle]
    # One for each version of IP.
    preference = min([_PREFERENCE + 2, *taken]) - 2
    if preference < 1:
        raise CannotChangeError(f"{interface}: its filters leave no preference before them; whydrop's must come first")
    undo = [_unfilter(root.handle, preference, version) for version in _versions(pace)]
    undo.append(_remove(RTM_DELTCLASS, paced_class, root.handle))
    steps = _class_steps(interface, root.handle, paced_class, leaf, pace, preference)
    notes = [f"packets to the host pass {handle(paced_class)} and no longer the classes of {handle(root.handle)}"]
    return _complete(interface, snapshot, pace, steps, undo, paced_class, notes)


def _complete(
    interface: str,
    snapshot: Snapshot,
    pace: Pace,
    steps: Sequence[Step],
    undo: Sequence[Request],
    owns: int,
    notes: Sequence[str],
) -> Change:
    to = ", ".join(map(str, pace.addresses))
    words = (
        f"packets to {to} leave {interface} at {pace.rate_bps / 1e6:.6g} Mbit/s, at most {pace.burst_bytes} B at once"
    )
    return Change(
        interface,
        words,
        snapshot,
        tuple(Step(one.request.of(snapshot.index), one.command) for one in steps),
        tuple(one.of(snapshot.index) if one.kind != RTM_NEWLINK else one for one in undo),
        owns,
        tuple(notes),
    )


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
    _check_again(interface, snapshot, kind)
    ours = next(one for one in range(_HANDLE, 0xFFF0) if one not in snapshot.majors()) << 16
    try:
        rehearsed([_qdisc(kind, ROOT, ours)])
    except OSError as reason:
        raise CannotChangeError(f"this kernel has no {kind} ({reason.strerror}); try: modprobe sch_{kind}") from None
    step = Step(
        _qdisc(kind, fifo.parent, ours, NLM_F_REPLACE).of(snapshot.index),
        f"tc qdisc replace dev {interface} {_place(fifo.parent)} handle {handle(ours)} {kind}",
    )
    back = fifo.again(RTM_NEWQDISC).of(snapshot.index)
    words = f"{kind} takes the place of {fifo.kind} {handle(fifo.handle)} on {interface}"
    return Change(interface, words, snapshot, (step,), (back,), ours)


def _check_again(interface: str, snapshot: Snapshot, what: str) -> None:
    try:
        exact = can_be_made_again(snapshot)
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


def _new_root(interface: str, ours: int, snapshot: Snapshot) -> list[Step]:
    glob = struct.pack("=5I", _HTB_VERSION, 10, 1, 0, 0)
    length = snapshot.queue_length or 1000
    options = attribute(_HTB_INIT, glob) + attribute(_HTB_DIRECT_QLEN, struct.pack("=I", length))
    return [
        Step(
            _made(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, ours, ROOT, "htb", options),
            f"tc qdisc replace dev {interface} root handle {handle(ours)} htb default 1 direct_qlen {length}",
        )
    ]


def _class_steps(interface: str, parent: int, paced_class: int, leaf: int, pace: Pace, preference: int) -> list[Step]:
    """A class with its leaf, and last the filter that sends packets there."""
    steps = [
        _class(interface, parent, paced_class, pace.rate_bps, min(pace.burst_bytes, _QUANTUM_BYTES), pace.burst_bytes)
    ]
    steps.append(_leaf(interface, paced_class, leaf, pace))
    return steps + [_filter(interface, parent, paced_class, address, preference) for address in pace.addresses]


def _class(interface: str, parent: int, own: int, rate_bps: float, quantum: int, burst: int | None = None) -> Step:
    burst = burst or round(rate_bps / 8 * _LATE_S)
    quantum = max(quantum, FRAME_BYTES)
    rate = round(rate_bps / 8)
    ticks = _ticks(burst, rate)
    options = attribute(
        _HTB_PARMS, _rate(rate) + _rate(rate) + struct.pack("=5I", ticks, ticks, quantum, 0, 0)
    ) + b"".join(attribute(kind, struct.pack("=Q", rate)) for kind in (_HTB_RATE64, _HTB_CEIL64) if rate > 0xFFFFFFFF)
    return Step(
        _made(RTM_NEWTCLASS, NLM_F_CREATE | NLM_F_EXCL, own, parent, "htb", options),
        f"tc class add dev {interface} parent {handle(parent)} classid {handle(own)} htb rate {rate * 8}bit "
        f"ceil {rate * 8}bit burst {burst} cburst {burst} quantum {quantum}",
    )


def _leaf(interface: str, parent: int, own: int, pace: Pace) -> Step:
    """The queue before the paced rate: ``fq`` spaces the packets of each flow; else TBF splits large ones.

    With segmentation offload a packet holds up to 64 KiB: it would leave as one burst. TBF cuts what is longer than its
    burst (as does no other discipline), and ``fq`` is of use only where nothing must be cut.
    """
    rate = round(pace.rate_bps / 8)
    if _longest_packet_bytes(interface) <= pace.burst_bytes and rate < 0xFFFFFFFF and _has("fq"):
        options = attribute(_FQ_FLOW_MAX_RATE, struct.pack("=I", rate))
        command = f"tc qdisc add dev {interface} parent {handle(parent)} handle {handle(own)} fq maxrate {rate * 8}bit"
        return Step(_made(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, own, parent, "fq", options), command)
    rate = round(_SPLIT_BPS / 8)
    parameters = _rate(rate) + _rate(0) + struct.pack("=3I", pace.limit_bytes, _ticks(pace.burst_bytes, rate), 0)
    options = attribute(_TBF_PARMS, parameters) + attribute(_TBF_BURST, struct.pack("=I", pace.burst_bytes))
    return Step(
        _made(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, own, parent, "tbf", options),
        f"tc qdisc add dev {interface} parent {handle(parent)} handle {handle(own)} tbf rate {rate * 8}bit "
        f"burst {pace.burst_bytes} limit {pace.limit_bytes}",
    )


def _filter(interface: str, parent: int, to: int, address: Address, preference: int) -> Step:
    name = _PROTOCOLS[address.version][1]
    begins, data = (16 if address.version == 4 else 24), address.packed
    keys = b"".join(
        struct.pack("=I", 0xFFFFFFFF) + data[place : place + 4] + struct.pack("=ii", begins + place, 0)
        for place in range(0, len(data), 4)
    )
    selector = struct.pack("=BBBxHHhhI", _U32_TERMINAL, 0, len(data) // 4, 0, 0, 0, 0, 0) + keys
    options = attribute(_U32_CLASSID, struct.pack("=I", to)) + attribute(_U32_SEL, selector)
    info = _preference_and_protocol(preference, address.version)
    match = f"match {'ip' if address.version == 4 else 'ip6'} dst {address}/{address.max_prefixlen}"
    return Step(
        _made(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, 0, parent, "u32", options, info),
        f"tc filter add dev {interface} parent {handle(parent)} protocol {name} "
        f"pref {preference + (address.version == 6)} u32 {match} flowid {handle(to)}",
    )


def _preference_and_protocol(preference: int, version: int) -> int:
    # Filters of one preference are of one protocol.
    return (preference + (version == 6)) << 16 | socket.htons(_PROTOCOLS[version][0])


def _versions(pace: Pace) -> list[int]:
    return sorted({address.version for address in pace.addresses})


def _unfilter(parent: int, preference: int, version: int) -> Request:
    head = TCMSG.pack(0, 0, 0, 0, 0, parent, _preference_and_protocol(preference, version))
    return Request(RTM_DELTFILTER, 0, head + attribute(TCA_KIND, b"u32\0"))


def _remove(kind: int, own: int, parent: int) -> Request:
    return Request(kind, 0, TCMSG.pack(0, 0, 0, 0, own, parent, 0))


def _made(kind: int, flags: int, own: int, parent: int, name: str, options: bytes, info: int = 0) -> Request:
    head = TCMSG.pack(0, 0, 0, 0, own, parent, info)
    return Request(kind, flags, head + attribute(TCA_KIND, name.encode() + b"\0") + attribute(TCA_OPTIONS, options))


def _qdisc(kind: str, parent: int, own: int, flags: int = NLM_F_EXCL) -> Request:
    """A discipline with the kernel's defaults."""
    head = TCMSG.pack(0, 0, 0, 0, own, parent, 0)
    return Request(RTM_NEWQDISC, NLM_F_CREATE | flags, head + attribute(TCA_KIND, kind.encode() + b"\0"))


def _plain(interface: str, kind: str, parent: int, own: int) -> Step:
    command = f"tc qdisc add dev {interface} {_place(parent)} handle {handle(own)} {kind}"
    return Step(_qdisc(kind, parent, own), command)


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


def _has(kind: str) -> bool:
    try:
        rehearsed([_qdisc(kind, ROOT, _HANDLE << 16)])
    except OSError:
        return False
    return True


def _longest_packet_bytes(interface: str) -> int:
    """The longest that TCP may hand to the interface at once: a frame where segments are cut before."""
    from whydrop.measure.host.ethtool import Ethtool

    asked = Ethtool(interface)
    try:
        offloads = asked.offloads()
    finally:
        asked.close()
    cut_late = offloads.get("tcp-segmentation-offload", True) or offloads.get("generic-segmentation-offload", True)
    return 65536 if cut_late else FRAME_BYTES


def _place(parent: int) -> str:
    return "root" if parent == ROOT else f"parent {handle(parent)}"


def _words(request: Request) -> str:
    piece = Piece(request.body)
    what = {RTM_NEWQDISC: "", RTM_NEWTCLASS: "class ", RTM_NEWTFILTER: "filter "}[request.kind]
    return f"{what}{piece.kind} {handle(piece.handle)}"
