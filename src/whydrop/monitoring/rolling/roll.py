"""A rolling capture: packets of the last seconds on disk, of which triggers keep a window."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from whydrop.errors import Error, Mistake
from whydrop.monitoring.rolling import filters, pcapng
from whydrop.monitoring.rolling.kept import Kept, Shelf
from whydrop.monitoring.rolling.packet_socket import ANY, PacketSocket
from whydrop.monitoring.rolling.ring import FullError, Ring, remove_abandoned
from whydrop.monitoring.rolling.triggers import EVERY_S, Fired, Triggers, Watching, fired
from whydrop.text.quantities import duration, plural

_WAIT_S = 0.1
_RING = ".rolling-"
_HOUSEKEEPING_S = 0.5


@dataclass(frozen=True)
class Settings:
    """The settings of a rolling capture.

    Attributes:
        interface: its name, or ``any``.
        filter: as :mod:`whydrop.monitoring.rolling.filters` has it; empty: all packets.
        seconds, most_bytes: bounds of the ring on disk.
        snap_bytes: of each packet that are kept.
        after_s: packets are captured for so long after a trigger, before the window is kept.
        hold_off_s: after a trigger, others keep nothing for so long.
        most_kept, most_kept_bytes: bounds of the kept captures in the folder.
        output: the folder of kept captures, and of the ring.
        triggers: those that are set.
    """

    interface: str = ANY
    filter: str = ""
    seconds: float = 30.0
    most_bytes: int = 256_000_000
    snap_bytes: int = 256
    after_s: float = 3.0
    hold_off_s: float = 60.0
    most_kept: int = 20
    most_kept_bytes: int = 2_000_000_000
    output: Path = Path()
    triggers: Triggers = field(default_factory=Triggers)

    def __post_init__(self) -> None:
        """Refuse what no ring can do."""
        for name, value, low, high in (
            ("seconds", self.seconds, 1, 3600),
            ("bytes of the ring", self.most_bytes, 1_000_000, 100_000_000_000),
            ("bytes of each packet", self.snap_bytes, 64, 262_144),
            ("seconds after a trigger", self.after_s, 0, 60),
            ("seconds between triggers", self.hold_off_s, 0, 86_400),
            ("captures kept", self.most_kept, 1, 10_000),
            ("bytes kept", self.most_kept_bytes, 1_000_000, 10_000_000_000_000),
        ):
            if not low <= value <= high:
                raise Mistake(f"{name}: expected {low} to {high}, not {value}")
        if self.after_s >= self.seconds:
            raise Mistake(
                f"seconds after a trigger: expected less than the {self.seconds:g} s that the ring holds, or it would "
                "have lost what was before the trigger"
            )


class Roll:
    """A rolling capture that runs until :meth:`stop`.

    Attributes:
        settings: how it was started.
        problem: what is wrong at this moment; empty if nothing is.
        messages: what was said, the last ones.
    """

    def __init__(self, settings: Settings, on_event: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        """Start; ``on_event`` is called from threads with each kept capture, each verdict and each message.

        Raises:
            whydrop.Error: packets cannot be captured, or the folder cannot be written; the message says what to type.
        """
        self.settings = settings
        self.problem = ""
        self.messages: list[str] = []
        self._tell = on_event
        self._lock = threading.Lock()
        self._pending: Fired | None = None
        self._quiet_until_s = 0.0
        self._no_triggers = ""
        self._skipped = 0
        self._is_skip_said = False
        self._is_over = threading.Event()
        self._seen = self._cpu_ns = 0
        self._figures = {"buffered_s": 0.0, "buffered_bytes": 0, "buffered_packets": 0, "dropped": 0, "unwritten": 0}
        self._began_s = time.monotonic()
        term = filters.read(settings.filter)
        with contextlib.ExitStack() as undo:
            self._socket = PacketSocket(settings.interface, term, settings.snap_bytes)
            undo.callback(self._socket.close)
            head = pcapng.head(self._socket.link_type, settings.snap_bytes + 20, settings.interface)
            self._ring = Ring(_folder(settings.output), head, seconds=settings.seconds, most_bytes=settings.most_bytes)
            undo.callback(self._ring.close)
            self._watching = Watching(settings.triggers, term) if settings.triggers.are_set else None
            self._shelf = Shelf(settings.output, len(head), self._changed)
            undo.pop_all()
        self._threads = [threading.Thread(target=self._capture, name="whydrop roll", daemon=True)]
        if self._watching is not None:
            self._threads.append(threading.Thread(target=self._watch, name="whydrop triggers", daemon=True))
        for one in self._threads:
            one.start()

    def __enter__(self) -> Roll:
        """Itself; the end of the block stops it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop(waiting=kind is None)

    @property
    def kept(self) -> list[Kept]:
        """The captures kept so far, in order."""
        return list(self._shelf.kept)

    def keep(self, why: str = "by hand") -> bool:
        """Keep the window around now; False if it was skipped, which a message says.

        Skipped are those within the time after another trigger, in which its window is still being captured.
        """
        return self._fire(fired("hand", why))

    def status(self) -> dict[str, Any]:
        """Its state as values of JSON."""
        with self._lock:
            pending = self._pending
        elapsed_s = max(1e-9, time.monotonic() - self._began_s)
        return {
            "running": not self._is_over.is_set(),
            "interface": self.settings.interface,
            "filter": self.settings.filter,
            "seconds": self.settings.seconds,
            "most_bytes": self.settings.most_bytes,
            "after_s": self.settings.after_s,
            "hold_off_s": self.settings.hold_off_s,
            "triggers": asdict(self.settings.triggers),
            "packets": self._seen,
            **self._figures,
            "cpu_share": self._cpu_ns / 1e9 / elapsed_s,
            "pending": "" if pending is None else pending.words,
            "skipped": self._skipped,
            "problem": self.problem,
            "messages": self.messages[-5:],
            "kept": [one.document() for one in self.kept],
        }

    def wait(self, time_s: float | None = None) -> bool:
        """Wait until it has ended, no longer than this; True if it has."""
        return self._is_over.wait(time_s)

    def stop(self, *, waiting: bool = True) -> None:
        """End: a trigger that has fired still keeps its window; the ring is removed.

        Args:
            waiting: for the verdicts of everything that is kept.
        """
        self._is_over.set()
        for one in self._threads:
            one.join()
        self._shelf.close(waiting=waiting)

    # --- the thread that captures ---

    def _capture(self) -> None:
        due_s = 0.0
        try:
            while not self._is_over.is_set():
                if self._socket.wait(_WAIT_S):
                    self._take()
                now_s = time.monotonic()
                if now_s >= due_s:
                    due_s = now_s + _HOUSEKEEPING_S
                    self._look_after()
                if self._pending is not None and now_s >= self._pending.at_s + self.settings.after_s:
                    self._keep(self._pending)
            self._take()
            if self._pending is not None:
                self._keep(self._pending)
        except Exception as reason:
            self._is_over.set()
            self.problem = f"the capture ended: {reason}"
            self._say(self.problem)
            if not isinstance(reason, (Error, OSError)):
                raise
        finally:
            self._socket.close()
            self._ring.close()

    def _take(self) -> None:
        for packets in self._socket.take():
            self._seen += len(packets)
            before = self._ring.problem
            self._ring.write(packets)
            if self._ring.problem and not before:
                self._say(
                    f"the ring cannot be written: {self._ring.problem}; what it holds stays until it is too old, and "
                    "packets are counted until there is room"
                )

    def _look_after(self) -> None:
        ring = self._ring
        ring.expire(time.time_ns())
        wrong = self._socket.problem()
        if wrong and wrong != self.problem:
            self._say(wrong)
        self.problem = wrong or ring.problem or self._no_triggers
        self._cpu_ns = time.thread_time_ns()
        self._figures = {
            "buffered_s": ring.buffered_s, "buffered_bytes": ring.size_bytes, "buffered_packets": ring.packets,
            "dropped": self._socket.count_drops(), "unwritten": ring.unwritten,
        }  # fmt: skip

    def _keep(self, now: Fired) -> None:
        place = self._shelf.place(now)
        try:
            parts = self._ring.keep(now.time_ns - round(self.settings.seconds * 1e9), place)
        except FullError as reason:
            self._say(str(reason))
            parts = None
        if parts:
            self._shelf.add(now, parts, place)
        elif parts is not None:
            self._say(f"nothing is kept ({now.words}): no packet was captured")
        with self._lock:
            self._pending = None

    # --- triggers ---

    def _watch(self) -> None:
        assert self._watching is not None
        try:
            while not self._is_over.wait(EVERY_S):
                found = self._watching.look()
                self._no_triggers = self._watching.problem()
                if found is not None:
                    self._fire(found)
        except Exception as reason:
            # The capture goes on, and can be kept by hand.
            self._no_triggers = f"triggers fire no more: {reason}"
            self._say(self._no_triggers)
            if not isinstance(reason, (Error, OSError)):
                raise
        finally:
            self._watching.close()

    def _fire(self, now: Fired) -> bool:
        number, size_bytes = self._shelf.holds()
        with self._lock:
            is_by_hand = now.kind == "hand"
            if self._is_over.is_set():
                why = "the rolling capture has ended"
            elif self._pending is not None:
                why = f"the window of another trigger is being captured ({self._pending.words})"
            elif now.at_s < self._quiet_until_s and not is_by_hand:
                left_s = self._quiet_until_s - now.at_s
                why = f"another trigger fired before; for {duration(left_s)} more, only you can keep captures"
            elif number >= self.settings.most_kept or size_bytes >= self.settings.most_kept_bytes:
                why = f"{plural(number, 'capture')} are kept, as many as may be: remove some from {self._shelf.folder}"
            else:
                self._pending = now
                self._quiet_until_s = now.at_s + self.settings.hold_off_s
                self._is_skip_said = False
                return True
            self._skipped += 1
            # A trigger that goes on fires four times a second: it is said once.
            is_new = is_by_hand or not self._is_skip_said
            self._is_skip_said = True
        if is_new:
            self._say(f"skipped ({now.words}): {why}")
        return False

    def _say(self, words: str) -> None:
        self.messages = [*self.messages[-49:], words]
        self._tell({"message": words})

    def _changed(self, kept: Kept) -> None:
        self._tell({"kept": kept.document()})


def _folder(output: Path) -> Path:
    """A folder for the ring, for this user only; in that of kept captures, so that they need not be copied."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        remove_abandoned(output.glob(f"{_RING}*"))
        return Path(tempfile.mkdtemp(prefix=_RING, dir=output))
    except OSError as reason:
        raise Error(f"the folder {output} cannot be written: {reason.strerror}") from reason


def interfaces() -> list[str]:
    """The interfaces of this host, ``any`` first."""
    return [ANY, *sorted(name for _, name in socket.if_nameindex())]
