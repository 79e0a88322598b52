"""Changes of queueing disciplines, classes, filters, links and routes by rtnetlink(7), and the reading for them.

What a change restores must be the state before it, to the byte, so messages can be had as they came. A general library
takes a third of a second to be imported. Attributes of unknown types are passed over. Metadata and counters of this
host are read by `crates/host`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# linux/netlink.h, linux/rtnetlink.h
_NETLINK_ROUTE = 0
RTM_NEWLINK, RTM_GETLINK = 16, 18
RTM_GETADDR = 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS, RTM_DELTCLASS, RTM_GETTCLASS = 40, 41, 42
RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER = 44, 45, 46
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
_REQUEST_DUMP, _REQUEST_ACK = 0x301, 0x5
_DONE, _ERROR = 3, 2
_NESTED_OR_ORDER = 0xC000  # flag bits in an attribute's type

_HEADER = struct.Struct("=IHHII")
TCMSG = struct.Struct("=BBHiIII")  # family, two of padding, interface, handle, parent, info
_IFINFO = struct.Struct("=BBHiII")
_IFADDRMSG = struct.Struct("=BBBBI")  # family, length of the prefix, flags, scope, interface
_RTMSG = struct.Struct("=BBBBBBBBI")  # family, lengths of both prefixes, TOS, table, protocol, scope, type, flags
_ATTRIBUTE = struct.Struct("=HH")

_TIMEOUT_S = 2.0
_RECEIVE_BYTES = 1 << 18

TCA_KIND, TCA_OPTIONS = 1, 2
IFLA_IFNAME, IFLA_TXQLEN = 3, 13
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PREFSRC, _RTA_METRICS = 1, 4, 5, 7, 8
_RTAX_LOCK, _RTAX_MTU = 1, 2
_MAIN_TABLE, _UNICAST = 254, 1
_SCOPE_LINK = 253
# Questions about routes are answered by what matches only, not by a whole table (linux/netlink.h).
_SOL_NETLINK, _STRICT = 270, 12
# Extended acknowledgments: an error without the request, but with words.
_CAP_ACK, _EXT_ACK, _ACK_TLVS, _ERROR_WORDS = 10, 11, 0x200, 1
ROOT = 0xFFFFFFFF

Attributes = dict[int, bytes]


@dataclass(frozen=True)
class Route:
    """A route as far as it is read; addresses as text."""

    interface: int | None
    gateway: str | None
    source: str | None
    path_mtu_bytes: int | None


class Netlink:
    """A socket to ask the kernel; of the network namespace of the thread that makes it.

    A question raises OSError where the kernel does not answer, and a change where the kernel refuses it. With
    ``explains`` the error has the words of the kernel or the driver, where they give some.
    """

    def __init__(self, protocol: int = _NETLINK_ROUTE, *, explains: bool = False) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.bind((0, 0))
        self._sequence = 0
        if explains:
            # Linux before 4.12 has none; then errors have no words.
            with contextlib.suppress(OSError):
                for option in (_CAP_ACK, _EXT_ACK):
                    self._socket.setsockopt(_SOL_NETLINK, option, 1)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def links(self) -> dict[int, tuple[str, Attributes]]:
        """Names and attributes of all interfaces, by index."""
        found = {}
        for payload in self.dump(RTM_GETLINK, _IFINFO.pack(0, 0, 0, 0, 0, 0)):
            if len(payload) >= _IFINFO.size:
                own = attributes(payload[_IFINFO.size :])
                found[_IFINFO.unpack_from(payload)[3]] = (text(own.get(IFLA_IFNAME, b"")), own)
        return found

    def addresses(self) -> list[tuple[int, str]]:
        """Index of the interface and address with the length of its prefix, of all addresses."""
        found = []
        for payload in self.dump(RTM_GETADDR, _IFADDRMSG.pack(0, 0, 0, 0, 0)):
            _, prefix_bits, _, _, interface = _IFADDRMSG.unpack_from(payload)
            own = attributes(payload[_IFADDRMSG.size :])
            # Of a link between two the other's address is the first of them.
            address = _address(own.get(_IFA_LOCAL) or own.get(_IFA_ADDRESS))
            found.append((interface, f"{address}/{prefix_bits}"))
        return found

    def route_to(self, address: str) -> Route:
        """The route that packets to an address take.

        Raises:
            OSError: there is none, or the kernel does not answer.
        """
        destination = ipaddress.ip_address(address)
        family = socket.AF_INET if destination.version == 4 else socket.AF_INET6
        body = _RTMSG.pack(family, destination.max_prefixlen, 0, 0, 0, 0, 0, 0, 0)
        return _route(self.ask(RTM_GETROUTE, body + attribute(_RTA_DST, destination.packed))[0])

    def host_routes(self, interface: int, protocol: int) -> list[bytes]:
        """Messages on the routes of the main table to one address each, by an interface and a protocol's number."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(_SOL_NETLINK, _STRICT, 1)
        found = []
        try:
            for family, bits in ((socket.AF_INET, 32), (socket.AF_INET6, 128)):
                body = _RTMSG.pack(family, 0, 0, 0, _MAIN_TABLE, protocol, 0, 0, 0)
                for payload in self.dump(RTM_GETROUTE, body):
                    _, prefix_bits, _, _, table, made_by, _, _, _ = _RTMSG.unpack_from(payload)
                    by = unsigned(attributes(payload[_RTMSG.size :]).get(_RTA_OIF))
                    if (prefix_bits, table, made_by, by) == (bits, _MAIN_TABLE, protocol, interface):
                        found.append(payload)
        finally:
            with contextlib.suppress(OSError):
                self._socket.setsockopt(_SOL_NETLINK, _STRICT, 0)
        return found

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        """The payloads of the messages that answer a question, as they came."""
        for message, payload in self._answers(kind, _REQUEST_DUMP, body):
            if message == _DONE:
                return
            yield payload

    def change(self, kind: int, flags: int, body: bytes) -> None:
        """Have something made, changed or removed, and wait for the kernel's word."""
        self.ask(kind, body, flags)

    def ask(self, kind: int, body: bytes, flags: int = 0) -> list[bytes]:
        """The payloads of the messages that answer a question about one thing."""
        answers = itertools.takewhile(
            lambda answer: answer[0] != _ERROR, self._answers(kind, _REQUEST_ACK | flags, body)
        )
        return [payload for _, payload in answers]

    def _answers(self, kind: int, flags: int, body: bytes) -> Iterator[tuple[int, bytes]]:
        self._sequence += 1
        header = _HEADER.pack(_HEADER.size + len(body), kind, flags, self._sequence, 0)
        self._socket.send(header + body)
        while True:
            data = self._socket.recv(_RECEIVE_BYTES)
            offset = 0
            while offset + _HEADER.size <= len(data):
                length, message, marks, sequence, _ = _HEADER.unpack_from(data, offset)
                if length < _HEADER.size or offset + length > len(data):
                    raise OSError("the kernel's answer is cut short")
                payload = data[offset + _HEADER.size : offset + length]
                offset += (length + 3) & ~3
                if sequence != self._sequence:
                    continue  # the rest of an answer that came too late
                if message == _ERROR and (code := -struct.unpack_from("=i", payload)[0]):
                    raise OSError(code, _explained(code, payload if marks & _ACK_TLVS else b""))
                yield message, payload


def _explained(code: int, payload: bytes) -> str:
    """The error's words, with those of an extended acknowledgment: after the error and the request's header."""
    words = text(attributes(payload[4 + _HEADER.size :]).get(_ERROR_WORDS, b""))
    return f"{os.strerror(code)} ({words})" if words else os.strerror(code)


def host_route(address: str, route: Route, protocol: int, mtu_bytes: int | None = None) -> bytes:
    """The message on a route to one address, otherwise like another route; discovery does not change its MTU."""
    to = ipaddress.ip_address(address)
    family = socket.AF_INET if to.version == 4 else socket.AF_INET6
    scope = _SCOPE_LINK if route.gateway is None and to.version == 4 else 0
    body = _RTMSG.pack(family, to.max_prefixlen, 0, 0, _MAIN_TABLE, protocol, scope, _UNICAST, 0)
    body += attribute(_RTA_DST, to.packed) + attribute(_RTA_OIF, struct.pack("=I", route.interface or 0))
    for kind, given in ((_RTA_GATEWAY, route.gateway), (_RTA_PREFSRC, route.source)):
        if given is not None:
            body += attribute(kind, ipaddress.ip_address(given).packed)
    if mtu_bytes is not None:
        metrics = attribute(_RTAX_LOCK, struct.pack("=I", 1 << _RTAX_MTU))
        body += attribute(_RTA_METRICS, metrics + attribute(_RTAX_MTU, struct.pack("=I", mtu_bytes)))
    return body


def route_settings(payload: bytes) -> tuple[Any, ...]:
    """The destination, the interface, the gateway and the MTU of a message on a route."""
    own = attributes(payload[_RTMSG.size :])
    kinds = (_RTA_DST, _RTA_OIF, _RTA_GATEWAY)
    return (*(own.get(kind, b"") for kind in kinds), _route(payload).path_mtu_bytes or 0)


def _route(payload: bytes) -> Route:
    own = attributes(payload[_RTMSG.size :])
    metrics = attributes(own.get(_RTA_METRICS, b""))
    return Route(
        interface=unsigned(own.get(_RTA_OIF)),
        gateway=_address(own.get(_RTA_GATEWAY)),
        source=_address(own.get(_RTA_PREFSRC)),
        path_mtu_bytes=unsigned(metrics.get(_RTAX_MTU)),
    )


def _address(data: bytes | None) -> str | None:
    return str(ipaddress.ip_address(data)) if data and len(data) in (4, 16) else None


def attributes(data: bytes) -> Attributes:
    """A run of attributes by their types; of several of one type the last."""
    found: Attributes = {}
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size or offset + length > len(data):
            break
        found[kind & ~_NESTED_OR_ORDER] = data[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3
    return found


def attribute(kind: int, data: bytes) -> bytes:
    """One attribute, padded to four bytes.

    >>> attribute(1, b"fq\\0").hex()
    '0700010066710000'
    """
    return (_ATTRIBUTE.pack(_ATTRIBUTE.size + len(data), kind) + data).ljust((len(data) + 7) & ~3, b"\0")


def unsigned(data: bytes | None) -> int | None:
    """A whole number of 1, 2, 4 or 8 bytes in the order of this machine."""
    return int.from_bytes(data, sys.byteorder) if data and len(data) in (1, 2, 4, 8) else None


def text(data: bytes) -> str:
    """A string that ends with a zero byte."""
    return data.split(b"\0", 1)[0].decode(errors="replace")


def handle(number: int) -> str:
    """A handle as ``tc`` writes it.

    >>> handle(0x80010000), handle(0x00010010), handle(0xFFFFFFFF), handle(0)
    ('8001:', '1:10', 'root', '0:')
    """
    if number == ROOT:
        return "root"
    if number == 0xFFFFFFF1:
        return "ingress"
    return f"{number >> 16:x}:{number & 0xFFFF:x}" if number & 0xFFFF else f"{number >> 16:x}:"
