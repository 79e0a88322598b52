"""The fault of DISCO's version 2 until 2022-01-11: two metrics ``switch.octets.local.tx``, and none ``.rx``.

The poller's configuration named ifHCInOctets so too, and wrote the two in random order. (M-Lab's own tables have
zeroes for these days.) The size of frames shows which is which: the octets of a direction, divided by its
packets, must be a size that Ethernet has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import polars as pl

from whydrop.formats.archives.noting import Warnings
from whydrop.text import quantities

# Interfaces count frames with their checksum: 64 B to 1518 B, and 8 B more with two VLAN tags (IEEE 802.3, 802.1Q).
_LEAST_FRAME_BYTES = 64
_MOST_FRAME_BYTES = 1526
# As switches are configured that pass jumbo frames; no standard says how large these are.
_MOST_JUMBO_BYTES = 9216

# Multicast frames are not counted in these files, but their octets are: so many of the packets are forgiven.
_UNCOUNTED = 0.02
# In single samples, counters of octets and packets are read at slightly different times. Beyond this factor, and with
# so many packets, that is no explanation.
_SKEW_FACTOR = 2.0
_LEAST_PACKETS_OF_A_SAMPLE = 1000
_PORT = "local"
# The days for which M-Lab's own tables have zeroes, and some before, from the first of version 2 on.
_BEGAN_S = 1_598_918_400  # 2020-09-01T00:00Z
_FIXED_S = 1_642_550_400  # 2022-01-19T00:00Z

_DIRECTIONS = ("rx", "tx")


def named(rows: pl.DataFrame, warnings: Warnings) -> pl.DataFrame:
    """Samples with the names of their counters: confused ones by their right name, ``repaired``, or left out."""
    names: dict[int, str | None] = {}
    for _, of_port in rows.filter(pl.col("port") == _PORT).group_by("switch", "machine", maintain_order=True):
        if groups := _confused(of_port):
            packets = {direction: _packets(of_port, direction) for direction in _DIRECTIONS}
            for group in groups:
                names |= _right_names(group, packets, warnings)
    if not names:
        return rows
    is_confused = pl.col("metric").is_in(list(names))
    right = pl.col("metric").replace_strict(names, default=None, return_dtype=pl.String)
    return rows.with_columns(
        counter=pl.when(is_confused).then(right).otherwise("counter"), repaired=is_confused
    ).drop_nulls("counter")


def _confused(of_port: pl.DataFrame) -> list[list[pl.DataFrame]]:
    """Metrics of a port that are called ``octets.tx`` and may be ``octets.rx``.

    In groups: two that cover the same time, or one alone; several files, one behind the other, have several.
    """
    left = of_port.filter(pl.col("counter") == "octets.tx").partition_by("metric", maintain_order=True)
    if not left or (of_port["counter"] == "octets.rx").any():
        return []
    # One alone has lost its fellow, perhaps: a file may be damaged.
    is_of_the_faults_time = _BEGAN_S <= left[0]["second"][0] < _FIXED_S
    groups = []
    while left:
        one = left.pop(0)
        other = next((number for number, of in enumerate(left) if of["second"].is_in(one["second"]).any()), None)
        groups.append([one] if other is None else [one, left.pop(other)])
    return groups if is_of_the_faults_time or any(len(group) == 2 for group in groups) else []


def _packets(of_port: pl.DataFrame, direction: str) -> pl.DataFrame:
    """A port's packets in one direction by second, of all kinds that the file counts."""
    known = of_port.filter(pl.col("value").is_not_null())
    unicast = known.filter(pl.col("counter") == f"unicast.{direction}").unique("second", keep="last")
    others = known.filter(pl.col("counter").is_in([f"broadcast.{direction}", f"multicast.{direction}"]))
    more = others.group_by("second").agg(pl.col("value").sum().alias("more"))
    joined = unicast.join(more, on="second", how="left")
    return joined.select("second", packets=pl.col("value") + pl.col("more").fill_null(0))


def _right_names(
    group: Sequence[pl.DataFrame], packets: Mapping[str, pl.DataFrame], warnings: Warnings
) -> dict[int, str | None]:
    """The name of each metric of a group, if only one answer is possible."""
    # The samples that both have, and the mean size of frames over them.
    shared = {
        (place, direction): one.drop_nulls("value").unique("second", keep="last").join(packets[direction], on="second")
        for place, one in enumerate(group)
        for direction in _DIRECTIONS
    }
    sums = {key: of.select(pl.col("value", "packets").sum()).row(0) for key, of in shared.items()}
    sizes = {key: octets / count for key, (octets, count) in sums.items() if count}
    where = f"{_PORT} from {group[0]['second'][0]}"
    for most_bytes in (_MOST_FRAME_BYTES, _MOST_JUMBO_BYTES):
        possible = [
            directions
            for directions in permutations(_DIRECTIONS, len(group))
            if all(key in sizes and _is_possible(shared[key], sizes[key], most_bytes) for key in enumerate(directions))
        ]
        if len(possible) == 1:
            seen = ", ".join(
                f"{quantities.exact_size(sizes[place, direction])} a packet as {direction}"
                for place, direction in enumerate(possible[0])
            )
            kind = "Two metrics have one name, octets.tx: distinguished by the size of frames"
            warnings.add(kind, f"{where}: {seen}")
            return {one["metric"][0]: f"octets.{name}" for one, name in zip(group, possible[0], strict=True)}
        if possible:
            break
    kind = "Metrics octets.tx may be octets.rx, and the size of frames does not show which: they are left out"
    warnings.add(kind, where)
    return {one["metric"][0]: None for one in group}


def _is_possible(shared: pl.DataFrame, mean_bytes: float, most_bytes: int) -> bool:
    """True if a metric's octets can be those of a direction's packets."""
    if not _LEAST_FRAME_BYTES <= mean_bytes <= most_bytes * (1 + _UNCOUNTED):
        return False
    many = shared.filter(pl.col("packets") >= _LEAST_PACKETS_OF_A_SAMPLE)
    sizes = many["value"] / many["packets"]
    return sizes.is_between(_LEAST_FRAME_BYTES / _SKEW_FACTOR, most_bytes * _SKEW_FACTOR).all()
