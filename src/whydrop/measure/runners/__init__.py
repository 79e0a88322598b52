"""Programs of other people that measure for us; the contract that all of them meet.

:func:`whydrop.measure.runners.registry.runner_for` makes the runner of a flow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from whydrop.measure.plan import PlannedFlow


@dataclass(frozen=True)
class Outcome:
    """How a flow ended.

    Attributes:
        status: ``complete``, ``stopped`` (asked to), ``failed``, ``no-data``.
        message: of a failed flow: what went wrong, for the person who must act.
        facts: what the program reported once: its version, its command line, averages of its own.
    """

    status: str
    message: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Runner(Protocol):
    """One flow that is measured by a program (or by code) outside the engine.

    A runner never raises once it was started: what fails becomes its outcome.
    """

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        """``number`` is the flow's number in the recording's tables."""

    def check(self) -> str | None:
        """The program that is missing (with what to install), or ``None``. Called before anything starts."""

    def start(self, at_ns: int) -> None:
        """Begin; the common start is at ``at_ns`` (``time.monotonic_ns``), the flow's own ``start_s`` later."""

    def drain(self) -> dict[str, pl.DataFrame]:
        """The rows measured since the last call, by table name (columns as in ``record.tables``)."""

    def done(self) -> bool:
        """True if it has ended by itself."""

    def stop(self) -> None:
        """End early; returns at once."""

    def finish(self, timeout_s: float) -> Outcome:
        """Wait for the end (killing the program after ``timeout_s``). ``drain`` may be called once more after it."""
