"""The far ends of a test: as people write them, and how they are reached."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from whydrop.errors import Mistake


class PlaceError(Mistake):
    """The text is not the name of a host; the message says what was expected."""


@dataclass(frozen=True)
class FarHost:
    """How to reach a responder.

    Attributes:
        name: what the plan and the recording call it: the host, with its port where two hosts differ only in that.
        address: where that is another; a name or an address.
        port: of TCP and of UDP; ``None``: the default.
        secret: ``None`` for a responder that is open.
    """

    name: str
    address: str | None = None
    port: int | None = None
    secret: str | None = field(default=None, repr=False)


def far_hosts(written: Sequence[str], port: int | None = None, secret: str | None = None) -> list[FarHost]:
    """The far ends of a test; ``port`` is of those without one of their own.

    Raises:
        PlaceError: one of them is no place.

    >>> [host.name for host in far_hosts(["near:4000", "far:4001", "far:4002"])]
    ['near', 'far:4001', 'far:4002']
    """
    found = [host_and_port(one) for one in written]
    ports: dict[str, set[int | None]] = {}
    for host, own in found:
        ports.setdefault(host, set()).add(own)
    return [
        FarHost(text if len(ports[host]) > 1 else host, host, own or port, secret)
        for text, (host, own) in zip(written, found, strict=True)
    ]


def host_and_port(written: str) -> tuple[str, int | None]:
    """``name``, ``name:port``, ``2001:db8::7`` or ``[2001:db8::7]:port``.

    Raises:
        PlaceError: it is none of these.

    >>> host_and_port("[2001:db8::7]:4000"), host_and_port("server")
    (('2001:db8::7', 4000), ('server', None))
    """
    port: str | None
    if written.startswith("["):
        host, _, rest = written[1:].partition("]")
        if rest and not rest.startswith(":"):
            host = ""  # what stands behind the bracket is no port
        port = rest[1:] if rest else None
    elif written.count(":") == 1:
        host, _, port = written.partition(":")
    else:
        host, port = written, None
    if not host or (port is not None and not _is_port(port)):
        raise PlaceError(f"{written!r}: expected a host, or HOST:PORT or [ADDRESS]:PORT")
    return host, int(port) if port else None


def _is_port(text: str) -> bool:
    # Long numbers are refused by their length: Python refuses to convert the longest at all.
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def cannot_leave(local: str, hosts: Iterable[str], ip_version: int | None) -> str | None:
    """Say why a local address, far ends and a version of IP do not fit together; ``None``: they do.

    >>> cannot_leave("192.0.2.1", ["a.example", "2001:db8::7"], None)
    '192.0.2.1 is of IPv4, and 2001:db8::7 is of IPv6'
    >>> cannot_leave("eth0", [], None)
    "'eth0': expected an address of this host, such as 192.0.2.7 or 2001:db8::7"
    """
    version = version_of(local)
    if version is None:
        return f"{local!r}: expected an address of this host, such as 192.0.2.7 or 2001:db8::7"
    if ip_version not in (None, version):
        return f"{local} is of IPv{version}, and IPv{ip_version} was asked for"
    for host in hosts:
        if version_of(host) not in (None, version):
            return f"{local} is of IPv{version}, and {host} is of IPv{version_of(host)}"
    return None


def version_of(host: str) -> int | None:
    """The version of IP of an address; of a name ``None``."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0]).version
    except ValueError:
        return None
