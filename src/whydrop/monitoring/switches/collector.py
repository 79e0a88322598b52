"""The collector: asks all switches at each tick. Every tick leaves a reading of each switch, successful or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from whydrop.monitoring.switches.delivery import Delivery
from whydrop.monitoring.switches.readings import Reading
from whydrop.monitoring.switches.schedule import SECOND_NS, Clock, Schedule, Tick
from whydrop.monitoring.switches.snmp import SnmpSource
from whydrop.monitoring.switches.standings import Standings
from whydrop.text import quantities

# The number of switches that are asked at the same time. Each takes a socket, and their answers arrive together: more
# would overflow queues on the path.
AT_ONCE = 512

T = TypeVar("T")
# The time that running polls have to end when the collector stops.
_PATIENCE_S = 5.0

_STILL_BUSY = "skipped: the previous poll (or the search for ports) was still running"
_STOPPED = "the collector was stopped before the answer arrived"
_HELD_UP = "skipped: the collector was not running in time (a busy host, a stopped process, a suspended machine)"


@dataclass
class _Worker:
    """A switch, and its running poll."""

    source: SnmpSource
    task: asyncio.Task[None] | None = None
    settling: asyncio.Task[None] | None = None
    polled: bool = False  # False: the task, if any, is still the source's preparation
    # Ticks that passed in the meantime. They are delivered after the poll: readings come in the order of ticks.
    skipped: list[Reading] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return self.task is not None and not self.task.done()


class Collector:
    """Polls switches until it is stopped.

    Args:
        sources: the switches.
        interval_ns: between ticks, which are the wall clock's multiples of it.
        delivery: gets all readings.
        say: takes one line when something changes.
        clock: for tests.
        watch: called after each change of `standings` and `next_due_ns`.
    """

    def __init__(
        self,
        sources: Sequence[SnmpSource],
        interval_ns: int,
        delivery: Delivery,
        say: Callable[[str], None],
        clock: Clock | None = None,
        watch: Callable[[Collector], None] | None = None,
    ) -> None:
        self.standings = Standings()
        self.standings.expect(source.name for source in sources)
        self.next_due_ns: int | None = None
        self._workers = [_Worker(source) for source in sources]
        self._interval_ns, self._delivery, self._say = interval_ns, delivery, say
        self._clock = clock or Clock()
        self._watch = watch or (lambda _collector: None)
        self._room = asyncio.Semaphore(AT_ONCE)

    @property
    def waiting(self) -> int:
        """The number of readings that the outputs have not taken yet."""
        return self._delivery.behind

    async def run(self, stop: asyncio.Event, duration_s: float | None = None) -> None:
        """Poll until ``stop`` is set, or ``duration_s`` is over; every reading is delivered before it returns."""
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await self._prepared(stopped)
            began_ns = self._clock.steady_ns()
            schedule = Schedule(self._interval_ns, self._clock)
            while not stop.is_set():
                self.next_due_ns = schedule.next_due_ns
                self._watch(self)
                left_s = None
                if duration_s is not None:
                    left_s = duration_s - (self._clock.steady_ns() - began_ns) / SECOND_NS
                tick = await _first_of(stopped, asyncio.ensure_future(schedule.next()), left_s)
                if tick is None:
                    break
                self._at(tick, schedule)
        finally:
            stopped.cancel()
            await self._ended()

    async def _prepared(self, stopped: asyncio.Future[Any]) -> None:
        """Let every source prepare itself. Slow ones go on while the others are polled."""

        async def one(source: SnmpSource) -> None:
            async with self._room:
                await source.prepare()

        for worker in self._workers:
            worker.task = asyncio.create_task(one(worker.source))
        everyone = asyncio.gather(*(worker.task for worker in self._workers if worker.task), return_exceptions=True)
        patience_s = max(_PATIENCE_S, self._interval_ns / SECOND_NS)
        await asyncio.wait((stopped, everyone), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)

    def _at(self, tick: Tick, schedule: Schedule) -> None:
        """Begin the polls of a tick."""
        if tick.stepped_ns:
            self._say(_stepped(tick, schedule.next_due_ns, self._clock.wall_ns()))
        if tick.missed_in_all:
            self._say(f"not running in time: {quantities.plural(tick.missed_in_all, 'tick')} without polls")
        for worker in self._workers:
            worker.skipped += [worker.source.missed(due, _HELD_UP) for due in tick.missed]
            if worker.busy:
                worker.skipped.append(worker.source.missed(tick.due_ns, _STILL_BUSY))
                if not worker.polled:
                    # Preparing may take minutes. No earlier reading can follow, so these need not wait for it.
                    self._flush(worker)
            else:
                worker.polled = True
                worker.task = asyncio.create_task(self._poll(worker, tick.due_ns))

    async def _poll(self, worker: _Worker, due_ns: int) -> None:
        self._flush(worker)
        async with self._room:
            reading = await self._read(worker.source, due_ns)
        self._deliver(reading)
        self._flush(worker)
        if worker.settling is None or worker.settling.done():
            worker.settling = asyncio.create_task(worker.source.settle())
        self._watch(self)

    async def _read(self, source: SnmpSource, due_ns: int) -> Reading:
        try:
            return await source.read(due_ns)
        except asyncio.CancelledError:
            return replace(source.missed(due_ns, _STOPPED), status="error")
        except Exception as reason:
            # A bug in one switch's source must not end the polls of the others.
            return replace(source.missed(due_ns, f"{type(reason).__name__}: {reason}"), status="error")

    def _flush(self, worker: _Worker) -> None:
        skipped, worker.skipped = worker.skipped, []
        for reading in skipped:
            self._deliver(reading)

    def _deliver(self, reading: Reading) -> None:
        self._delivery.take(reading)
        line = self.standings.take(reading)
        if line is not None:
            self._say(line)

    async def _ended(self) -> None:
        """Let running polls end, and deliver the remaining readings."""
        tasks = [worker.task for worker in self._workers if worker.task is not None and not worker.task.done()]
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=_PATIENCE_S)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        settling = [worker.settling for worker in self._workers if worker.settling is not None]
        for task in settling:
            task.cancel()
        await asyncio.gather(*settling, return_exceptions=True)
        for worker in self._workers:
            self._flush(worker)
            worker.source.close()


async def _first_of(
    stopped: asyncio.Future[Any], awaited: asyncio.Future[T], timeout_s: float | None = None
) -> T | None:
    """The result of ``awaited``; nothing where the collector is stopped before, or the time is over."""
    timeout_s = None if timeout_s is None else max(0.0, timeout_s)
    await asyncio.wait((stopped, awaited), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if awaited.done():
        return awaited.result()
    awaited.cancel()
    await asyncio.gather(awaited, return_exceptions=True)
    return None


def _stepped(tick: Tick, next_due_ns: int, now_ns: int) -> str:
    step, wait = (quantities.duration(ns / SECOND_NS) for ns in (abs(tick.stepped_ns), next_due_ns - now_ns))
    if tick.stepped_ns > 0:
        return f"this host's clock was set forward by {step}"
    return f"this host's clock was set back by {step}; the next poll is in {wait}"
