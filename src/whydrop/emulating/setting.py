"""A path to emulate, as a user describes it: in a file, or as text."""

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


class PathError(Mistake):
    """A path that makes no sense; the message says where, and what was expected."""


@dataclass(frozen=True)
class Setting:
    """A path with what belongs to it.

    Attributes:
        path: its elements, in JSON values.
        rtt_s, mtu_bytes: ``None`` where the description does not state them.
    """

    path: Json
    rtt_s: float | None = None
    mtu_bytes: int | None = None


def of_text(text: str, place: str = "") -> Setting:
    """A path in its text form, or in JSON.

    >>> of_text("policer:rate=20M,burst=80kB").path["elements"][0]["element"]
    'policer'

    Raises:
        PathError: it makes no sense.
    """
    try:
        return Setting(_core.path(text)[0])
    except ValueError as reason:
        raise PathError(f"{place}{reason}") from None


def of_file(file: Path) -> Setting:
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
    path = given["path"] if "path" in given else _core.dumps({"elements": given["elements"]})
    if not isinstance(path, str):
        raise PathError(f"{file}: path: expected a text such as policer:rate=20M,burst=80kB")
    try:
        rtt_s = quantities.seconds(given["rtt"]) if "rtt" in given else None
    except ValueError as reason:
        raise PathError(f"{file}: rtt: {reason}") from None
    mtu_bytes = given.get("mtu")
    if mtu_bytes is not None and not isinstance(mtu_bytes, int):
        raise PathError(f"{file}: mtu: expected a whole number of bytes")
    return Setting(of_text(path, f"{file}: ").path, rtt_s, mtu_bytes)


def trace_of(file: Path) -> list[int]:
    """The delivery opportunities of a trace of mahimahi, in ms.

    Raises:
        PathError: a line is no time.
        OSError: the file cannot be read.
    """
    try:
        return _core.trace_times(file.read_text(encoding="utf-8"))
    except ValueError as reason:
        raise PathError(f"{file}: {reason}") from None
