"""Code shared by the readers of both versions of DISCO: a metric's samples, rows in the making, notes that add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whydrop.formats.archives.noting import counted

if TYPE_CHECKING:
    import polars as pl

NS = 1_000_000_000

# No switch of the platform had ports of more than 10 Gb/s. Ten times that leaves no doubt, and what a counter that
# was reset is taken for is commonly nine orders of magnitude beyond.
FASTEST_BPS = 100e9
# An Ethernet frame of 64 B, its preamble and the gap behind it.
_LEAST_WIRE_BYTES = 84

# Times that are none: before this software was thought of, or beyond what int64 holds in nanoseconds.
_EARLIEST_S, _LATEST_S = 946_684_800, 9_200_000_000

_EXAMPLES = 2
_EXAMPLE_CHARS = 120


@dataclass(frozen=True)
class Series:
    """The samples of one metric, as the file has them."""

    metro: str | None
    site: str | None
    switch: str
    machine: str
    port: str
    counter: str
    samples: Sequence[Any]

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.counter} of {self.port}"

    @property
    def has_counters(self) -> bool:
        """True if it is of version 2."""
        return any(isinstance(sample, dict) and "counter" in sample for sample in self.samples)

    def second(self, sample: Any) -> int | None:
        """A sample's timestamp; None where it has none that could be."""
        stamp = sample.get("timestamp") if isinstance(sample, dict) else None
        if isinstance(stamp, float) and stamp.is_integer():
            stamp = int(stamp)
        return stamp if type(stamp) is int and is_time(stamp) else None


def is_time(second: int) -> bool:
    """True if samples can have been taken then."""
    return _EARLIEST_S <= second < _LATEST_S


class Warnings:
    """Warnings on a file: each kind once, with how often and the first cases."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, kind: str, case: object) -> None:
        """Take note of one case. ``kind`` is a sentence in the plural."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        cases = self._found.setdefault(kind, [])
        if len(cases) < _EXAMPLES:
            cases.append(str(case)[:_EXAMPLE_CHARS])

    def sentences(self) -> list[str]:
        """One for each kind."""
        return [counted(kind, self._counts[kind], ", ".join(cases)) for kind, cases in self._found.items()]


@dataclass
class Rows:
    """Columns of the table ``counters`` in the making."""

    columns: dict[str, list[Any]] = field(default_factory=dict)

    def add(self, of: Series, counter: str | None = None, **columns: Sequence[Any]) -> None:
        """Rows of one metric; all columns of one call are of one length."""
        length = len(next(iter(columns.values())))
        constant = {"metro": of.metro, "site": of.site, "switch": of.switch, "machine": of.machine, "port": of.port}
        for name, value in (constant | {"counter": counter or of.counter}).items():
            self.columns.setdefault(name, []).extend([value] * length)
        for name, values in columns.items():
            self.columns.setdefault(name, []).extend(values)

    def frame(self) -> pl.DataFrame:
        """Conforming to the table."""
        import polars as pl

        from whydrop.store import tables

        schema = {name: kind for name, kind in tables.COUNTERS.items() if name in self.columns}
        return tables.conform("counters", pl.DataFrame(self.columns, schema=schema))


def joined(one: Rows, other: Rows) -> pl.DataFrame:
    """Both in one frame; commonly there is only one of them."""
    import polars as pl

    if not one.columns or not other.columns:
        return (one if one.columns else other).frame()
    return pl.concat([one.frame(), other.frame()])


def most(counter: str, span_s: float) -> float:
    """More than a port can count in that time: bytes of a counter of octets, packets of any other.

    >>> most("octets.tx", 10)
    125000000000.0
    """
    per_s = FASTEST_BPS / 8 if counter.startswith("octets.") else FASTEST_BPS / 8 / _LEAST_WIRE_BYTES
    return math.ceil(per_s * span_s) * 1.0
