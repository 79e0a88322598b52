"""Ethernet flow control (IEEE 802.3, annex 31B) of an interface: settings and pause frames, by ethtool's netlink.

See linux/ethtool_netlink.h. Drivers count pause frames since Linux 5.10.
"""

from __future__ import annotations

import contextlib
import struct

from whydrop.runtime.rtnetlink import Netlink, attribute, attributes, unsigned

RECEIVED, SENT = "pause_frames_received", "pause_frames_sent"
COUNTERS = (RECEIVED, SENT)

_GENERIC, _CONTROL, _GET_FAMILY = 16, 16, 3  # linux/genetlink.h
_FAMILY_ID, _FAMILY_NAME = 1, 2
_COMMAND = struct.Struct("=BBH")
_PAUSE_GET = 21
_HEADER, _AUTONEGOTIATE, _RECEIVE, _TRANSMIT, _STATISTICS = 1, 2, 3, 4, 5
_NAME, _FLAGS, _WITH_STATISTICS = 2, 3, 1 << 2
_SENT, _RECEIVED = 2, 3


def read(interface: str) -> dict[str, bool | int]:
    """Settings, and counters where the driver has them.

    Returns:
        ``autonegotiate``, ``receive`` (pause frames that arrive hold this host) and ``transmit`` (it sends some), and
        ``pause_frames_received`` and ``pause_frames_sent`` since the driver began to count.

    Raises:
        OSError: the driver knows no flow control, or the kernel is too old.
    """
    with contextlib.closing(Netlink(_GENERIC)) as netlink:
        name = attribute(_FAMILY_NAME, b"ethtool\0")
        family = netlink.ask(_CONTROL, _COMMAND.pack(_GET_FAMILY, 1, 0) + name)
        number = unsigned(attributes(family[0][_COMMAND.size :]).get(_FAMILY_ID)) if family else None
        if number is None:
            raise OSError("the kernel has no ethtool by netlink")
        asked = attribute(_NAME, interface.encode() + b"\0") + attribute(_FLAGS, struct.pack("=I", _WITH_STATISTICS))
        answers = netlink.ask(number, _COMMAND.pack(_PAUSE_GET, 1, 0) + attribute(_HEADER | 0x8000, asked))
    if not answers:
        raise OSError("the kernel reports no flow control")
    return parsed(answers[0][_COMMAND.size :])


def parsed(data: bytes) -> dict[str, bool | int]:
    """The attributes of the kernel's answer; see :func:`read`.

    >>> parsed(attribute(3, b"\\1") + attribute(4, b"\\0") + attribute(5, attribute(3, (7).to_bytes(8, "little"))))
    {'receive': True, 'transmit': False, 'pause_frames_received': 7}
    """
    found = attributes(data)
    names = {_AUTONEGOTIATE: "autonegotiate", _RECEIVE: "receive", _TRANSMIT: "transmit"}
    told: dict[str, bool | int] = {name: bool(unsigned(found[kind])) for kind, name in names.items() if kind in found}
    counted = attributes(found.get(_STATISTICS, b""))
    for kind, name in ((_RECEIVED, RECEIVED), (_SENT, SENT)):
        value = unsigned(counted.get(kind))
        if value is not None:
            told[name] = value
    return told
