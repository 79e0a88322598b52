"""The result of an emulation in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whydrop.text.quantities import count, duration, plural

Json = dict[str, Any]

_DIRECTIONS = (("near_to_far", "near to far"), ("far_to_near", "far to near"))


def lines(found: Json) -> Iterator[str]:
    """A line for the packets of each direction, and one for what does not agree with the path.

    >>> lateness = {"mean_ns": 4200.0, "median_ns": 3000.0, "p99_ns": 21000.0, "greatest_ns": 90000}
    >>> one = {"arrived": 5, "delivered": 3, "dropped": 2, "marked": 0, "lost_by_emulator": 0, "lateness": lateness}
    >>> print(*lines({"near_to_far": one}), sep="\\n")
    near to far: 5 packets, 2 dropped by the path, none marked
    near to far: sent late by 4.20 µs on average, median 3.00 µs, 99th percentile 21.0 µs, at most 90.0 µs
    """
    for key, name in _DIRECTIONS:
        if (one := found.get(key)) is not None:
            yield from (f"{name}: {line}" for line in _of_direction(one))


def _of_direction(one: Json) -> Iterator[str]:
    yield (
        f"{plural(one['arrived'], 'packet')}, {_or_none(one['dropped'])} dropped by the path, "
        f"{_or_none(one['marked'])} marked"
    )
    late = one["lateness"]
    if late is not None:
        mean, median, p99, most = (
            duration(late[name] / 1e9) for name in ("mean_ns", "median_ns", "p99_ns", "greatest_ns")
        )
        yield f"sent late by {mean} on average, median {median}, 99th percentile {p99}, at most {most}"
    if one["lost_by_emulator"]:
        yield (
            f"the emulator lost {plural(one['lost_by_emulator'], 'packet')} that the path would not have dropped: "
            "this machine is too slow for the load"
        )


def _or_none(number: int) -> str:
    return count(number) if number else "none"
