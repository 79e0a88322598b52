"""Files of older versions of Flent's format converted to the present one (4), and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whydrop.formats.archives.names import rfc3339_ns
from whydrop.formats.files import nanoseconds, number
from whydrop.recording.errors import RecordingError

NEWEST = 4

# 2005: before there was netperf-wrapper.
_FIRST_NS = 1_104_537_600 * 1_000_000_000
_HOUR_NS = 3600 * 1_000_000_000

Row = dict[str, Any]


@dataclass
class FlentFile:
    """A file of version 4, whatever version it had.

    Attributes:
        version: that it had.
        original: the metadata as they were in the file, without the raw values that version 1 kept in them.
        series_metadata: by series; ``SERIES_META``.
        raw: rows by series; ``t`` is in seconds since the epoch.
        start_ns: when the grid begins.
        asked_ns: when the user started the test, some seconds before.
    """

    version: int
    original: dict[str, Any]
    series_metadata: dict[str, dict[str, Any]]
    x_values: list[float]
    results: dict[str, list[float | None]]
    raw: dict[str, list[Row]]
    start_ns: int | None
    asked_ns: int | None = None
    notes: list[str] = field(default_factory=list)


def upgraded(content: dict[str, Any], where: str) -> FlentFile:
    """The contents of a file of any version, checked.

    Raises:
        RecordingError: a version that is newer, or something that no version has.
    """
    version = _version(content, where)
    metadata = content.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise RecordingError(f"{where}: metadata: expected an object")
    series_metadata = {
        name: dict(entry) for name, entry in (metadata.get("SERIES_META") or {}).items() if isinstance(entry, dict)
    }
    x_values, results = _grid(content, where)
    raw = _raw(content, series_metadata, version)
    original = {**metadata, "SERIES_META": series_metadata}
    file = FlentFile(version, original, series_metadata, x_values, results, raw, None)
    if version < NEWEST:
        _convert_units(file)
    _find_start(file)
    return file


def _version(content: dict[str, Any], where: str) -> int:
    version = content.get("version", 1)
    try:
        found = int(version)
    except (OverflowError, TypeError, ValueError):
        found = 1
    if found > NEWEST:
        raise RecordingError(
            f"{where}: version {found} of Flent's file format; this version of whydrop reads versions 1 to {NEWEST}"
        )
    return found


def _grid(content: dict[str, Any], where: str) -> tuple[list[float], dict[str, list[float | None]]]:
    x_values = [number(x) for x in _list(content["x_values"], f"{where}: x_values")]
    if any(x is None for x in x_values):
        raise RecordingError(f"{where}: x_values: expected numbers only")
    found = content["results"]
    if not isinstance(found, dict):
        raise RecordingError(f"{where}: results: expected an object with one list a series")
    results: dict[str, list[float | None]] = {}
    for name, values in found.items():
        numbers = [number(value) for value in _list(values, f"{where}: results of {name!r}")]
        if len(numbers) != len(x_values):
            raise RecordingError(
                f"{where}: results of {name!r}: {len(numbers)} values; expected {len(x_values)}, as many as x_values"
            )
        results[name] = numbers
    return [x for x in x_values if x is not None], results


def _raw(content: dict[str, Any], series_metadata: dict[str, dict[str, Any]], version: int) -> dict[str, list[Row]]:
    raw = content.get("raw_values")
    if version == 1 and not raw:
        # netperf-wrapper kept them, when it kept them at all, inside the metadata.
        raw = {name: entry["RAW_VALUES"] for name, entry in series_metadata.items() if "RAW_VALUES" in entry}
    for entry in series_metadata.values():
        entry.pop("RAW_VALUES", None)
    if not isinstance(raw, dict):
        return {}
    # Copies, because units are converted in place.
    return {
        name: [dict(row) for row in rows if isinstance(row, dict)]
        for name, rows in raw.items()
        if isinstance(rows, list)
    }


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise RecordingError(f"{where}: expected a list")
    return value


def _convert_units(file: FlentFile) -> None:
    """Before version 4 some raw values were in the units of the tool, and not in those of the series."""
    for name, rows in file.raw.items():
        if "UDP" in name:
            # netperf's UDP_RR printed transactions a second. Its rows are recognised by their duration.
            _change(rows, "val", lambda value: 1000.0 / value if value else None, needs="dur")
        elif name == "HTTP latency":
            _change(rows, "val", lambda value: value * 1000.0)
        elif rows and "stations" in rows[0]:
            _difference(_stations(rows), ("airtime_tx", "airtime_rx"))
        elif rows and ("dropped" in rows[0] or "ecn_mark" in rows[0]):
            _difference((("", row) for row in rows), ("dropped", "ecn_mark"))
    for entry in file.series_metadata.values():
        mean = number(entry.get("MEAN_VALUE"))
        if entry.get("UNITS") == "bits/s" and mean is not None:
            entry["MEAN_VALUE"], entry["UNITS"] = mean / 1e6, "Mbits/s"


def _change(rows: list[Row], key: str, change: Callable[[float], float | None], needs: str | None = None) -> None:
    for row in rows:
        value = number(row.get(key))
        if value is not None and (needs is None or needs in row):
            row[key] = change(value)


def _difference(rows: Iterable[tuple[str, Row]], keys: Sequence[str]) -> None:
    """Counters since some start become counts since the row before of the same station; the first is 0."""
    before: dict[tuple[str, str], float] = {}
    for station, row in rows:
        for key in keys:
            value = number(row.get(key))
            if value is not None:
                row[key] = value - before.get((station, key), value)
                before[station, key] = value


def _stations(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    for row in rows:
        stations = row.get("stations")
        for station, entry in stations.items() if isinstance(stations, dict) else ():
            if isinstance(entry, dict):
                yield station, entry


def _find_start(file: FlentFile) -> None:
    """The time at which the grid begins: T0 or, in old files, TIME; either may be in an unknown time zone."""
    times = [nanoseconds(row.get("t")) for rows in file.raw.values() for row in rows]
    # Stamps of a clock that began with the host say nothing of the time of day.
    earliest = min((time for time in times if time is not None and time >= _FIRST_NS), default=None)
    file.asked_ns = parse_time(file.original.get("TIME"), earliest)
    found = (parse_time(file.original.get("T0"), earliest), file.asked_ns, earliest)
    file.start_ns = next((moment for moment in found if moment is not None), None)


def parse_time(text: Any, near_ns: int | None) -> int | None:
    """A time of Flent's metadata in nanoseconds since the epoch.

    Files before version 3 have local time without saying which: the offset is then the whole number of hours that
    brings it nearest to ``near_ns``, the earliest sample.

    >>> parse_time("2017-05-30T15:42:47.075621Z", None)
    1496158967075621000
    >>> parse_time("2015-07-13T11:22:41", 1436779361_582027000)
    1436779361000000000
    """
    written = str(text or "")
    is_utc = written.endswith("Z")
    instant_ns = rfc3339_ns(written if is_utc else f"{written}Z")
    if instant_ns is None or is_utc or near_ns is None:
        return instant_ns
    return instant_ns + round((near_ns - instant_ns) / _HOUR_NS) * _HOUR_NS
