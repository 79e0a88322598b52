"""Watching this host's connections, and keeping what is seen as a recording; for days, as several in a row."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.collect.sockets.connections import Connections
from whydrop.collect.sockets.host import AUTO, Dropped, Host, datagram_counters
from whydrop.collect.sockets.sampling import INTERVAL_S, Sampler, Taken
from whydrop.collect.sockets.wanted import Wanted
from whydrop.recording.naming import folder_for
from whydrop.recording.writer import RecordingWriter
from whydrop.runtime.cancelling import Cancellation, deferred

# Samples are durable at least this often; a killed watch loses no more.
_FLUSH_EVERY_S = 0.5
# A recording is put together in memory when it ends: some 300 MB for so many rows.
_MOST_ROWS = 1_000_000
NAME = "watch"


@dataclass(frozen=True)
class Settings:
    """How to watch.

    Attributes:
        wanted: which connections.
        every_s: from one poll to the next.
        output: the folder in which the recordings' folders are made.
        datagrams: the queues of UDP sockets too.
        counters_every_s: from one reading of this host's counters of drops and errors to the next; 0: none.
        drops: how the packets that this host drops are watched (`host.WAYS`).
        rotate_s: a recording that is this old is ended, and another one begun; ``None``: none is.
        keep: recordings of this watch, the oldest is removed where there would be more; ``None``: all are kept.
    """

    wanted: Wanted
    every_s: float = 0.1
    output: Path = Path()
    title: str = ""
    note: str = ""
    datagrams: bool = False
    counters_every_s: float = 1.0
    drops: str = AUTO
    rotate_s: float | None = None
    keep: int | None = None


@dataclass
class Tally:
    """Counts of the polls.

    Attributes:
        missed: polls that were due and were not made.
        cpu_ns: processor time that they took.
        lost_rows: that were thrown away because the disk took nothing for long.
        ends_lost: moments at which the kernel could not tell of all the connections that ended.
    """

    polls: int = 0
    missed: int = 0
    cpu_ns: int = 0
    sockets: int = 0
    lost_rows: int = 0
    ends_lost: int = 0
    first_ns: int | None = None
    last_ns: int | None = None

    def add(self, polls: pl.DataFrame | None) -> None:
        """Count polls."""
        if polls is None or not polls.height:
            return
        self.polls += polls.height
        self.missed += int(polls["missed"].sum())
        self.cpu_ns += int(polls["cpu_ns"].sum())
        self.sockets += int(polls["sockets"].sum())
        self.first_ns = self.first_ns or int(polls["start_ns"][0])
        self.last_ns = int(polls["end_ns"][-1])

    @property
    def cpu_share(self) -> float | None:
        """Of one processor, by the polls alone."""
        if self.first_ns is None or self.last_ns is None or self.last_ns <= self.first_ns:
            return None
        return self.cpu_ns / (self.last_ns - self.first_ns)


@dataclass
class Watched:
    """The outcome of a watch.

    Attributes:
        folders: the recordings, in order; those that were removed are not among them.
        connections: that were seen.
        dropped: by this host.
        whole: whether all recordings could be finished; else a journal has what one could not take.
        warnings: what a reader should know.
    """

    folders: list[Path]
    connections: int
    tally: Tally
    dropped: Dropped
    whole: bool = True
    warnings: list[str] = field(default_factory=list)


class Watch:
    """One watch, from the first poll to the finished recording.

    Attributes:
        connections: those that are there.
        host: what this host drops, and its counters.
        tally: what the polls came to so far.
        warnings: what a reader should know.
    """

    def __init__(self, settings: Settings, tell: Callable[[str], None] = lambda _: None) -> None:
        """``tell`` is called with what goes wrong meanwhile, for people."""
        self.settings = settings
        self.connections = Connections()
        self.host = Host(settings.counters_every_s, settings.drops)
        self.tally = Tally()
        self.warnings: list[str] = []
        self._tell = tell
        self._folders: list[Path] = []
        self._rows = 0
        self._whole = True
        self._finishing: threading.Thread | None = None

    def run(
        self,
        over: Callable[[], bool] = lambda: False,
        *,
        begun: Callable[[], None] = lambda: None,
        tick: Callable[[Watch, Taken], None] = lambda *_: None,
        cancellation: Cancellation | None = None,
    ) -> Watched:
        """Watch until it is over, is cancelled, or Ctrl-C comes; then finish the recording.

        Args:
            over: asked about twice a second whether it is over.
            begun: called when the first poll is on its way.
            tick: called about twice a second with what was seen, when it is written.

        Raises:
            SamplingError: the kernel does not tell of its sockets.
            RecordingError: the recording cannot be written at all.
        """
        cancellation = cancellation or Cancellation()
        with deferred() as signals, ExitStack() as let_go:
            self._sampler = Sampler(self.settings.wanted, self.settings.every_s, datagrams=self.settings.datagrams)
            let_go.callback(self._sampler.stop)
            let_go.callback(self.host.stop)
            self.host.start()
            self._writer = self._begin()
            let_go.callback(self._close)
            with signals.ending_block():
                begun()
                while not (over() or cancellation.cancelled):
                    with signals.allowed():
                        cancellation.wait(_FLUSH_EVERY_S)
                    tick(self, self._step())
            self._sampler.stop()
            self.host.stop()
            self._step()
            return self._finish()

    def _close(self) -> None:
        self._writer.close()

    def is_alone(self) -> bool:
        """True if all processes that were to be watched are gone, and their connections too."""
        standing = self._sampler.standing()
        return bool(standing["processes_gone"]) and not standing["connections"]

    def _step(self) -> Taken:
        taken = self._sampler.take()
        self._write(taken)
        self._note(taken)
        if not self._writer.flush():
            self._warn(self._writer.message or "the recording cannot be written")
        if self._is_full():
            self._rotate()
        return taken

    def _note(self, taken: Taken) -> None:
        standing = self._sampler.standing()
        self.tally.add(taken.frames.get("polls"))
        self.tally.lost_rows += taken.lost_rows
        self.tally.ends_lost = standing["ends_lost"]
        if standing["problem"]:
            self._warn(f"a poll of the sockets failed: {standing['problem']}")
        if taken.lost_rows:
            self._warn(
                "rows were thrown away, since they could not be written in time: choose a longer --interval, or fewer"
            )
        if standing["ends_lost"]:
            self._warn("more connections ended at once than the kernel could tell: the last counts of some are missing")
        for warning in self.host.warnings():
            self._warn(warning)

    def _write(self, taken: Taken) -> None:
        flows = self.connections.take(taken)
        written = [("flows", flows), *((name, frame) for name, frame in taken.frames.items() if name != "datagrams")]
        if "datagrams" in taken.frames:
            written.append(("counters", datagram_counters(taken.frames["datagrams"])))
        written += self.host.take()
        for name, frame in written:
            self._writer.append(name, frame)
            self._rows += frame.height

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)
            self._tell(warning)

    # Recordings one after the other.

    def _begin(self) -> RecordingWriter:
        from whydrop.measure.host import gather

        started_ns = time.time_ns()
        settings = self.settings
        said = [list(pair) for pair in settings.wanted.said]
        self._started_s, self._rows = time.monotonic(), 0
        metadata: dict[str, Any] = {
            "name": NAME,
            "title": settings.title,
            "note": settings.note,
            "started_ns": started_ns,
            "test": {
                "test": NAME,
                "title": "Connections of this host, as its kernel tells",
                "step_s": max(settings.every_s, INTERVAL_S),
                "parameters": {
                    "every_s": settings.every_s,
                    "wanted": said,
                    "datagrams": settings.datagrams,
                    **self.host.told(),
                },
            },
            "hosts": {"local": gather()},
        }
        writer = RecordingWriter(folder_for(settings.output, NAME, started_ns, settings.title), metadata)
        self._folders.append(writer.folder)
        return writer

    def _is_full(self) -> bool:
        rotate_s = self.settings.rotate_s
        return self._rows >= _MOST_ROWS or (rotate_s is not None and time.monotonic() - self._started_s >= rotate_s)

    def _rotate(self) -> None:
        before = self._writer
        self._end(before)
        self._writer = self._begin()
        self._writer.append("flows", self.connections.begin_again())
        # What goes on must not wait for what is put together.
        self._join()
        self._finishing = threading.Thread(target=self._finish_writer, args=(before,), name="whydrop recording")
        self._finishing.start()

    def _end(self, writer: RecordingWriter) -> None:
        now_ns = self.tally.last_ns or time.time_ns()
        writer.append("flows", self.connections.close(now_ns))
        writer.update({"ended_ns": now_ns, "failures": [], "warnings": list(self.warnings)})

    def _finish_writer(self, writer: RecordingWriter) -> None:
        from whydrop.recording.errors import RecordingError

        place = self._folders.index(writer.folder)
        try:
            self._folders[place] = writer.finish("complete")
        except RecordingError as reason:
            # The journal has it all, and can be read.
            writer.close()
            self._whole = False
            self._warn(str(reason))
        if writer.message is not None:
            self._warn(writer.message)
        keep = self.settings.keep
        while keep is not None and len(self._folders) > max(1, keep):
            shutil.rmtree(self._folders.pop(0), ignore_errors=True)

    def _join(self) -> None:
        if self._finishing is not None:
            self._finishing.join()
            self._finishing = None

    def _finish(self) -> Watched:
        self._join()
        self._end(self._writer)
        self._finish_writer(self._writer)
        return Watched(
            list(self._folders), self.connections.seen, self.tally, self.host.dropped, self._whole, self.warnings
        )
