"""A path as a user describes it, in a file or as text, and one sender over it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.runtime.user_files import quantities

Json = dict[str, Any]

KEYS = ("path", "elements", "rtt", "mtu")
# IPv4, and TCP with timestamps.
_HEADER_BYTES = 52
_MTU_BYTES = (576, 65_535)
# Of the 10 s that are simulated.
_MOST_RTT_S = 5.0
# The sender's own link, where the path has no rate.
_LINE_BPS = 1e9
_DURATION_NS = 10_000_000_000


class PathError(Mistake):
    """A path that makes no sense; the message says where, and what was expected."""


@dataclass(frozen=True)
class Described:
    """A path with what belongs to it.

    Attributes:
        path: its elements, in JSON values.
        rtt_s, mtu_bytes: ``None`` where the description does not state them.
        is_fitted: it is the path of captures.
        place: the beginning of a message about it, with its file.
    """

    path: Json
    rtt_s: float | None = None
    mtu_bytes: int | None = None
    is_fitted: bool = False
    place: str = ""


def of_text(text: str, place: str = "") -> Described:
    """A path in its text form, or in JSON.

    >>> of_text("policer:rate=20M,burst=80kB").path["elements"][0]["element"]
    'policer'

    Raises:
        PathError: it makes no sense.
    """
    try:
        return Described(_core.path(text)[0])
    except ValueError as reason:
        raise PathError(f"{place}{reason}") from None


def of_file(file: Path) -> Described:
    """The path in a TOML file: ``path`` with its text form or ``elements``, and ``rtt`` and ``mtu`` if it states them.

    Raises:
        PathError: the file is not TOML, or has no path that makes sense.
        OSError: it cannot be read.
    """
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as reason:
        raise PathError(f"{file}: {reason}") from None
    for key in given:
        if key not in KEYS:
            raise PathError(f"{file}: {key}: expected one of {', '.join(KEYS)}")
    if ("path" in given) == ("elements" in given):
        raise PathError(f'{file}: expected either path = "policer:rate=20M,burst=80kB" or [[elements]]')
    path = given["path"] if "path" in given else _written(file, given["elements"])
    if not isinstance(path, str):
        raise PathError(f"{file}: path: expected a text such as policer:rate=20M,burst=80kB")
    try:
        rtt_s = quantities.seconds(given["rtt"]) if "rtt" in given else None
    except ValueError as reason:
        raise PathError(f"{file}: rtt: {reason}") from None
    mtu_bytes = given.get("mtu")
    if mtu_bytes is not None and (type(mtu_bytes) is not int or not _MTU_BYTES[0] <= mtu_bytes <= _MTU_BYTES[1]):
        raise PathError(f"{file}: mtu: expected a whole number of bytes from {_MTU_BYTES[0]} to {_MTU_BYTES[1]}")
    return Described(of_text(path, f"{file}: ").path, rtt_s, mtu_bytes, place=f"{file}: ")


def _written(file: Path, elements: object) -> str:
    try:
        return _core.dumps({"elements": elements})
    except (TypeError, ValueError, OverflowError) as reason:
        raise PathError(f"{file}: elements: {reason}; texts and numbers were expected") from None


def setting_of(described: Described, control: str = "cubic") -> Json:
    """One download of 10 s over a path.

    Raises:
        PathError: the description has no round trip, or one that is too long for that time.
    """
    if described.rtt_s is None:
        raise PathError(f'{described.place}rtt: expected the round trip of the path, such as rtt = "40ms"')
    if not 0 <= described.rtt_s <= _MOST_RTT_S:
        expected = f'expected 0 to {_MOST_RTT_S:g} s, such as "40ms"; a number without unit is in s'
        raise PathError(f"{described.place}rtt: {expected}")
    round_trip_ns, elements = round(described.rtt_s * 1e9), described.path["elements"]
    return {
        "path": described.path,
        "line_bps": None if any(one.get("rate_bps") for one in elements) else _LINE_BPS,
        "round_trip_ns": round_trip_ns,
        "duration_ns": _DURATION_NS,
        "flows": [sender(control, described.mtu_bytes or 1500, ecn=any(one.get("marks") for one in elements))],
    }


def sender(control: str, mtu_bytes: int, *, ecn: bool = False) -> Json:
    """A sender of as much as the connection carries."""
    return {
        "start_ns": 0,
        "extra_rtt_ns": 0,
        "control": control,
        "mss_bytes": mtu_bytes - _HEADER_BYTES,
        "header_bytes": _HEADER_BYTES,
        "receive_window_bytes": None,
        "send_buffer_bytes": None,
        "segments_per_ack": 2,
        "pace_bps": None,
        "ecn": ecn,
        "sack": True,
        "load": "full",
    }
