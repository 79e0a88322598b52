"""Counters of switches: names, object identifiers and widths in bits.

Sources: IF-MIB (RFC 2863), EtherLike-MIB's dot3PauseTable (RFC 3635), JUNIPER-COS-MIB. The names and the default set
are those of M-Lab's DISCO and of its predecessor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from whydrop.monitoring.switches.readings import Counter

SYS_UP_TIME = "1.3.6.1.2.1.1.3.0"  # hundredths of a second, 32 bits: it wraps after 497 days

# Changes when a row of ifTable is added or removed (RFC 2863, ifTableLastChange): indexes may mean other ports then.
IF_TABLE_LAST_CHANGE = "1.3.6.1.2.1.31.1.5.0"

_IF = "1.3.6.1.2.1.2.2.1"
_IFX = "1.3.6.1.2.1.31.1.1.1"
_PAUSE = "1.3.6.1.2.1.10.7.10.1"

IF_DESCR = f"{_IF}.2"
IF_SPEED = f"{_IF}.5"  # bit/s
IF_NAME = f"{_IFX}.1"
IF_HIGH_SPEED = f"{_IFX}.15"  # Mbit/s
IF_ALIAS = f"{_IFX}.18"

# Q-BRIDGE-MIB and BRIDGE-MIB (RFC 4363, RFC 4188): the bridge port of a MAC address.
FDB_COUNT = "1.3.6.1.2.1.17.7.1.2.1.1.2"  # dot1qFdbDynamicCount.<fdb id>
Q_FDB_PORT = "1.3.6.1.2.1.17.7.1.2.2.1.2"  # dot1qTpFdbPort.<fdb id>.<six octets>
D_FDB_PORT = "1.3.6.1.2.1.17.4.3.1.2"  # dot1dTpFdbPort.<six octets>
BASE_PORT_IF_INDEX = "1.3.6.1.2.1.17.1.4.1.2"  # dot1dBasePortIfIndex.<bridge port>
CISCO_VLANS = "1.3.6.1.4.1.9.9.46.1.3.1.1.18"  # vtpVlanIfIndex.<domain>.<VLAN>

# A name in `counters` that stands for several.
ALL_TYPES = ("octets", "unicast", "multicast", "broadcast", "discards", "errors", "pause")


def _both(kind: str, rx: str, tx: str, bits: int) -> tuple[Counter, Counter]:
    return Counter(f"{kind}.rx", rx, bits), Counter(f"{kind}.tx", tx, bits)


DEFAULT: tuple[Counter, ...] = (
    *_both("octets", f"{_IFX}.6", f"{_IFX}.10", 64),
    *_both("unicast", f"{_IFX}.7", f"{_IFX}.11", 64),
    *_both("multicast", f"{_IFX}.8", f"{_IFX}.12", 64),
    *_both("broadcast", f"{_IFX}.9", f"{_IFX}.13", 64),
    *_both("discards", f"{_IF}.13", f"{_IF}.19", 32),
    *_both("errors", f"{_IF}.14", f"{_IF}.20", 32),
    *_both("pause", f"{_PAUSE}.3", f"{_PAUSE}.4", 32),
)

# The same counts in 32 bits, for ports that lack the wide ones (RFC 2863, 3.1.6: up to 20 Mbit/s they may).
NARROW: dict[str, Counter] = {
    counter.name: counter
    for counter in (
        *_both("octets", f"{_IF}.10", f"{_IF}.16", 32),
        *_both("unicast", f"{_IF}.11", f"{_IF}.17", 32),
        *_both("multicast", f"{_IFX}.2", f"{_IFX}.4", 32),
        *_both("broadcast", f"{_IFX}.3", f"{_IFX}.5", 32),
    )
}

# jnxCosQstatTotalDropPkts.<ifIndex>.<queue>: packets that a queue dropped, for any reason. Juniper only.
JUNIPER_QUEUE_DROPS = "1.3.6.1.4.1.2636.3.15.4.1.53"
JUNIPER_QUEUES = 8
_QUEUE = re.compile(r"queue\.([0-9]|[1-9][0-9])\.discards\.tx")

_OID = re.compile(r"\.?(0|1|2)(\.(0|[1-9][0-9]*))+")
LARGEST_ARC = 2**32 - 1  # RFC 2578, 3.5: a sub-identifier
MOST_ARCS = 128


def juniper_queue(number: int) -> Counter:
    """The drops of one queue of a Juniper switch's port."""
    return Counter(f"queue.{number}.discards.tx", JUNIPER_QUEUE_DROPS, 64, f".{number}")


def named(name: str, custom: Iterable[Counter] = ()) -> tuple[Counter, ...]:
    """The counters for a name in a configuration; none where the name is unknown.

    >>> [counter.name for counter in named("pause")]
    ['pause.rx', 'pause.tx']
    >>> named("queue.3.discards.tx")[0].suffix
    '.3'
    """
    own = tuple(counter for counter in custom if counter.name == name)
    if own:
        return own
    if name == "default":
        return DEFAULT
    if name == "juniper-queues":
        return tuple(juniper_queue(number) for number in range(JUNIPER_QUEUES))
    if queue := _QUEUE.fullmatch(name):
        return (juniper_queue(int(queue[1])),)
    return tuple(counter for counter in DEFAULT if name in (counter.name, counter.name.partition(".")[0]))


def known_names(custom: Iterable[Counter] = ()) -> list[str]:
    """Every name that `named` accepts, except those of single queues."""
    return [
        "default", "juniper-queues", *ALL_TYPES, *(counter.name for counter in DEFAULT),
        *(counter.name for counter in custom),
    ]  # fmt: skip


def dotted(text: str) -> str:
    """An object identifier without a leading dot.

    Raises:
        ValueError: the text is no object identifier.
    """
    arcs = text.removeprefix(".").split(".")
    fits = _OID.fullmatch(text) and len(arcs) <= MOST_ARCS and all(int(arc) <= LARGEST_ARC for arc in arcs)
    if not fits or (arcs[0] != "2" and int(arcs[1]) > 39):
        raise ValueError(f"{text!r}: expected an object identifier in numbers, such as 1.3.6.1.2.1.2.2.1.13")
    return ".".join(arcs)


def of_port(counter: Counter, index: int) -> str:
    """The object identifier of a counter at a port."""
    return f"{counter.oid}.{index}{counter.suffix}"
