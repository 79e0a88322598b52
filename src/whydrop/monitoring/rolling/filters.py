"""Filters of packets as text, for the kernel (classic BPF) and for connections.

``tcp and port 443 and not (host 192.0.2.1 or host 2001:db8::1)``: ``host ADDRESS``, ``port NUMBER``, ``tcp``, ``udp``,
``icmp``, ``ip``, ``ip6``, ``and``, ``or``, ``not`` and parentheses. The first header after that of IPv6 counts, and of
an IPv4 datagram in fragments only the first one has ports.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from whydrop.errors import Mistake

_IPV4, _IPV6 = 0x0800, 0x86DD
_PROTOCOLS = {"tcp": (6,), "udp": (17,), "icmp": (1, 58)}
_WITH_PORTS = (6, 17, 132)
# linux/filter.h
_LD_WORD, _LD_HALF, _LD_BYTE, _LD_HALF_INDIRECT, _LDX_HEADER = 0x20, 0x28, 0x30, 0x48, 0xB1
_JUMP_EQUAL, _JUMP_SET, _RETURN = 0x15, 0x45, 0x06
_PROTOCOL = 0xFFFFF000
# A conditional jump reaches 255 instructions: each reaches the end of a program that is no longer.
_LONGEST = 250
_EXPECTED = "expected host ADDRESS, port NUMBER, tcp, udp, icmp, ip or ip6, with and, or, not and parentheses"


class FilterError(Mistake):
    """A filter that is not valid; the message says where, and what was expected."""


@dataclass(frozen=True)
class Ends:
    """A connection as a filter sees it."""

    addresses: tuple[str, str]
    ports: tuple[int, int]


@dataclass(frozen=True)
class Host:
    """Packets from or to an address."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address

    def matches(self, ends: Ends) -> bool:
        """True if an end of a TCP connection has the address."""
        return any(_plain(one) == self.address for one in ends.addresses)


@dataclass(frozen=True)
class Port:
    """Packets of TCP, UDP or SCTP from or to a port."""

    number: int

    def matches(self, ends: Ends) -> bool:
        """True if an end of a TCP connection has the port."""
        return self.number in ends.ports


@dataclass(frozen=True)
class Protocol:
    """Packets of a protocol, or of a version of IP (``ip``, ``ip6``)."""

    name: str

    def matches(self, ends: Ends) -> bool:
        """True if a TCP connection has such packets."""
        if self.name in ("ip", "ip6"):
            return _plain(ends.addresses[1]).version == (4 if self.name == "ip" else 6)
        return self.name == "tcp"


@dataclass(frozen=True)
class Not:
    """Packets for which the other does not hold."""

    other: Term

    def matches(self, ends: Ends) -> bool:
        """True if the other does not match."""
        return not self.other.matches(ends)


@dataclass(frozen=True)
class Both:
    """Packets for which two terms hold, or (``either``) one of them."""

    first: Term
    second: Term
    either: bool

    def matches(self, ends: Ends) -> bool:
        """True if both, or either, match."""
        return (any if self.either else all)(one.matches(ends) for one in (self.first, self.second))


Term = Host | Port | Protocol | Not | Both


def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(address.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


# --- reading ---


def read(text: str) -> Term | None:
    """Read a filter; an empty one is ``None``.

    Raises:
        FilterError: it is not valid.

    >>> read("tcp and port 443")
    Both(first=Protocol(name='tcp'), second=Port(number=443), either=False)
    """
    words = re.findall(r"[()]|[^\s()]+", text)
    if not words:
        return None
    if len(words) > _LONGEST:
        raise FilterError(f"the filter has {len(words)} words; at most {_LONGEST} are possible")
    reader = _Reader(words)
    found = reader.alternatives()
    if reader.next:
        reader.fail()
    return found


class _Reader:
    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def fail(self, why: str = "") -> NoReturn:
        where = f"at {self.next!r}" if self.next else "at its end"
        raise FilterError(f"the filter {' '.join(self._words)!r}, {where}: {why or _EXPECTED}")

    def _take(self, *wanted: str) -> bool:
        taken = self.next.lower() in wanted
        self._at += taken
        return taken

    def alternatives(self) -> Term:
        found = self._all()
        while self._take("or", "||"):
            found = Both(found, self._all(), either=True)
        return found

    def _all(self) -> Term:
        found = self._one()
        while self._take("and", "&&"):
            found = Both(found, self._one(), either=False)
        return found

    def _one(self) -> Term:
        self._depth += 1
        if self._depth > 50:
            self.fail("it is nested too deeply")
        try:
            if self._take("not", "!"):
                return Not(self._one())
            if self._take("("):
                found = self.alternatives()
                if not self._take(")"):
                    self.fail("expected )")
                return found
            return self._primitive()
        finally:
            self._depth -= 1

    def _primitive(self) -> Term:
        if self._take("host"):
            try:
                address = ipaddress.ip_address(self.next)
            except ValueError:
                self.fail("expected an address, such as 192.0.2.1 or 2001:db8::1")
            self._at += 1
            return Host(address)
        if self._take("port"):
            if not re.fullmatch(r"[0-9]{1,5}", self.next) or not 0 < int(self.next) < 65_536:
                self.fail("expected a port, 1 to 65535")
            self._at += 1
            return Port(int(self._words[self._at - 1]))
        name = self.next.lower()
        if not self._take("ip", "ip6", *_PROTOCOLS):
            self.fail()
        return Protocol(name)


# --- compiling ---


@dataclass(frozen=True)
class _Step:
    """An instruction; ``then`` and ``otherwise`` are labels, of jumps only. A string in place of one is a label."""

    code: int
    value: int
    then: str = ""
    otherwise: str = ""


class _Compiler:
    """Makes a program; the IP header is ``base`` bytes behind the begin of a packet."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._labels = 0

    def label(self) -> str:
        self._labels += 1
        return f"L{self._labels}"

    def term(self, term: Term, yes: str, no: str) -> Iterator[_Step | str]:
        match term:
            case Not(other):
                yield from self.term(other, no, yes)
            case Both(first, second, either):
                between = self.label()
                yield from self.term(first, yes, between) if either else self.term(first, between, no)
                yield between
                yield from self.term(second, yes, no)
            case Protocol("ip" | "ip6" as name):
                yield from self._version(_IPV4 if name == "ip" else _IPV6, yes, no)
            case Protocol(name):
                yield from self._protocol(_PROTOCOLS[name], yes, no)
            case Host(address):
                yield from self._host(address.packed, yes, no)
            case Port(number):
                yield from self._port(number, yes, no)

    def _version(self, kind: int, yes: str, no: str) -> Iterator[_Step | str]:
        yield _Step(_LD_HALF, _PROTOCOL)
        yield _Step(_JUMP_EQUAL, kind, yes, no)

    def _any_of(self, values: tuple[int, ...], yes: str, no: str) -> Iterator[_Step | str]:
        for value in values[:-1]:
            further = self.label()
            yield _Step(_JUMP_EQUAL, value, yes, further)
            yield further
        yield _Step(_JUMP_EQUAL, values[-1], yes, no)

    def _protocol(self, numbers: tuple[int, ...], yes: str, no: str) -> Iterator[_Step | str]:
        four, other, six = self.label(), self.label(), self.label()
        yield from self._version(_IPV4, four, other)
        yield four
        yield _Step(_LD_BYTE, self._base + 9)
        yield from self._any_of(numbers, yes, no)
        yield other
        yield from self._version(_IPV6, six, no)
        yield six
        yield _Step(_LD_BYTE, self._base + 6)
        yield from self._any_of(numbers, yes, no)

    def _host(self, packed: bytes, yes: str, no: str) -> Iterator[_Step | str]:
        inside, second = self.label(), self.label()
        yield from self._version(_IPV4 if len(packed) == 4 else _IPV6, inside, no)
        yield inside
        first_at = self._base + (12 if len(packed) == 4 else 8)
        yield from self._address(first_at, packed, yes, second)
        yield second
        yield from self._address(first_at + len(packed), packed, yes, no)

    def _address(self, at: int, packed: bytes, yes: str, no: str) -> Iterator[_Step | str]:
        for place in range(0, len(packed), 4):
            further = yes if place + 4 == len(packed) else self.label()
            yield _Step(_LD_WORD, at + place)
            yield _Step(_JUMP_EQUAL, int.from_bytes(packed[place : place + 4], "big"), further, no)
            if further != yes:
                yield further

    def _port(self, number: int, yes: str, no: str) -> Iterator[_Step | str]:
        four, ports, whole, other, six, of_six, second, second_of_six = (self.label() for _ in range(8))
        yield from self._version(_IPV4, four, other)
        yield four
        yield _Step(_LD_BYTE, self._base + 9)
        yield from self._any_of(_WITH_PORTS, ports, no)
        yield ports
        yield _Step(_LD_HALF, self._base + 6)
        # Later fragments have no ports.
        yield _Step(_JUMP_SET, 0x1FFF, no, whole)
        yield whole
        yield _Step(_LDX_HEADER, self._base)
        yield _Step(_LD_HALF_INDIRECT, self._base)
        yield _Step(_JUMP_EQUAL, number, yes, second)
        yield second
        yield _Step(_LD_HALF_INDIRECT, self._base + 2)
        yield _Step(_JUMP_EQUAL, number, yes, no)
        yield other
        yield from self._version(_IPV6, six, no)
        yield six
        yield _Step(_LD_BYTE, self._base + 6)
        yield from self._any_of(_WITH_PORTS, of_six, no)
        yield of_six
        yield _Step(_LD_HALF, self._base + 40)
        yield _Step(_JUMP_EQUAL, number, yes, second_of_six)
        yield second_of_six
        yield _Step(_LD_HALF, self._base + 42)
        yield _Step(_JUMP_EQUAL, number, yes, no)


def program(term: Term | None, *, base: int, snap_bytes: int) -> tuple[int, bytes]:
    """Compile a filter: the number of instructions, and these as an array of ``struct sock_filter``.

    Args:
        term: the filter; ``None`` takes all packets.
        base: bytes before the IP header.
        snap_bytes: of each packet that are kept, from its begin.

    Raises:
        FilterError: it is too long for the kernel.
    """
    listed = [] if term is None else list(_Compiler(base).term(term, "yes", "no"))
    listed += ["yes", _Step(_RETURN, snap_bytes), "no", _Step(_RETURN, 0)]
    places: dict[str, int] = {}
    steps: list[_Step] = []
    for one in listed:
        if isinstance(one, str):
            places[one] = len(steps)
        else:
            steps.append(one)
    if len(steps) > _LONGEST:
        raise FilterError("the filter is too long for the kernel: name fewer hosts and ports")
    packed = b"".join(
        struct.pack(
            "=HBBI", one.code, *(places[to] - at - 1 if to else 0 for to in (one.then, one.otherwise)), one.value
        )
        for at, one in enumerate(steps)
    )
    return len(steps), packed
