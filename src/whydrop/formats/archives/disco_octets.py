"""The fault of DISCO's version 2 until 2022-01-11: two metrics ``switch.octets.local.tx``, and none ``.rx``.

The poller's configuration named ifHCInOctets so too, and wrote the two in random order. (M-Lab's own tables have
zeroes for these days.) The size of frames shows which is which: the octets of a direction, divided by its
packets, must be a size that Ethernet has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import TYPE_CHECKING

from whydrop.formats.archives.disco_rows import Warnings

if TYPE_CHECKING:
    from whydrop.formats.archives.disco_samples import Grown

# Interfaces count frames with their checksum: 64 B to 1518 B, and 8 B more with two VLAN tags (IEEE 802.3, 802.1Q).
LEAST_FRAME_BYTES = 64
MOST_FRAME_BYTES = 1526
# As switches are configured that pass jumbo frames; no standard says how large these are.
MOST_JUMBO_BYTES = 9216

# Multicast frames are not counted in these files, but their octets are: so many of the packets are forgiven.
_UNCOUNTED = 0.02
# In single samples, counters of octets and packets are read at slightly different times. Beyond this factor, and with
# so many packets, that is no explanation.
_SKEW_FACTOR = 2.0
_LEAST_PACKETS_OF_A_SAMPLE = 1000
_PORT = "local"
# The days for which M-Lab's own tables have zeroes, and some before, from the first of version 2 on.
_BEGAN_S = 1_598_918_400  # 2020-09-01T00:00Z
_MENDED_S = 1_642_550_400  # 2022-01-19T00:00Z

DIRECTIONS = ("rx", "tx")

_Values = Mapping[int, int]  # by second


def named(grown: Sequence[Grown], warnings: Warnings) -> Iterator[tuple[Grown, str]]:
    """All metrics with the names of their counters: confused ones by their right name, or left out.

    Repaired samples have the flag ``repaired``.
    """
    by_port: dict[tuple[str, str, str], list[Grown]] = {}
    for metric in grown:
        by_port.setdefault((metric.of.switch, metric.of.machine, metric.of.port), []).append(metric)
    for metrics in by_port.values():
        sent = _confused(metrics)
        for metric in metrics:
            if metric not in sent:
                yield metric, metric.of.counter
        if sent:
            yield from _repaired(sent, metrics, warnings)


def _confused(metrics: Sequence[Grown]) -> list[Grown]:
    """Metrics of a port that are called ``octets.tx`` and may be ``octets.rx``."""
    sent = [metric for metric in metrics if metric.of.counter == "octets.tx" and metric.samples]
    if metrics[0].of.port != _PORT or not sent or any(metric.of.counter == "octets.rx" for metric in metrics):
        return []
    # One alone has lost its fellow, perhaps: a file may be damaged.
    of_the_faults_time = _BEGAN_S <= sent[0].samples[0].second < _MENDED_S
    return sent if of_the_faults_time or any(len(group) == 2 for group in _groups(sent)) else []


def _groups(sent: Sequence[Grown]) -> list[list[Grown]]:
    """Two of one name that cover the same time, or one alone; several files, one behind the other, have several."""
    left, found = list(sent), []
    while left:
        group = [left.pop(0)]
        seconds = {sample.second for sample in group[0].samples}
        other = next((of for of in left if not seconds.isdisjoint(sample.second for sample in of.samples)), None)
        if other is not None:
            left.remove(other)
            group.append(other)
        found.append(group)
    return found


def _repaired(sent: Sequence[Grown], metrics: Sequence[Grown], warnings: Warnings) -> Iterator[tuple[Grown, str]]:
    packets = {direction: _packets(metrics, direction) for direction in DIRECTIONS}
    for group in _groups(sent):
        where = f"{group[0].of.port} from {group[0].samples[0].second}"
        directions = _only_possible(group, packets)
        if directions is None:
            warnings.add(
                "Metrics octets.tx may be octets.rx, and the size of frames does not show which: they are left out",
                where,
            )
            continue
        named = list(zip(group, directions, strict=True))
        sizes = ", ".join(
            f"{_frame_bytes(one, packets[direction]):.0f} B a packet as {direction}" for one, direction in named
        )
        warnings.add("Two metrics have one name, octets.tx: distinguished by the size of frames", f"{where}: {sizes}")
        for one, direction in named:
            for sample in one.samples:
                sample.flags.append("repaired")
            yield one, f"octets.{direction}"


def _packets(metrics: Sequence[Grown], direction: str) -> _Values:
    """A port's packets in one direction, of all kinds that the file counts."""
    total: dict[int, int] = {}
    for metric in metrics:
        if metric.of.counter == f"unicast.{direction}":
            total |= _values(metric)
    for metric in metrics:
        if metric.of.counter in (f"broadcast.{direction}", f"multicast.{direction}"):
            for second, value in _values(metric).items():
                if second in total:
                    total[second] += value
    return total


def _values(metric: Grown) -> _Values:
    return {sample.second: sample.value for sample in metric.samples if sample.value is not None}


def _only_possible(group: Sequence[Grown], packets: Mapping[str, _Values]) -> tuple[str, ...] | None:
    """The direction that each metric of a group counts, if only one answer is possible."""
    for most_bytes in (MOST_FRAME_BYTES, MOST_JUMBO_BYTES):
        possible = [
            directions
            for directions in permutations(DIRECTIONS, len(group))
            if all(
                _is_possible(one, packets[direction], most_bytes)
                for one, direction in zip(group, directions, strict=True)
            )
        ]
        if possible:
            return possible[0] if len(possible) == 1 else None
    return None


def _is_possible(metric: Grown, packets: _Values, most_bytes: int) -> bool:
    """True if a metric's octets can be those of a direction's packets."""
    octets = {second: value for second, value in _values(metric).items() if second in packets}
    sizes = _frame_bytes(metric, packets)
    if not LEAST_FRAME_BYTES <= sizes <= most_bytes * (1 + _UNCOUNTED):
        return False
    return all(
        LEAST_FRAME_BYTES / _SKEW_FACTOR <= value / packets[second] <= most_bytes * _SKEW_FACTOR
        for second, value in octets.items()
        if packets[second] >= _LEAST_PACKETS_OF_A_SAMPLE
    )


def _frame_bytes(metric: Grown, packets: _Values) -> float:
    """The mean size of frames, over the samples that both have; NaN, which fits nowhere, without any packet."""
    octets = {second: value for second, value in _values(metric).items() if second in packets}
    count = sum(packets[second] for second in octets)
    return sum(octets.values()) / count if count else math.nan
