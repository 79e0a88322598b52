"""Samples of DISCO's version 2, and how much they grew."""

from __future__ import annotations

from dataclasses import dataclass, field

from whydrop.formats.archives.disco_rows import Series

HALF = 1 << 63


@dataclass(slots=True)
class Sample:
    """One poll of one counter."""

    second: int
    counter: int
    delta: int | None  # as the file has it, 0 to 2^64 - 1
    poll_start_ns: int | None
    poll_end_ns: int | None
    span_s: int | None = None  # since the sample before
    value: int | None = None
    flags: list[str] = field(default_factory=list)  # of the table's qualities

    @property
    def fell(self) -> bool:
        """True if the counter is less than it was."""
        return self.delta is not None and self.delta >= HALF


@dataclass
class Grown:
    """One metric with its samples, in the file's order."""

    of: Series
    samples: list[Sample]
