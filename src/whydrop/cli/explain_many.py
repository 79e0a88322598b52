"""``whydrop store explain``: thousands of captures, each explained separately, as tables of a store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import aligned, ending, progress
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.explaining.many.explaining import Tally
    from whydrop.explaining.many.workers import CostLimits

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
        _print(tally, str(place), found.other_files)
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


def _print(tally: Tally, place: str, other_files: int) -> None:
    from whydrop.text import quantities

    explained = sum(tally.causes.values())
    click.echo(ending.printable(f"{_captures(explained)} explained into {place}"))
    if explained:
        share = f" ({quantities.significant(100 * tally.lost / tally.packets)} %)" if tally.lost else ""
        click.echo(f"  {quantities.count(tally.packets)} packets, {quantities.count(tally.lost)} lost{share}")
        click.echo("\nWhat limited them most:")
        for cause, count in tally.causes.most_common():
            click.echo(f"  {count:>7}  {quantities.percent(count / explained):>6}  {cause}")
    others = [
        (tally.known, "explained already (before, or as a copy of another), and left out"),
        (tally.truncated, "truncated or damaged: explained up to there"),
        (len(tally.failures), "failed"),
        (len(tally.unreadable), "could not be read"),
        (other_files, "files that are no captures, left out"),
        (tally.retries, "tries again after a process was killed"),
    ]
    if any(count for count, _ in others):
        click.echo()
    for count, words in others:
        if count:
            click.echo(f"  {count:>7}  {words}")
    failures = [f"{path}: {why}" if not why.startswith(path) else why for path, why in tally.failures]
    problems = failures + tally.unreadable
    for problem in problems[:_MOST_LISTED]:
        click.echo(f"whydrop: {ending.printable(problem)}", err=True)
    if len(problems) > _MOST_LISTED:
        more = len(problems) - _MOST_LISTED
        click.echo(f"whydrop: and {more} more; the table `captures` names each, with its status and message", err=True)
    if explained or tally.known:
        click.echo()
        click.echo(
            aligned.paragraph(f"Tables captures, flows, transfers, verdicts; see them with: whydrop store {place}")
        )


def _captures(count: int) -> str:
    return f"{count} capture{'' if count == 1 else 's'}"


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
