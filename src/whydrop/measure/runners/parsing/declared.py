"""Any program's output, read as its user declared it: the declaration, and the parsers that it makes.

A declaration is a table of a test's file:

    parser = { format = "regex", pattern = '^(?P<time>\\d+) temp=(?P<value>[\\d.]+)', time_unit = "s" }
    parser = { format = "json-lines", value = "sensor.power", values = { volts = "sensor.voltage" }, time = "t" }
    parser = { format = "json", each = "rows", value = "watts" }
    parser = { format = "csv", value = "Power (W)", separator = ";", header = true }
    parser = { format = "key-value", value = "rate" }
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from whydrop.measure.runners.parsing.base import Parser, epoch_ns, number, whole

# To nanoseconds.
_TIME_SCALES = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
# To bit/s and to nanoseconds, the units of the tables.
_RATE_SCALES = {
    "bit/s": 1.0,
    "kbit/s": 1e3,
    "Mbit/s": 1e6,
    "Gbit/s": 1e9,
    "B/s": 8.0,
    "kB/s": 8e3,
    "MB/s": 8e6,
    "KiB/s": 8.0 * 2**10,
    "MiB/s": 8.0 * 2**20,
}
_MOST_CHARACTERS = 64_000_000
_MOST_PATTERN_CHARACTERS = 4000
_LONGEST_MATCHED_CHARACTERS = 10_000
# How long a program's clock may be from ours before its stamps are taken for something else.
_YEAR_NS = 366 * 86_400 * 10**9


class Declaration(BaseModel):
    """How the output of a program is read.

    Attributes:
        format: of the output.
        pattern: of ``regex``: with named groups ``value``, and if the program prints them ``time`` and ``key``; any
            other group makes a series of its name.
        value: of the other formats: where the value stands: a path of names and numbers (``a.b.0``) into JSON, a
            column's heading (or its number from 1 without a heading), or a key.
        values: further series by name, each with its place.
        time: the place of a stamp, where there is one; without, a line's arrival counts.
        key: the place of a name, of which each makes a series.
        each: of ``json``: the path of a list, of which each entry is one measurement.
        per: ``line``, or ``run`` where only the last value counts.
        scale: that values are multiplied with.
        units: of what is printed, where the flow's table has units of its own (rates and times).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["regex", "json-lines", "json", "csv", "key-value"]
    pattern: str | None = Field(default=None, max_length=_MOST_PATTERN_CHARACTERS)
    value: str | int | None = None
    values: dict[str, str | int] = {}
    time: str | int | None = None
    time_unit: Literal["s", "ms", "us", "ns", "iso"] = "s"
    key: str | int | None = None
    each: str | None = None
    separator: str = Field(default=",", min_length=1, max_length=1)
    header: bool = True
    per: Literal["line", "run"] = "line"
    scale: float = 1.0
    units: str | None = None
    stream: Literal["output", "errors", "both"] = "output"

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                groups = re.compile(pattern).groupindex
            except re.error as reason:
                raise ValueError(f"no regular expression: {reason}") from None
            if not groups.keys() - {"time", "key"}:
                raise ValueError("it needs a group for the value: (?P<value>...)")
        return pattern

    @model_validator(mode="after")
    def _is_complete(self) -> Declaration:
        if (self.format == "regex") != (self.pattern is not None):
            raise ValueError("a pattern belongs to format regex, which needs one")
        if self.format != "regex" and self.value is None and not self.values:
            raise ValueError(f"format {self.format} needs the place of a value: value, or values for several")
        if self.each is not None and self.format != "json":
            raise ValueError("each belongs to format json")
        return self


Measurement = dict[str, Any]  # time, key, value, and further values by name


class DeclaredParser(Parser):
    """Rows by declaration: of table ``values``, or of the table of the flow's kind.

    Args:
        flow: number of the flow.
        declaration: how to read.
        kind: of the flow: ``value``; or ``tcp`` and ``udp``, with rates as values (units bit/s unless declared);
            or ``icmp`` and ``probe``, with round trips as values (ms unless declared).
        interval_ns: of a rate.
    """

    _tables: ClassVar[dict[str, str]] = {"tcp": "intervals", "udp": "intervals", "icmp": "probes", "probe": "probes"}

    def __init__(self, flow: int, declaration: Declaration, *, kind: str = "value", interval_ns: int = 10**9) -> None:
        super().__init__(flow)
        self._declaration = declaration
        self._table = self._tables.get(kind, "values")
        self._interval_ns = interval_ns
        self._pattern = re.compile(declaration.pattern) if declaration.pattern is not None else None
        self._columns: list[str] | None = None
        self._document: list[str] = []
        self._characters = 0
        self._last: tuple[Measurement, int] | None = None
        self._sequence = 0
        self._unit = 1.0
        if self._table == "intervals":
            self._unit = _RATE_SCALES.get(declaration.units or "bit/s", 1.0)
        elif self._table == "probes":
            self._unit = _TIME_SCALES.get(declaration.units or "ms", 1e6)

    def line(self, text: str, arrived_ns: int, /) -> None:
        """Standard output, unless the declaration wants the other."""
        if self._declaration.stream != "errors":
            self._read(text, arrived_ns)

    def error_line(self, text: str, arrived_ns: int, /) -> None:
        """Standard error, where the declaration wants it."""
        if self._declaration.stream != "output":
            self._read(text, arrived_ns)

    def end(self, now_ns: int, /) -> None:
        """Whole documents are read now, and the last value of the run is known."""
        if self._document:
            text, self._document = "\n".join(self._document), []
            for found in self._entries(text):
                self._found(found, now_ns)
        if self._last is not None:
            self._write(*self._last)
            self._last = None

    def _read(self, text: str, arrived_ns: int) -> None:
        if not text.strip():
            return
        if self._declaration.format == "json":
            self._characters += len(text)
            if self._characters > _MOST_CHARACTERS:
                self._document = []
                self.failure = f"its JSON has more than {_MOST_CHARACTERS} characters"
            else:
                self._document.append(text)
            return
        found = self._measurement(text)
        if found is not None:
            self._found(found, arrived_ns)

    def _measurement(self, text: str) -> Measurement | None:
        """The measurement in a line; ``None`` if it is none of the declared kind."""
        if self._pattern is not None:
            # a hostile line must not keep a pattern busy for ever
            match = self._pattern.search(text[:_LONGEST_MATCHED_CHARACTERS])
            return {name: value for name, value in match.groupdict().items() if value is not None} if match else None
        if self._declaration.format == "json-lines":
            try:
                return self._placed(json.loads(text))
            except (ValueError, RecursionError):
                self.not_understood(text)
                return None
        if self._declaration.format == "csv":
            return self._row(text)
        pairs = dict(word.split("=", 1) for word in re.split(r"[\s,;]+", text) if "=" in word)
        return self._placed(pairs) if pairs else None

    def _row(self, text: str) -> Measurement | None:
        try:
            cells = next(iter(csv.reader([text], delimiter=self._declaration.separator)), [])
        except csv.Error:
            self.not_understood(text)
            return None
        cells = [cell.strip() for cell in cells]
        if self._declaration.header and self._columns is None:
            self._columns = cells
            missing = [place for place in self._places().values() if isinstance(place, str) and place not in cells]
            if missing:
                self.failure = f"its table has no column {', '.join(missing)}; it has {', '.join(cells)[:300]}"
            return None
        named: dict[str, Any] = dict(zip(self._columns or [], cells, strict=False))
        numbered = {str(position): cell for position, cell in enumerate(cells, start=1)}
        return self._placed(numbered | named)

    def _entries(self, text: str) -> Iterator[Measurement]:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as reason:
            self.failure = f"its output is no JSON ({reason})"
            return
        each = self._declaration.each
        entries = _at(document, each) if each is not None else [document]
        if not isinstance(entries, list):
            self.failure = f"its JSON has no list at {each}"
            return
        for entry in entries:
            found = self._placed(entry)
            if found is not None:
                yield found

    def _places(self) -> dict[str, str | int]:
        one = self._declaration
        named = {"value": one.value, "time": one.time, "key": one.key}
        return {name: place for name, place in named.items() if place is not None} | one.values

    def _placed(self, data: object) -> Measurement | None:
        found = {name: at for name, place in self._places().items() if (at := _at(data, place)) is not None}
        return found if found.keys() - {"time", "key"} else None

    def _found(self, found: Measurement, arrived_ns: int) -> None:
        if self._declaration.per == "run":
            self._last = (found, arrived_ns)
        else:
            self._write(found, arrived_ns)

    def _write(self, found: Measurement, arrived_ns: int) -> None:
        time_ns = self._time_ns(found.pop("time", None), arrived_ns)
        name = str(found.pop("key", ""))[:200]
        for key, text in found.items():
            value = number(text)
            if value is None:
                self.not_understood(f"{key}={text}")
                continue
            series = name if key == "value" else f"{name}.{key}" if name else key
            self._add(series, time_ns, value * self._declaration.scale)

    def _add(self, series: str, time_ns: int, value: float) -> None:
        if series or self._table == "values":
            self.rows.add("values", flow=self.flow, time_ns=time_ns, key=series, value=value)
        elif self._table == "intervals":
            rate_bps = value * self._unit
            self.rows.add(
                "intervals",
                flow=self.flow,
                start_ns=time_ns - self._interval_ns,
                end_ns=time_ns,
                payload_bytes=whole(rate_bps * self._interval_ns / 8e9),
                goodput_bps=rate_bps,
            )
        else:
            rtt_ns = whole(value * self._unit)
            sent_ns = time_ns - rtt_ns if rtt_ns is not None else None
            self.rows.add(
                "probes",
                flow=self.flow,
                sequence=self._sequence,
                sent_ns=sent_ns,
                received_ns=time_ns,
                rtt_ns=rtt_ns,
                fate="ok",
            )
            self._sequence += 1

    def _time_ns(self, stamp: object, arrived_ns: int) -> int:
        time_ns = None
        if stamp is not None and self._declaration.time_unit == "iso":
            time_ns = _iso_ns(str(stamp))
        elif stamp is not None and self._declaration.time_unit == "s" and isinstance(stamp, str):
            time_ns = epoch_ns(stamp.strip())
        elif (count := number(stamp)) is not None:
            # whole nanoseconds do not fit into a float
            exact = whole(stamp) if isinstance(stamp, (int, str)) and str(stamp).isdigit() else None
            scale = _TIME_SCALES.get(self._declaration.time_unit, 1e9)
            time_ns = exact * int(scale) if exact is not None else whole(count * scale)
        if time_ns is None or abs(time_ns - arrived_ns) > _YEAR_NS:
            if stamp is not None:
                self.facts["stamps_not_used"] = self.facts.get("stamps_not_used", 0) + 1
            return arrived_ns
        return time_ns


def _at(data: object, place: str | int) -> Any:
    """The value at a path such as ``a.b.0``; ``None`` if there is none."""
    if isinstance(data, dict) and str(place) in data:
        return data[str(place)]
    for part in str(place).split("."):
        if isinstance(data, dict):
            data = data.get(part)
        elif isinstance(data, list) and re.fullmatch(r"-?\d{1,9}", part) and -len(data) <= int(part) < len(data):
            data = data[int(part)]
        else:
            return None
    return data


def _iso_ns(text: str) -> int | None:
    """ISO 8601 as Python reads it, in UTC if it names no zone.

    >>> _iso_ns("2026-11-22T03:04:54.5Z")
    1795316694500000000
    >>> _iso_ns("2026-11-22T04:04:54.500000Z+0100")
    1795316694500000000
    """
    from datetime import UTC, datetime

    try:
        # mosquitto_sub writes Z and the zone behind it
        moment = datetime.fromisoformat(re.sub(r"Z(?=[-+]\d)", "", text.strip()).replace("Z", "+00:00"))
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
