"""Readings on their way from the polls to the outputs, in a thread of its own: no tick waits for arithmetic."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from whydrop.collect.switches.counting import Counting
from whydrop.collect.switches.reading import Reading

if TYPE_CHECKING:
    import polars as pl

    from whydrop.collect.switches.memory import Remembered


class Output(Protocol):
    """An output that keeps readings: the store, files of DISCO."""

    def keep(self, reading: Reading, samples: pl.DataFrame) -> None:
        """Take a poll, made or not, and the rows of ``counters`` that it gave."""
        ...

    def tick(self, now_ns: int) -> None:
        """Do what the time asks for."""
        ...

    def close(self) -> None:
        """Keep everything that is not kept yet."""
        ...


class Observer(Protocol):
    """An observer that shows readings and keeps none: the exporter."""

    def observe(self, reading: Reading, samples: pl.DataFrame) -> None:
        """Take a poll and its rows."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Delivery:
    """Makes samples of readings and hands both on.

    Args:
        interval_ns: between polls.
        outputs: each gets every reading, whatever becomes of it at the others.
        observers: likewise.
        say: takes one line when an output fails, and when it works again.
        before: of each switch, what a collector before this one knew last.
    """

    def __init__(
        self,
        interval_ns: int,
        outputs: Sequence[Output],
        observers: Sequence[Observer] = (),
        say: Callable[[str], None] | None = None,
        before: Mapping[str, Remembered] | None = None,
    ) -> None:
        self._counting = Counting(interval_ns, before)
        self._outputs, self._observers = outputs, observers
        self._say = say or (lambda _line: None)
        self._queue: queue.SimpleQueue[Reading | int | None] = queue.SimpleQueue()
        self._failing: dict[tuple[int, str], str] = {}
        self._thread = threading.Thread(target=self._work, name="whydrop delivery")
        self._thread.start()

    def take(self, reading: Reading) -> None:
        """Hand on a reading; those of one switch in the order of their ticks."""
        self._queue.put(reading)

    def tick(self, now_ns: int) -> None:
        """Let outputs know the time."""
        self._queue.put(now_ns)

    @property
    def behind(self) -> int:
        """How many readings wait."""
        return self._queue.qsize()

    def close(self) -> bool:
        """Hand on all that waits, and close every output.

        Returns:
            Whether each of them says that it kept everything; what one could not keep is said.
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
        for observer in self._observers:
            self._guarded(observer, observer.close)
        return kept

    def _work(self) -> None:
        while (one := self._queue.get()) is not None:
            if isinstance(one, int):
                for output in self._outputs:
                    self._guarded(output, output.tick, one)
            else:
                self._hand_on(one)

    def _hand_on(self, reading: Reading) -> None:
        try:
            samples = self._counting.samples(reading)
        except Exception as reason:
            self._trouble((0, "counting"), reason)
            return
        for output in self._outputs:
            self._guarded(output, output.keep, reading, samples)
        for observer in self._observers:
            self._guarded(observer, observer.observe, reading, samples)

    def _guarded(self, output: object, call: Callable[..., None], *arguments: object) -> None:
        """One output's failure must not cost the others their readings."""
        name = f"{type(output).__name__}.{call.__name__}"
        try:
            call(*arguments)
        except Exception as reason:
            self._trouble((id(output), name), reason)
            return
        if self._failing.pop((id(output), name), None) is not None:
            self._say(f"{name}: works again")

    def _trouble(self, where: tuple[int, str], reason: Exception) -> None:
        """Say what failed, once for as long as it fails alike."""
        line = f"{where[1]}: {type(reason).__name__}: {reason}"
        if self._failing.get(where) != line:
            self._say(line)
        self._failing[where] = line
