"""``whydrop store explain``: thousands of captures, each explained separately, as tables of a store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, progress
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.explaining.many.explaining import Tally
    from whydrop.explaining.many.workers import CostLimits
    from whydrop.show.document import Document

_MOST_LISTED = 10


def explain_into_store(
    place: Path | str,
    given: Sequence[Path],
    *,
    backend: str | None,
    workers: int | None,
    limits: dict[str, Any],
    retry: bool,
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
    bounds = CostLimits(**{key: value for key, value in limits.items() if value is not None})
    cancelling.import_polars()
    with _cluster(backend, bounds, workers) as explain, _progress() as advance:
        store = Store.create(place)
        tally = explain_into(
            store, found.paths, explain=explain, workers=workers, limits=bounds, retry_failed=retry, progress=advance
        )
    tally.unreadable.extend(found.unreadable)
    if as_json:
        ending.write_document(_document(tally, str(place), found.other_files))
    else:
        from whydrop.show import terminal

        terminal.print_document(_text(tally, str(place), found.other_files))
        _print_problems(tally)
    for note in store.notes:
        click.echo(f"whydrop: {ending.printable(note)}", err=True)
    return 1 if tally.unreadable or tally.failures or store.notes else 0


@contextmanager
def _cluster(backend: str | None, limits: CostLimits, workers: int | None) -> Iterator[Any]:
    if backend in (None, "local"):
        yield None
        return
    from whydrop.explaining.many import spark

    with spark.cluster(str(backend)) as session:
        yield spark.explainer(session, limits, tasks=workers)


@contextmanager
def _progress() -> Iterator[Callable[[Tally], None]]:
    """On a terminal a bar over the captures' bytes, with the time left."""
    with progress.stepping("Explaining") as advance:
        yield lambda tally: advance(f"{tally.done} of {tally.captures} captures", tally.bytes_done, tally.bytes or None)


def _text(tally: Tally, place: str, other_files: int) -> Document:
    from whydrop.show.document import Column, Document, Facts, Section, Table, Text, parts
    from whydrop.text.quantities import count, percent, plural, significant

    explained = sum(tally.causes.values())
    share = f" ({significant(100 * tally.lost / tally.packets)} %)" if tally.lost else ""
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
        click.echo(f"whydrop: {ending.printable(problem)}", err=True)
    if len(problems) > _MOST_LISTED:
        more = len(problems) - _MOST_LISTED
        click.echo(f"whydrop: and {more} more; the table `captures` names each, with its status and message", err=True)


def _document(tally: Tally, place: str, other_files: int) -> str:
    import json

    return json.dumps(
        {
            "store": place,
            "captures": tally.captures,
            "explained": sum(tally.causes.values()),
            "known": tally.known,
            "truncated": tally.truncated,
            "causes": dict(tally.causes.most_common()),
            "packets": tally.packets,
            "lost": tally.lost,
            "retries": tally.retries,
            "failed": [{"path": path, "message": why} for path, why in tally.failures],
            "unreadable": tally.unreadable,
            "other_files": other_files,
        },
        indent=1 if sys.stdout.isatty() else None,
    )
