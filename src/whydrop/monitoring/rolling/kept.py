"""Kept captures: where they go, how many there may be, and their verdicts, found in another process."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from whydrop.monitoring.rolling.ring import joined
from whydrop.monitoring.rolling.triggers import Fired

PREFIX = "rolled-"
_LONGEST_S = 300.0
_LONGEST_WORDS = 2000


@dataclass
class Kept:
    """A capture that a trigger has kept.

    Attributes:
        number: of this rolling capture, from 1.
        paths: one file; several where the disk was too full to join them.
        kind, why, time_s: of the trigger, the time since the Unix epoch.
        state: ``explaining``, ``explained`` or ``failed``.
        verdict: in a sentence.
        cause: of the verdict; empty if there is none.
        took_s: from the trigger to the verdict.
        problem: why there is no verdict, or why there are several files.
    """

    number: int
    paths: list[str]
    kind: str
    why: str
    time_s: float
    state: str = "explaining"
    verdict: str = ""
    cause: str = ""
    took_s: float | None = None
    problem: str = ""
    size_bytes: int = 0
    _at_s: float = field(default=0.0, repr=False)

    def document(self) -> dict[str, Any]:
        """As values of JSON."""
        return {name: value for name, value in asdict(self).items() if not name.startswith("_")}


class Shelf:
    """The folder of kept captures, and the thread that has them explained."""

    def __init__(self, folder: Path, head_bytes: int, on_change: Callable[[Kept], None]) -> None:
        """Explain from now on; ``on_change`` is called in a thread, when a capture is kept and when it is explained."""
        self.folder = folder
        self.kept: list[Kept] = []
        self._head_bytes = head_bytes
        self._on_change = on_change
        self._waiting: queue.SimpleQueue[tuple[Kept, Path] | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="whydrop explain", daemon=True)
        self._thread.start()

    def place(self, fired: Fired) -> Path:
        """The name of a new file."""
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(fired.time_ns / 1e9))
        name = f"{PREFIX}{moment}.{fired.time_ns // 1_000_000 % 1000:03}Z-{fired.kind}"
        return self.folder / f"{name}.pcapng"

    def holds(self) -> tuple[int, int]:
        """The number and the bytes of the captures in the folder, those of earlier times too."""
        sizes = []
        for path in self.folder.glob(f"{PREFIX}*.pcapng"):
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
        return len(sizes), sum(sizes)

    def add(self, fired: Fired, parts: Sequence[Path], place: Path) -> Kept:
        """Take over the files of a trigger."""
        kept = Kept(
            len(self.kept) + 1, [str(one) for one in parts], fired.kind, fired.words, fired.time_ns / 1e9,
            _at_s=fired.at_s,
        )  # fmt: skip
        self.kept.append(kept)
        self._waiting.put((kept, place))
        return kept

    def close(self, *, waiting: bool) -> None:
        """End; ``waiting`` for the verdicts of all that is kept."""
        self._is_closed = not waiting
        self._waiting.put(None)
        if not waiting and (process := self._process) is not None:
            process.kill()
        self._thread.join()

    def _run(self) -> None:
        while (found := self._waiting.get()) is not None:
            kept, place = found
            parts = [Path(one) for one in kept.paths]
            files = joined(parts, place, self._head_bytes)
            kept.paths = [str(one) for one in files]
            if len(files) > 1:
                kept.problem = "The disk is full: the segments stay as they are."
            with contextlib.suppress(OSError):
                kept.size_bytes = sum(one.stat().st_size for one in files)
            self._on_change(kept)
            self._explain(kept)
            self._on_change(kept)

    def _explain(self, kept: Kept) -> None:
        files = list(map(Path, kept.paths))
        command = [sys.executable, "-m", "whydrop", "explain", "--json"]
        sequence = ["--sequence"] if len(kept.paths) > 1 else []
        if self._is_closed:
            kept.state, kept.problem = "failed", "The rolling capture ended before this was explained."
            return
        try:
            self._process = subprocess.Popen(
                [*command, *sequence, "--", *(str(one.resolve()) for one in files)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                # Ctrl-C of a terminal is for the rolling capture: what it has kept is still explained.
                start_new_session=True,
            )  # fmt: skip
            out, wrong = self._process.communicate(timeout=_LONGEST_S)
            document = json.loads(out)
        except subprocess.TimeoutExpired:
            assert self._process is not None
            self._process.kill()
            self._process.communicate()
            kept.state, kept.problem = "failed", f"The explanation took more than {_LONGEST_S:g} s: open the file."
            return
        except OSError as reason:
            kept.state, kept.problem = "failed", f"whydrop explain does not start: {reason.strerror}"
            return
        except ValueError:
            words = wrong.decode(errors="replace").strip()[-_LONGEST_WORDS:]
            kept.state, kept.problem = "failed", words or "whydrop explain ended without an answer."
            return
        finally:
            self._process = None
        kept.verdict, kept.cause = sentence(document)
        kept.took_s = time.monotonic() - kept._at_s
        kept.state = "explained"


def sentence(document: dict[str, Any]) -> tuple[str, str]:
    """The verdict of an explanation in a sentence, and its cause."""
    verdicts = document["verdicts"]
    if not verdicts:
        return "No packet was lost, and no transfer was long enough to say what limits it.", ""
    further = len(verdicts) - 1
    more = f" ({further} more {'verdict' if further == 1 else 'verdicts'})" if further else ""
    return f"{verdicts[0]['sentence']}{more}", str(verdicts[0]["cause"])
