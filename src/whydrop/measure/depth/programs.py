"""One flow of another program, from its start to its rows."""

from __future__ import annotations

import contextlib
import math
import time

import polars as pl

from whydrop.measure.engine import EngineError, FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.registry import runner_for
from whydrop.measure.tally import Tally

_LOOK_EVERY_S = 0.05
_LEAD_S = 0.05
_ENDS_WITHIN_S = 10.0


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
