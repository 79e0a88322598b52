"""Watches this host's connections and writes a recording, or several in a row over days."""

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

from whydrop.monitoring.sockets.connections import Connections
from whydrop.monitoring.sockets.events import Events, Noted
from whydrop.monitoring.sockets.host import AUTO, Dropped, Host, datagram_counters
from whydrop.monitoring.sockets.sampler import INTERVAL_S, Sampler, Taken
from whydrop.monitoring.sockets.selection import Wanted
from whydrop.recording.writer import RecordingWriter, folder_for
from whydrop.runtime.cancelling import Cancellation, deferred

# Samples are durable at least this often; a watch that is killed loses no more.
_FLUSH_EVERY_S = 0.5
# A recording is assembled in memory when it ends: about 300 MB for so many rows.
_MOST_ROWS = 1_000_000
NAME = "watch"


@dataclass(frozen=True)
class Settings:
    """The settings of a watch.

    Attributes:
        wanted: the connections.
        every_s: time between polls.
        output: the folder for the recordings.
        datagrams: watch the queues of UDP sockets too.
        counters_every_s: time between readings of this host's counters of drops and errors; 0: never.
        drops: the method of watching the packets that this host drops (`host.METHODS`).
        events: record TCP's events in the kernel, where it allows that.
        rotate_s: begin another recording after this time; ``None``: never.
        keep: keep this many recordings and remove the oldest ones; ``None``: keep all.
    """

    wanted: Wanted
    every_s: float = 0.1
    output: Path = Path()
    title: str = ""
    note: str = ""
    datagrams: bool = False
    counters_every_s: float = 1.0
    drops: str = AUTO
    events: bool = False
    rotate_s: float | None = None
    keep: int | None = None


@dataclass
class Tally:
    """Counts of the polls.

    Attributes:
        missed: polls that were due and were not made.
        cpu_ns: CPU time of the polls.
        lost_rows: rows dropped because the disk did not take them in time.
        ends_lost: moments at which the kernel could not report all connections that ended.
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
        """The share of one processor that the polls took."""
        if self.first_ns is None or self.last_ns is None or self.last_ns <= self.first_ns:
            return None
        return self.cpu_ns / (self.last_ns - self.first_ns)


@dataclass
class Watched:
    """The outcome of a watch.

    Attributes:
        folders: the recordings, in order, without those that were removed.
        connections: the number of connections seen.
        dropped: the drops of this host.
        events: of TCP in the kernel.
        whole: whether all recordings could be finished; the journal of one that could not has its rows.
        warnings: for the reader.
    """

    folders: list[Path]
    connections: int
    tally: Tally
    dropped: Dropped
    events: Noted
    whole: bool = True
    warnings: list[str] = field(default_factory=list)


class Watch:
    """One watch, from the first poll to the finished recording.

    Attributes:
        connections: the open ones.
        host: the drops of this host, and its counters.
        events: of TCP in the kernel.
        tally: counts of the polls so far.
        warnings: for the reader.
    """

    def __init__(self, settings: Settings, say: Callable[[str], None] = lambda _: None) -> None:
        """Prepare a watch; ``say`` is called with each problem, for the user."""
        self.settings = settings
        self.connections = Connections()
        self.host = Host(settings.counters_every_s, settings.drops)
        self.events = Events(settings.wanted, settings.every_s, active=settings.events)
        self.tally = Tally()
        self.warnings: list[str] = []
        self._say = say
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
        """Watch until the end, a cancellation or Ctrl-C; then finish the recording.

        Args:
            over: called about twice a second; True ends the watch.
            begun: called when the sampler runs.
            tick: called about twice a second with the samples, after they are written.

        Raises:
            SamplingError: the kernel does not list its sockets.
            RecordingError: the recording cannot be written at all.
        """
        cancellation = cancellation or Cancellation()
        with deferred() as signals, ExitStack() as let_go:
            self._sampler = Sampler(self.settings.wanted, self.settings.every_s, datagrams=self.settings.datagrams)
            let_go.callback(self._sampler.stop)
            let_go.callback(self.host.stop)
            let_go.callback(self.events.stop)
            self.host.start()
            self.events.start()
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
            self.events.stop()
            self._step()
            return self._finish()

    def _close(self) -> None:
        self._writer.close()

    def is_alone(self) -> bool:
        """True if all selected processes and their connections have ended."""
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
                "rows were lost, because they could not be written in time: use a longer --interval, or select fewer "
                "connections"
            )
        if standing["ends_lost"]:
            self._warn(
                "connections ended faster than the kernel could report them: the last counts of some are missing"
            )
        for warning in (*self.host.warnings(), *self.events.warnings()):
            self._warn(warning)

    def _write(self, taken: Taken) -> None:
        events = self.events.take(taken)
        flows = self.connections.take(taken)
        written = [("flows", flows), *((name, frame) for name, frame in taken.frames.items() if name != "datagrams")]
        if "datagrams" in taken.frames:
            written.append(("counters", datagram_counters(taken.frames["datagrams"])))
        written += self.host.take()
        if events.height:
            written.append(("tcp_events", events))
        for name, frame in written:
            self._writer.append(name, frame)
            self._rows += frame.height

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)
            self._say(warning)

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
                "title": "Connections of this host, as its kernel reports them",
                "step_s": max(settings.every_s, INTERVAL_S),
                "parameters": {
                    "every_s": settings.every_s,
                    "wanted": said,
                    "datagrams": settings.datagrams,
                    **self.host.metadata(),
                    **self.events.metadata(),
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
        # A thread of its own finishes the former recording; sampling goes on.
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
            # The journal has all rows, and can be read.
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
        folders, seen = list(self._folders), self.connections.seen
        return Watched(folders, seen, self.tally, self.host.dropped, self.events.noted, self._whole, self.warnings)
