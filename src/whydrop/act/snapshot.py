"""The queues of one interface as the kernel describes them, to be compared with later ones and to be put back.

What is kept are the kernel's own messages: also what whydrop does not understand of a discipline is put back as it was.
Queues for what arrives (``ingress``, ``clsact``) are not looked at, as nothing here changes them.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from whydrop.runtime.rtnetlink import (
    IFLA_TXQLEN,
    NLM_F_CREATE,
    NLM_F_REPLACE,
    ROOT,
    RTM_GETQDISC,
    RTM_GETTCLASS,
    RTM_GETTFILTER,
    RTM_NEWQDISC,
    RTM_NEWTCLASS,
    RTM_NEWTFILTER,
    TCA_KIND,
    TCA_OPTIONS,
    TCMSG,
    Attributes,
    Netlink,
    attribute,
    attributes,
    route_settings,
    text,
    unsigned,
)

# linux/rtnetlink.h: statistics at the top level of a message, and the mark that ends those of hardware.
_COUNTERS = {3, 4, 5, 6, 7}


@dataclass(frozen=True)
class _Rule:
    """Where the options of a kind of filter (linux/pkt_cls.h) have what changes by itself.

    Attributes:
        actions: what is done with packets that match; with counters and times in it.
        counters: of packets.
        flags: in which the kernel says of hardware what it does not take again (``tc_flags_valid``).
    """

    actions: frozenset[int]
    counters: int = 0
    flags: int = 0


_RULES = {
    "u32": _Rule(frozenset({6, 7}), 9, 11),
    "matchall": _Rule(frozenset({2}), 4, 3),
    "flower": _Rule(frozenset({3}), 0, 22),
    "bpf": _Rule(frozenset({1, 2}), 0, 9),
    "basic": _Rule(frozenset({3, 4}), 5),
    "fw": _Rule(frozenset({2, 4})),
}
_SETTABLE_FLAGS = 0b10011  # skip_hw, skip_sw, verbose
# Disciplines with configured classes; the classes of others are created with them, or are a view of their flows.
_WITH_CLASSES = ("htb", "hfsc", "drr", "qfq", "ets")
_HTB_INIT = 2
# "w": the number of the protocol by which whydrop's routes are known.
PROTOCOL = 119
# Of handles: the upper half is that of the discipline, 0xffff that of what arrives.
_INGRESS = 0xFFFF0000

_CLONE_NEWNET = 0x40000000
_LOOPBACK = 1


@dataclass(frozen=True)
class Request:
    """A change as it is sent to the kernel.

    Attributes:
        kind: of the message; of ethtool its command.
        flags, body: of the message.
        by_ethtool: whether it is one of ethtool, and not of rtnetlink.
    """

    kind: int
    flags: int
    body: bytes
    by_ethtool: bool = False

    def of(self, index: int) -> Request:
        """The same for another interface."""
        family, one, other, _, *rest = TCMSG.unpack_from(self.body)
        return Request(self.kind, self.flags, TCMSG.pack(family, one, other, index, *rest) + self.body[TCMSG.size :])

    def send(self, netlink: Netlink) -> None:
        """Have the change made.

        Raises:
            OSError: the kernel refuses it.
        """
        if self.by_ethtool:
            from whydrop.measure.host import ethtool  # seldom needed, and slow to import for the guard

            ethtool.send(self.kind, self.body)
            return
        netlink.change(self.kind, self.flags, self.body)

    def as_json(self) -> list[Any]:
        """For the state file."""
        return [self.kind, self.flags, self.body.hex(), *([True] if self.by_ethtool else [])]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Request:
        """From the state file."""
        return cls(int(value[0]), int(value[1]), bytes.fromhex(value[2]), *map(bool, value[3:4]))


@dataclass(frozen=True)
class Piece:
    """A discipline, a class or a filter; ``payload`` is the kernel's message about it without its header."""

    payload: bytes

    @property
    def handle(self) -> int:
        """Of a discipline or class; of a filter a number of its kind."""
        return int(TCMSG.unpack_from(self.payload)[4])

    @property
    def parent(self) -> int:
        """The handle of its parent."""
        return int(TCMSG.unpack_from(self.payload)[5])

    @property
    def info(self) -> int:
        """Of a filter its preference and protocol, of a class its leaf, of a discipline how often it is referred to."""
        return int(TCMSG.unpack_from(self.payload)[6])

    @property
    def kind(self) -> str:
        """Such as ``htb``."""
        return text(self._attributes.get(TCA_KIND, b""))

    @property
    def options(self) -> bytes:
        """Its settings, as the kernel has them."""
        return self._attributes.get(TCA_OPTIONS, b"")

    @property
    def _attributes(self) -> Attributes:
        return attributes(self.payload[TCMSG.size :])

    def settings(self, *, of_filter: bool = False) -> tuple[Any, ...]:
        """The settings, constant while packets pass: everything but counters and the number of the interface."""
        found = {kind: data for kind, data in self._attributes.items() if kind not in _COUNTERS}
        if self.kind == "htb" and TCA_OPTIONS in found:
            found[TCA_OPTIONS] = b"".join(
                # struct tc_htb_glob ends with the packets that went past all classes.
                attribute(kind, data[:16] if kind == _HTB_INIT else data)
                for kind, data in attributes(found[TCA_OPTIONS]).items()
            )
        if of_filter and TCA_OPTIONS in found:
            found[TCA_OPTIONS] = self._rule(found[TCA_OPTIONS])
        return self.handle, self.parent, self.info if of_filter else 0, tuple(sorted(found.items()))

    def recreated(self, kind: int, parent: int | None = None) -> Request:
        """The request that makes it again, beneath another parent where one is given."""
        kept = {number: data for number, data in self._attributes.items() if number not in _COUNTERS}
        info = self.info if kind == RTM_NEWTFILTER else 0
        if kind == RTM_NEWQDISC and self.kind == "htb" and TCA_OPTIONS in kept:
            kept[TCA_OPTIONS] = _htb_as_set(kept[TCA_OPTIONS])
        if kind == RTM_NEWTFILTER and TCA_OPTIONS in kept:
            kept[TCA_OPTIONS] = self._rule(kept[TCA_OPTIONS])
        head = TCMSG.pack(0, 0, 0, 0, self.handle, self.parent if parent is None else parent, info)
        return Request(
            kind, NLM_F_CREATE | NLM_F_REPLACE, head + b"".join(attribute(k, data) for k, data in kept.items())
        )

    @property
    def can_be_compared(self) -> bool:
        """Of a filter: whether all of it is known, and nothing of it changes by itself."""
        rule = _RULES.get(self.kind)
        return rule is not None and not rule.actions & attributes(self.options).keys()

    def _rule(self, options: bytes) -> bytes:
        """The options of a filter without what the kernel adds to them; of one that cannot be compared, nothing."""
        if not self.can_be_compared:
            return b""
        rule, found = _RULES[self.kind], attributes(options)
        found.pop(rule.counters, None)
        if rule.flags in found:
            flags = (unsigned(found[rule.flags]) or 0) & _SETTABLE_FLAGS
            found[rule.flags] = flags.to_bytes(4, sys.byteorder)
        return b"".join(attribute(kind, data) for kind, data in found.items())


def _htb_as_set(options: bytes) -> bytes:
    """HTB reports its version as 3.17 and expects 3 (``tc_htb_glob.version``)."""
    found = attributes(options)
    version = int.from_bytes(found[_HTB_INIT][:4], sys.byteorder) >> 16
    found[_HTB_INIT] = version.to_bytes(4, sys.byteorder) + found[_HTB_INIT][4:]
    return b"".join(attribute(kind, data) for kind, data in found.items())


@dataclass(frozen=True)
class Snapshot:
    """The queues for what leaves by one interface.

    Attributes:
        index: of the interface.
        queue_length: ``txqueuelen``; the kernel changes a 0 by itself when a discipline is added.
        routes: the kernel's messages on whydrop's own routes to single hosts.
    """

    index: int
    queue_length: int
    qdiscs: tuple[Piece, ...]
    classes: tuple[Piece, ...]
    filters: tuple[Piece, ...]
    routes: tuple[bytes, ...] = ()

    @classmethod
    def take(cls, netlink: Netlink, index: int) -> Snapshot:
        """Ask the kernel.

        Raises:
            OSError: it does not answer, or has no such interface.
        """
        links = netlink.links()
        if index not in links:
            raise OSError(f"there is no interface number {index} any more")

        def pieces(kind: int, parent: int = 0) -> Iterator[Piece]:
            for payload in netlink.dump(kind, TCMSG.pack(0, 0, 0, index, 0, parent, 0)):
                # The kernel reports the disciplines of all interfaces.
                if len(payload) >= TCMSG.size and TCMSG.unpack_from(payload)[3] == index:
                    yield Piece(payload)

        qdiscs = [one for one in pieces(RTM_GETQDISC) if one.handle & _INGRESS != _INGRESS]
        classes = [one for one in pieces(RTM_GETTCLASS) if one.kind in _WITH_CLASSES]
        parents = [one.handle for one in qdiscs if one.handle] + [one.handle for one in classes]
        filters = [one for parent in parents for one in pieces(RTM_GETTFILTER, parent)]
        # For a parent without filters the kernel reports those of the root once more.
        unique = {one.payload: one for one in filters}
        routes = tuple(netlink.host_routes(index, PROTOCOL))
        length = unsigned(links[index][1].get(IFLA_TXQLEN)) or 0
        return cls(index, length, tuple(qdiscs), tuple(classes), tuple(unique.values()), routes)

    @property
    def root(self) -> Piece | None:
        """The discipline that all packets pass; None where the interface is down and never had one."""
        return next((one for one in self.qdiscs if one.parent == ROOT), None)

    def majors(self) -> set[int]:
        """The upper halves of the handles that are in use."""
        return {one.handle >> 16 for one in (*self.qdiscs, *self.classes)}

    def same_as(self, other: Snapshot) -> bool:
        """True if both are set up alike, whatever has passed meanwhile."""
        return self.settings() == other.settings() and self.queue_length == other.queue_length

    def settings(self) -> tuple[Any, ...]:
        """Everything but counters and the number of the interface."""
        return (
            sorted(one.settings() for one in self.qdiscs),
            sorted(one.settings() for one in self.classes),
            [one.settings(of_filter=True) for one in self.filters],
            sorted(map(route_settings, self.routes)),
        )

    def requests(self, root_parent: int | None = None) -> list[Request]:
        """The requests that make all of it again, in the kernel's order; the root beneath ``root_parent`` if given."""
        made: list[Request] = []
        known = {ROOT}
        own = {one.handle for one in self.classes}
        left = [(RTM_NEWQDISC, one) for one in self.qdiscs if one.handle]
        left += [(RTM_NEWTCLASS, one) for one in self.classes]
        while left:
            ready = [(kind, one) for kind, one in left if self._has_parent(kind, one, known, own)]
            if not ready:
                break  # (beneath a part that the kernel does not report: the rehearsal finds it missing)
            for kind, one in ready:
                at_root = kind == RTM_NEWQDISC and one.parent == ROOT
                made.append(one.recreated(kind, root_parent if at_root else None))
                known.add(one.handle)
            left = [entry for entry in left if entry not in ready]
        # The kernel also reports the list and the first hash table of a filter, which are created with it.
        rules = [one for one in self.filters if one.options and (one.kind != "u32" or one.handle & 0xFFFFF)]
        return made + [one.recreated(RTM_NEWTFILTER) for one in rules]

    @staticmethod
    def _has_parent(kind: int, one: Piece, known: set[int], classes: set[int]) -> bool:
        if kind == RTM_NEWTCLASS and one.parent == ROOT:
            return one.handle & 0xFFFF0000 in known
        # A band of prio is no class that somebody made: there its discipline is enough.
        return one.parent in known or (one.parent not in classes and one.parent & 0xFFFF0000 in known)

    def as_json(self) -> dict[str, Any]:
        """For the state file."""
        lists = {name: [one.payload.hex() for one in getattr(self, name)] for name in ("qdiscs", "classes", "filters")}
        return {
            "index": self.index,
            "queue_length": self.queue_length,
            **lists,
            "routes": [one.hex() for one in self.routes],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Snapshot:
        """From the state file."""
        queues = ("qdiscs", "classes", "filters")
        qdiscs, classes, filters = (tuple(Piece(bytes.fromhex(one)) for one in value[name]) for name in queues)
        routes = tuple(map(bytes.fromhex, value.get("routes", ())))
        return cls(int(value["index"]), int(value["queue_length"]), qdiscs, classes, filters, routes)


# --- trying a change where it disturbs no traffic: on the loopback interface of an empty network namespace ---


def rehearsed(requests: Sequence[Request]) -> Snapshot:
    """Make these changes to an empty interface, and return how it looks then.

    Raises:
        OSError: the kernel refuses one of them, or such a namespace (which takes CAP_SYS_ADMIN).
    """
    outcome: list[Snapshot | BaseException] = []

    def work() -> None:
        try:
            # Of this thread alone; the namespace goes with it.
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(_CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            with closing(Netlink()) as netlink:
                for request in requests:
                    request.of(_LOOPBACK).send(netlink)
                outcome.append(Snapshot.take(netlink, _LOOPBACK))
        except BaseException as reason:
            outcome.append(reason)

    thread = threading.Thread(target=work, name="rehearsal")
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def can_be_recreated(snapshot: Snapshot) -> bool:
    """True if the kernel makes the same queues from everything that it reports about these.

    Not so for disciplines with settings that the kernel does not report (RED's table of averages), and for filters with
    actions: their counters and times cannot be set.

    Raises:
        OSError: it cannot be tried.
    """
    if not all(one.can_be_compared for one in snapshot.filters):
        return False
    try:
        made = rehearsed(snapshot.requests())
    except PermissionError:
        raise
    except OSError:
        return False
    return made.settings() == snapshot.settings()
