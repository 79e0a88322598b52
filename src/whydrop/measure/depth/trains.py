"""Senders of rounds: what they have in common, and one flow of another program, from its start to its rows."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any

import polars as pl

from whydrop.measure.depth.rounds import Round
from whydrop.measure.depth.searching import CountingSearch, Search
from whydrop.measure.engine import EngineError
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.registry import runner_for
from whydrop.measure.tally import Tally

_LOOK_EVERY_S = 0.05
_LEAD_S = 0.05
_ENDS_WITHIN_S = 10.0


class Trains:
    """A sender of rounds, which knows what became of them.

    Attributes:
        search: chooses the next round.
        far: metadata of the far hosts, by name; servers of other programs send none.
    """

    def __init__(self, host: FarHost, search: Search | CountingSearch) -> None:
        self.host = host
        self.search: Search | CountingSearch = search
        self.far: dict[str, dict[str, Any]] = {}

    def flow(self, upcoming: Round, name: str) -> PlannedFlow:
        """The flow that sends a round."""
        raise NotImplementedError

    def send(self, upcoming: Round, tally: Tally, left_s: float) -> dict[str, pl.DataFrame]:
        """Send a round; its rows by table. Nothing is sent after ``left_s``.

        Raises:
            EngineError: the far end cannot be reached, or nothing was measured; the message says what to do.
        """
        raise NotImplementedError

    def kept(self, _tally: Tally) -> dict[str, pl.DataFrame]:
        """Rows of an interrupted round: none of a program that was ended before it printed its result."""
        return {}

    def analysis(self) -> dict[str, Any]:
        """The analysis of all rounds.

        Raises:
            EngineError: nothing arrived.
        """
        raise NotImplementedError

    def arrived(self, analysis: dict[str, Any] | None) -> dict[str, Any]:
        """The analysis, unless there is none, since nothing arrived."""
        if analysis is None:
            raise EngineError(f"{self.host.name}: no packet of the bursts arrived: check for a firewall on the path")
        return analysis


def address_of(host: FarHost) -> str:
    """Where a program reaches a host."""
    return host.address or host.name


def run(flow: PlannedFlow, tally: Tally | None = None, left_s: float = math.inf) -> dict[str, pl.DataFrame]:
    """Run it to its end, or for ``left_s``; its rows by table. Facts from the program go into ``tally``.

    Raises:
        EngineError: it is not installed, or failed; the message says what to do.
    """
    runner = runner_for(flow, 0 if tally is None else tally.number)
    if complaint := runner.check():
        raise EngineError(complaint)
    # Whatever happens, nothing of it may go on sending.
    with contextlib.ExitStack() as stack:
        stack.callback(runner.stop)
        runner.start(time.monotonic_ns() + int(_LEAD_S * 1e9))
        until_s = time.monotonic() + left_s
        while not runner.done() and time.monotonic() < until_s:
            time.sleep(_LOOK_EVERY_S)
        if not runner.done():
            runner.stop()
        outcome = runner.finish(_ENDS_WITHIN_S)
    if tally is not None:
        tally.end(outcome.status, outcome.message)
        tally.facts.update(outcome.facts)
    if outcome.status == "failed":
        raise EngineError(outcome.message or f"{flow.runner} failed")
    return runner.drain()
