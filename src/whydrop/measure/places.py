"""Where far ends are, as people write it: a host and perhaps a port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whydrop.errors import Mistake


class PlaceError(Mistake):
    """The text is not the name of a host; the message says what was expected."""


@dataclass(frozen=True)
class FarEnd:
    """A far end of a test.

    Attributes:
        name: what the plan and the recording call it: the host, with its port where two hosts differ only in that.
        host: its name or address.
        port: ``None`` for the default.
    """

    name: str
    host: str
    port: int | None


def places(written: Sequence[str]) -> list[FarEnd]:
    """The places of a test's far ends.

    Raises:
        PlaceError: one of them is no place.

    >>> [place.name for place in places(["near:4000", "far:4001", "far:4002"])]
    ['near', 'far:4001', 'far:4002']
    """
    found = [host_and_port(one) for one in written]
    ports: dict[str, set[int | None]] = {}
    for host, port in found:
        ports.setdefault(host, set()).add(port)
    return [
        FarEnd(text if len(ports[host]) > 1 else host, host, port)
        for text, (host, port) in zip(written, found, strict=True)
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
