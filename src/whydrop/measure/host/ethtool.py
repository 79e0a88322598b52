"""A driver's account of its interface, by the ioctls and the netlink of ethtool(8), without that program."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from whydrop.runtime.rtnetlink import Netlink, attribute, attributes, unsigned

# linux/sockios.h, linux/ethtool.h
_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO = 0x1B, 0x1D, 0x37
_GFLAGS, _FLAG_LRO = 0x25, 1 << 15
_STATISTICS_SET = 1
_NAME_BYTES = 32

# Offloads that can be asked for one by one; the names are those of `ethtool --show-offload`.
_OFFLOADS = {
    "rx-checksumming": 0x14,
    "tx-checksumming": 0x16,
    "scatter-gather": 0x18,
    "tcp-segmentation-offload": 0x1E,
    "generic-segmentation-offload": 0x23,
    "generic-receive-offload": 0x2B,
}

# A driver that claims more statistics than this lies.
_MOST_STATISTICS = 10_000


class Ethtool:
    """Asks about one interface."""

    def __init__(self, interface: str) -> None:
        self._name = interface.encode()[:15]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def offloads(self) -> dict[str, bool]:
        """Which offloads are on; those that the driver does not report are left out."""
        asked = {name: _or_none(partial(self._value, command)) for name, command in _OFFLOADS.items()}
        found = {name: bool(value) for name, value in asked.items() if value is not None}
        flags = _or_none(partial(self._value, _GFLAGS))
        if flags is not None:
            found["large-receive-offload"] = bool(flags & _FLAG_LRO)
        return found

    def statistics(self) -> dict[str, int]:
        """The driver's own counters, as `ethtool --statistics` shows them.

        Raises:
            OSError: the driver has none.
        """
        names = self._statistic_names()
        data = self._ask(struct.pack("=II", _GSTATS, len(names)) + bytes(8 * len(names)))
        return dict(zip(names, struct.unpack_from(f"={len(names)}Q", data, 8), strict=True))

    def _statistic_names(self) -> list[str]:
        data = self._ask(struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _STATISTICS_SET, 0))
        count = struct.unpack_from("=I", data, 16)[0]
        if not 0 < count <= _MOST_STATISTICS:
            raise OSError(errno.EOPNOTSUPP, "the driver has no statistics")
        data = self._ask(struct.pack("=III", _GSTRINGS, _STATISTICS_SET, count) + bytes(_NAME_BYTES * count))
        return [_text(data[12 + _NAME_BYTES * place : 12 + _NAME_BYTES * (place + 1)]) for place in range(count)]

    def _value(self, command: int) -> int:
        return int(struct.unpack("=II", self._ask(struct.pack("=II", command, 0)))[1])

    def _ask(self, question: bytes) -> bytes:
        buffer = array.array("B", question)
        request = struct.pack("16sP", self._name, buffer.buffer_info()[0])
        fcntl.ioctl(self._socket, _SIOCETHTOOL, request.ljust(40, b"\0"))
        return buffer.tobytes()


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except OSError:
        return None


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode(errors="replace").strip()


# Ethernet flow control (IEEE 802.3, annex 31B), which ethtool asks for by netlink (linux/ethtool_netlink.h). Drivers
# count pause frames since Linux 5.10.
RECEIVED, SENT = "pause_frames_received", "pause_frames_sent"
PAUSES = (RECEIVED, SENT)

_GENERIC, _CONTROL, _GET_FAMILY = 16, 16, 3  # linux/genetlink.h
_FAMILY_ID, _FAMILY_NAME = 1, 2
_COMMAND = struct.Struct("=BBH")
_LINK_MODES_GET, _PAUSE_GET, PAUSE_SET = 4, 21, 22
_HEADER, _STATISTICS = 1, 5
_SETTINGS = {2: "autonegotiate", 3: "receive", 4: "transmit"}
_INDEX, _INTERFACE, _FLAGS, _COMPACT, _WITH_STATISTICS = 1, 2, 3, 1 << 0, 1 << 2
_SENT, _RECEIVED = 2, 3
# Of link modes: what this end advertises and the other; of a set of bits, its value; the bits (linux/ethtool.h).
_LINK_AUTONEGOTIATES, _OURS, _PEERS, _BITSET_VALUE = 2, 3, 4, 4
_PAUSE, _ASYMMETRIC = 1 << 13, 1 << 14


def flow_control(interface: str | int) -> dict[str, bool | int]:
    """Settings, and counters where the driver has them, of an interface by its name or its index.

    Returns:
        ``autonegotiate``, ``receive`` (pause frames that arrive hold this host) and ``transmit`` (it sends some), and
        ``pause_frames_received`` and ``pause_frames_sent`` since the driver began to count.

    Raises:
        OSError: the driver knows no flow control, or the kernel is too old.
    """
    answer = _answer(_PAUSE_GET, _header(interface, _WITH_STATISTICS))
    if answer is None:
        raise OSError("the kernel reports no flow control")
    return parsed(answer)


def pause_message(index: int, **settings: bool | None) -> bytes:
    """The body of the message that changes flow control; what is not given, or ``None``, stays as it is.

    Args:
        index: of the interface.
        settings: ``autonegotiate``, ``receive`` and ``transmit``.

    >>> pause_message(2, receive=True).hex()
    '0c00018008000100020000000500030001000000'
    """
    kinds = {name: kind for kind, name in _SETTINGS.items()}
    given = {name: value for name, value in settings.items() if value is not None}
    return _header(index) + b"".join(attribute(kinds[name], bytes([value])) for name, value in given.items())


def send(command: int, body: bytes) -> None:
    """Send a message of ethtool that changes something (``CAP_NET_ADMIN``).

    Raises:
        OSError: the kernel or the driver refuses, with its own explanation where it gives one.
    """
    _answer(command, body)


@dataclass(frozen=True)
class Negotiated:
    """The flow control that follows from what both ends of a link advertise (IEEE 802.3, table 28B-3)."""

    receive: bool
    transmit: bool


def negotiated(index: int) -> Negotiated | None:
    """The outcome of autonegotiation; ``None`` where the driver does not know what the other end advertises."""
    try:
        answer = _answer(_LINK_MODES_GET, _header(index, _COMPACT))
    except OSError:
        return None
    return None if answer is None else resolved(answer)


def resolved(data: bytes) -> Negotiated | None:
    """The outcome from the attributes of the kernel's answer; see :func:`negotiated`."""
    found = attributes(data)
    ours, peers = (_bits(found.get(kind)) for kind in (_OURS, _PEERS))
    if ours is None or not peers or not unsigned(found.get(_LINK_AUTONEGOTIATES)):
        return None
    if ours & peers & _PAUSE:
        return Negotiated(receive=True, transmit=True)
    if ours & peers & _ASYMMETRIC:
        return Negotiated(receive=bool(ours & _PAUSE), transmit=bool(peers & _PAUSE))
    return Negotiated(receive=False, transmit=False)


def _bits(data: bytes | None) -> int | None:
    value = attributes(data or b"").get(_BITSET_VALUE)
    # Words of 32 bits, the lowest first, each in the order of this machine.
    return unsigned(value[:4]) if value else None


def _header(interface: str | int, flags: int = 0) -> bytes:
    if isinstance(interface, int):
        asked = attribute(_INDEX, struct.pack("=I", interface))
    else:
        asked = attribute(_INTERFACE, interface.encode() + b"\0")
    if flags:
        asked += attribute(_FLAGS, struct.pack("=I", flags))
    return attribute(_HEADER | 0x8000, asked)


def _answer(command: int, body: bytes) -> bytes | None:
    """The attributes of the answer to a message of ethtool; ``None`` where there is none."""
    with contextlib.closing(Netlink(_GENERIC, explains=True)) as netlink:
        name = attribute(_FAMILY_NAME, b"ethtool\0")
        family = netlink.ask(_CONTROL, _COMMAND.pack(_GET_FAMILY, 1, 0) + name)
        number = unsigned(attributes(family[0][_COMMAND.size :]).get(_FAMILY_ID)) if family else None
        if number is None:
            raise OSError("the kernel has no ethtool by netlink")
        answers = netlink.ask(number, _COMMAND.pack(command, 1, 0) + body)
    return answers[0][_COMMAND.size :] if answers else None


def parsed(data: bytes) -> dict[str, bool | int]:
    """The attributes of the kernel's answer; see :func:`flow_control`.

    >>> parsed(attribute(3, b"\\1") + attribute(4, b"\\0") + attribute(5, attribute(3, (7).to_bytes(8, "little"))))
    {'receive': True, 'transmit': False, 'pause_frames_received': 7}
    """
    found = attributes(data)
    told: dict[str, bool | int] = {
        name: bool(unsigned(found[kind])) for kind, name in _SETTINGS.items() if kind in found
    }
    counted = attributes(found.get(_STATISTICS, b""))
    for kind, name in ((_RECEIVED, RECEIVED), (_SENT, SENT)):
        value = unsigned(counted.get(kind))
        if value is not None:
            told[name] = value
    return told
