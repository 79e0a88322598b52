"""Hands readings from the polls to the outputs, in a thread of its own: no tick waits for arithmetic."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.readings import Reading

if TYPE_CHECKING:
    import polars as pl

    from whydrop.monitoring.switches.exporter import Exporter
    from whydrop.monitoring.switches.keeper import Keeper
    from whydrop.monitoring.switches.pending import LastReading


class Delivery:
    """Computes the growth of counters from readings, and hands both on.

    Args:
        interval_ns: between polls.
        outputs: each gets every reading, even if another output fails.
        say: takes one line when an output fails, and when it works again.
        before: the last reading of each switch by an earlier collector.
    """

    def __init__(
        self,
        interval_ns: int,
        outputs: Sequence[Keeper | Exporter],
        say: Callable[[str], None] | None = None,
        before: Mapping[str, LastReading] | None = None,
    ) -> None:
        self._counting = Counting(interval_ns, before)
        self._outputs = outputs
        self._say = say or (lambda _line: None)
        self._queue: queue.SimpleQueue[Reading | None] = queue.SimpleQueue()
        self._failing: dict[object, str] = {}
        self._thread = threading.Thread(target=self._work, name="whydrop delivery")
        self._thread.start()

    def take(self, reading: Reading) -> None:
        """Hand on a reading; those of one switch in the order of their ticks."""
        self._queue.put(reading)

    @property
    def behind(self) -> int:
        """The number of readings that the outputs have not taken yet."""
        return self._queue.qsize()

    def close(self) -> bool:
        """Hand on all readings, and close every output.

        Returns:
            False if an output lost something, which is said.
        """
        self._queue.put(None)
        self._thread.join()
        kept = True
        for output in self._outputs:
            try:
                output.close()
            except Exception as reason:
                kept = False
                self._say(str(reason))
        return kept

    def _work(self) -> None:
        while (reading := self._queue.get()) is not None:
            try:
                samples = self._counting.samples(reading)
            except Exception as reason:
                self._failed(self._counting, reason)
                continue
            for output in self._outputs:
                self._hand_on(output, reading, samples)

    def _hand_on(self, output: Keeper | Exporter, reading: Reading, samples: pl.DataFrame) -> None:
        try:
            output.take(reading, samples)
        except Exception as reason:
            self._failed(output, reason)
            return
        if self._failing.pop(output, None) is not None:
            self._say(f"{type(output).__name__}: works again")

    def _failed(self, part: object, reason: Exception) -> None:
        """Say what failed, once for as long as the reason is the same."""
        line = f"{type(part).__name__}: {type(reason).__name__}: {reason}"
        if self._failing.get(part) != line:
            self._say(line)
        self._failing[part] = line
