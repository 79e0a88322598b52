"""A path to emulate, as a user describes it: in a file, or as text."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.runtime.user_files import quantities

if TYPE_CHECKING:
    from whydrop.explaining.explained import Explained

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
        is_fitted: it is the path of captures.
        place: the beginning of a message about it, with its file.
    """

    path: Json
    rtt_s: float | None = None
    mtu_bytes: int | None = None
    is_fitted: bool = False
    place: str = ""


def of_sources(sources: Sequence[str], explain: Callable[[Sequence[Path]], Explained]) -> Setting:
    """The path of a text or a file, or the one that explains captures; of nothing, a path that passes all packets.

    Args:
        sources: one text, one TOML file, or captures.
        explain: explains captures, with tables.

    Raises:
        PathError: it makes no sense.
        PredictionError: the captures have nothing that could be run.
        OSError: a file cannot be read.
    """
    if not sources:
        return Setting({"elements": []})
    first = Path(sources[0])
    if len(sources) == 1 and first.suffix == ".toml":
        return of_file(first)
    if len(sources) == 1 and not first.exists() and ":" in sources[0]:
        return of_text(sources[0])
    return _fitted(explain([Path(source) for source in sources]))


def _fitted(found: Explained) -> Setting:
    from whydrop.explaining.predicting.prediction import fitted_setting

    fitted = fitted_setting(found)
    # The link over which packets come to the path: a host here sends as fast as its processor.
    line = [] if fitted["line_bps"] is None else [{"element": "line", "rate_bps": fitted["line_bps"]}]
    return Setting({"elements": [*line, *fitted["path"]["elements"]]}, fitted["round_trip_ns"] / 1e9, is_fitted=True)


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
    return Setting(of_text(path, f"{file}: ").path, rtt_s, mtu_bytes, place=f"{file}: ")


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
