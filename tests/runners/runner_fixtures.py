"""Code shared by the tests of runners: fixtures of real output, and running a flow to its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Outcome, Runner
from whydrop.measure.runners.parsing.base import Parser, read
from whydrop.measure.runners.registry import runner_for

FIXTURES = Path(__file__).with_name("fixtures")

HANGS_S = 120
"""Longer than anything takes here, on any machine."""


def text(name: str) -> str:
    return (FIXTURES / name).read_text("utf-8")


def tables(parser: Parser, name: str, *, errors: str | None = None, arrived_ns: int = 0) -> dict[str, pl.DataFrame]:
    """The rows that a parser reads out of a fixture."""
    for line in text(errors).splitlines() if errors else []:
        parser.error_line(line, arrived_ns)
    return read(parser, text(name), arrived_ns=arrived_ns).rows.take()


def flow(**settings: Any) -> PlannedFlow:
    return PlannedFlow(**{"name": "a flow", "kind": "value", "duration_s": 1.0, **settings})


def command(words: list[str] | str, **settings: Any) -> PlannedFlow:
    """A flow of the command runner that takes the first number of each line."""
    return flow(**{"runner": "command", "options": {"command": words, **settings.pop("options", {})}, **settings})


class Clock:
    """The module ``time`` with a monotonic clock that can be set forward: a flow's time is over when a test says so."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + round(self.ahead_s * 1e9)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for a condition, however busy the machine is; the limit only bounds a hang."""
    give_up = time.monotonic() + HANGS_S
    while not holds():
        assert time.monotonic() < give_up, f"waited in vain for {HANGS_S} s"
        time.sleep(0.02)


def started(planned: PlannedFlow) -> tuple[Runner, dict[str, pl.DataFrame]]:
    """A flow that has measured something and runs on; with what it measured."""
    runner = runner_for(planned, 7)
    assert runner.check() is None
    runner.start(time.monotonic_ns())
    found: dict[str, pl.DataFrame] = {}
    wait_until(lambda: bool(found.update(runner.drain()) or found) or runner.done())
    return runner, found


def run(planned: PlannedFlow) -> tuple[Outcome, dict[str, pl.DataFrame]]:
    """Run a flow to its end, draining it as a test does."""
    runner = runner_for(planned, 7)
    assert runner.check() is None
    runner.start(time.monotonic_ns())
    return ended(runner)


def ended(runner: Runner) -> tuple[Outcome, dict[str, pl.DataFrame]]:
    """The end of a flow, which must come by itself; and what it measured since the last look."""
    found: dict[str, list[pl.DataFrame]] = {}

    def drained() -> bool:
        is_over = runner.done()
        for name, frame in runner.drain().items():
            found.setdefault(name, []).append(frame)
        return is_over

    wait_until(drained)
    outcome = runner.finish(1)
    for name, frame in runner.drain().items():
        found.setdefault(name, []).append(frame)
    return outcome, {name: pl.concat(frames) for name, frames in found.items()}
