"""Time that passes only while nothing else happens: an event loop that ends its waits at once, in their order.

What a busy machine does in between takes no time, so that timeouts of milliseconds never come too early.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from whydrop.monitoring.switches.schedule import SECOND_NS

T = TypeVar("T")

START_NS = 1_700_000_000 * SECOND_NS


class _Selector(selectors.DefaultSelector):
    """Where nothing comes any more it lets the time pass for which it would have waited."""

    def __init__(self, idle: Callable[[], bool]) -> None:
        super().__init__()
        self.idle, self.passed_s = idle, 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        while True:
            # In this order: what a peer has answered until it was idle is here to be read.
            idle = self.idle()
            ready = super().select(0)
            if ready:
                return ready
            if idle:
                self.passed_s += max(0.0, timeout)
                return []
            ready = super().select(0.001)
            if ready:
                return ready


class Loop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which passes only while ``idle`` says that no peer is at work."""

    def __init__(self, idle: Callable[[], bool]) -> None:
        self.passing = _Selector(idle)
        super().__init__(self.passing)

    def time(self) -> float:
        return self.passing.passed_s


def run(coroutine: Coroutine[Any, Any, T], idle: Callable[[], bool] = lambda: True) -> T:
    """As ``asyncio.run``, in virtual time."""
    with asyncio.Runner(loop_factory=lambda: Loop(idle)) as runner:
        return runner.run(coroutine)


@dataclass
class VirtualClock:
    """The clocks of a machine in virtual time; the wall clock is ahead by what tests set."""

    ahead_ns: int = 0
    begin_ns: int = field(default=START_NS)

    def wall_ns(self) -> int:
        return self.begin_ns + self.steady_ns() + self.ahead_ns

    def steady_ns(self) -> int:
        return round(asyncio.get_running_loop().time() * SECOND_NS)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
