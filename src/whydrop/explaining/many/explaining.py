"""Captures explained into a store, on this machine: what is there already is not done again, and nothing stops it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.explaining.many.workers import CostLimits, Outcome, explained
from whydrop.runtime import long_calls

if TYPE_CHECKING:
    import polars as pl

    from whydrop.store.store import Store

# Rows are written when there are those of so many captures, or after so long: that much is lost in a crash.
BATCH_CAPTURES = 500
BATCH_S = 20.0

Progress = Callable[["Tally"], None]


@dataclass
class Tally:
    """How far it is, and what came out."""

    captures: int = 0  # to explain, in all
    bytes: int = 0
    done: int = 0
    bytes_done: int = 0
    known: int = 0
    retries: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    truncated: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)  # path, why
    unreadable: list[str] = field(default_factory=list)
    packets: int = 0
    lost: int = 0

    def take(self, outcome: Outcome, size: int) -> None:
        """Count one capture's outcome."""
        self.done += 1
        self.bytes_done += size
        self.retries += outcome.retries
        if outcome.status == "known":
            self.known += 1
        elif outcome.status == "unreadable":
            self.unreadable.append(outcome.message or str(outcome.path))
        elif outcome.status == "failed":
            self.failures.append((str(outcome.path), outcome.message or ""))
        else:
            row = outcome.frames["captures"].row(0, named=True)
            self.causes[row["cause"] or "none"] += 1
            self.truncated += row["status"] == "truncated"
            self.packets += row["packets"]
            self.lost += row["lost"]


def known_captures(store: Store, version: str, *, failed: bool = True) -> tuple[set[str], set[tuple[str, int, int]]]:
    """The SHA-256 of the captures that this version has explained, and of which files (path, bytes, time) they were.

    Args:
        store: where the rows are.
        version: of whydrop.
        failed: whether those count that could not be analysed.
    """
    import polars as pl

    wanted = (pl.col("whydrop") == version) & (pl.lit(failed) | (pl.col("status") != "failed"))
    rows = store.read(
        "captures", lambda captures: captures.filter(wanted).select("capture", "path", "file_bytes", "modified_ns")
    )
    return set(rows["capture"]), set(rows.select("path", "file_bytes", "modified_ns").iter_rows())


def explain_into(
    store: Store,
    paths: Sequence[Path],
    *,
    explain: Callable[[Iterable[Path], set[str]], Iterator[Outcome]] | None = None,
    workers: int | None = None,
    limits: CostLimits | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Tally:
    """Explain captures, and put what is found into the store's tables captures, flows, transfers and verdicts.

    Captures that this version of whydrop has explained before are left out: a file with the path, size and time of
    change of a row is not even read. Rows are in the store at the latest `BATCH_S` seconds after they are known; an
    interrupted run goes on where it was. Whatever ends this function, what was explained is written first.

    Args:
        store: where rows go.
        paths: captures.
        explain: who explains them: by default worker processes on this machine, see `workers.explained`.
        workers: how many of those.
        limits: what one capture may cost them.
        retry_failed: whether captures that could not be analysed before are tried again.
        progress: called with the tally after each capture.

    Raises:
        StoreError: rows cannot be written.
    """
    from whydrop._core import __version__
    from whydrop.explaining.many.rows import printed

    known, files = known_captures(store, __version__, failed=not retry_failed)
    sizes = {path: _size(path) for path in paths}
    tally = Tally(len(paths), sum(size for size, _ in sizes.values()))
    todo = []
    for path in paths:
        if (printed(path), *sizes[path]) in files:
            tally.take(Outcome(path, "known"), sizes[path][0])
        else:
            todo.append(path)
    # The largest first, so that no processor is left alone with it at the end.
    todo.sort(key=lambda path: -sizes[path][0])
    batch, taken = _Batch(store), set[str]()
    explain = explain or (lambda these, those: explained(these, those, workers=workers, limits=limits))
    try:
        with closing(explain(todo, known)) as outcomes:  # type: ignore[type-var]
            for ready in outcomes:
                outcome = _once(ready, taken)
                tally.take(outcome, sizes.get(outcome.path, (0, 0))[0])
                batch.add(outcome)
                if progress is not None:
                    progress(tally)
    finally:
        # After a second Ctrl-C the writing still goes on.
        if not batch.being_written:
            batch.write()
    return tally


def _once(outcome: Outcome, taken: set[str]) -> Outcome:
    """The outcome; of a copy, that it is known: executors of a cluster do not know of each other's captures."""
    if "captures" not in outcome.frames:
        return outcome
    capture = outcome.frames["captures"]["capture"][0]
    if capture in taken:
        return Outcome(outcome.path, "known", retries=outcome.retries)
    taken.add(capture)
    return outcome


def _size(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


class _Batch:
    """Rows of several captures, so that the store gets few files."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.being_written = False
        self._empty()

    def _empty(self) -> None:
        self.frames: dict[str, list[pl.DataFrame]] = {}
        self.captures = 0
        self.since = time.monotonic()

    def add(self, outcome: Outcome) -> None:
        for table, frame in outcome.frames.items():
            self.frames.setdefault(table, []).append(frame)
        self.captures += bool(outcome.frames)
        if self.captures >= BATCH_CAPTURES or time.monotonic() - self.since > BATCH_S:
            self.write()

    def write(self) -> None:
        """Write all rows; Ctrl-C has its effect behind that."""
        long_calls.completed(self._write)

    def _write(self) -> None:
        """Captures come last: a capture with a row in that table has all its rows in the others."""
        import polars as pl

        self.being_written = True
        try:
            for table in sorted(self.frames, key="captures".__eq__):
                self.store.add(table, pl.concat(self.frames[table]))
            self._empty()
        finally:
            self.being_written = False
