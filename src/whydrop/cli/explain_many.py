"""``whydrop store explain``: thousands of captures, each explained separately, as tables of a store."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, progress
from whydrop.runtime import cancelling
from whydrop.text.quantities import count, percent, plural

if TYPE_CHECKING:
    from whydrop.explaining.many.explaining import Tally
    from whydrop.explaining.many.workers import CostLimits
    from whydrop.show.document import Document

_MOST_LISTED = 10


def run(
    place: str,
    given: Sequence[Path],
    *,
    backend: str,
    workers: int | None,
    time_s: float | None,
    memory_bytes: float | None,
    retry_failed: bool,
    as_json: bool,
) -> int:
    """Explain captures into the store at ``place``, say what came out, and return the exit status.

    Raises:
        OSError, StoreError, BackendError: files, the store or the cluster cannot be read or written.
    """
    from whydrop.explaining.many import finding
    from whydrop.explaining.many.explaining import explain_into
    from whydrop.explaining.many.workers import CostLimits
    from whydrop.store.store import Store

    found = finding.captures(given)
    if not found.paths and not found.unreadable:
        raise click.UsageError(f"no capture among the {found.other_files} files given: expected pcap or pcapng files.")
    bounds = {"time_s": time_s, "memory_bytes": memory_bytes and int(memory_bytes)}
    limits = CostLimits(**{name: bound for name, bound in bounds.items() if bound is not None})  # type: ignore[arg-type]
    cancelling.import_polars()
    with _cluster(backend, limits, workers) as explain, progress.stepping("Explaining") as advance:
        store = Store.create(place)
        tally = explain_into(
            store, found.paths, explain=explain, workers=workers, limits=limits, retry_failed=retry_failed,
            progress=lambda now: advance(f"{now.done} of {now.captures} captures", now.bytes_done, now.bytes or None),
        )  # fmt: skip
    tally.unreadable.extend(found.unreadable)
    if as_json:
        shown = _as_json(tally, place, found.other_files)
        ending.write_json(shown, indent=1 if sys.stdout.isatty() else None)
    else:
        ending.show(_document(tally, place, found.other_files))
        _print_problems(tally)
    for note in store.notes:
        ending.note(note)
    return 1 if tally.unreadable or tally.failures or store.notes else 0


@contextmanager
def _cluster(backend: str, limits: CostLimits, workers: int | None) -> Iterator[Any]:
    if backend == "local":
        yield None
        return
    from whydrop.explaining.many import spark

    with spark.cluster(backend) as session:
        yield spark.explainer(session, limits, tasks=workers)


def _document(tally: Tally, place: str, other_files: int) -> Document:
    from whydrop.show.document import Column, Document, Facts, Section, Table, Text, parts

    explained = sum(tally.causes.values())
    share = f" ({percent(tally.lost / tally.packets)})" if tally.lost else ""
    packets = f"{plural(tally.packets, 'packet')}, {count(tally.lost)} lost{share}"
    causes = tuple((cause, count(number), percent(number / explained)) for cause, number in tally.causes.most_common())
    others = (
        ("explained before, or copies of others: left out", tally.known),
        ("truncated or damaged: explained up to there", tally.truncated),
        ("failed", len(tally.failures)),
        ("unreadable", len(tally.unreadable)),
        ("no captures: left out", other_files),
        ("further attempts after a process was killed", tally.retries),
    )
    title = f"{plural(explained, 'capture')} explained into {place}"
    hint = f"Tables captures, flows, transfers and verdicts: `whydrop store {place}` shows them."
    shown = parts(
        Table("Main causes", (Column("Cause"), Column("Captures", number=True), Column("Share", number=True)), causes),
        Section("Other files", parts(Facts(tuple((words, count(number)) for words, number in others if number)))),
        Section("", parts(Text(hint if explained or tally.known else ""))),
    )
    return Document(title, (Section(title, parts(Text(packets if explained else ""))), *shown))


def _print_problems(tally: Tally) -> None:
    failures = [f"{path}: {why}" if not why.startswith(path) else why for path, why in tally.failures]
    problems = failures + tally.unreadable
    for problem in problems[:_MOST_LISTED]:
        ending.note(problem)
    if (more := len(problems) - _MOST_LISTED) > 0:
        ending.note(f"and {more} more; the table `captures` names each, with its status and message")


def _as_json(tally: Tally, place: str, other_files: int) -> dict[str, Any]:
    same = ("captures", "known", "truncated", "packets", "lost", "retries", "unreadable")
    return {
        "store": place,
        "explained": sum(tally.causes.values()),
        **{name: getattr(tally, name) for name in same},
        "causes": dict(tally.causes.most_common()),
        "failed": [{"path": path, "message": why} for path, why in tally.failures],
        "other_files": other_files,
    }
