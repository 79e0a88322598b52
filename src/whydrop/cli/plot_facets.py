"""Grids of panels by ``whydrop plot``: of recordings by keys of their metadata, of stores by columns of a table."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending
from whydrop.cli.working import working

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whydrop.show.facets.building import Facets

_STORE = "whydrop-store.json"
_STORE_ONLY = ("x", "y", "mark")
# What other plots do to many recordings; here panels do it.
_NOT_HERE = {"combine": "--combine", "reduce": "--reduce", "paired": "--paired", "absolute_time": "--absolute-time"}


def wanted(paths: Sequence[Path], wishes: dict[str, Any]) -> bool:
    """True if a grid of panels is meant, and not one of the other plots."""
    of_store = wishes["table"] is not None or any((path / _STORE).is_file() for path in paths)
    if not of_store and any(wishes[name] is not None for name in _STORE_ONLY):
        raise click.UsageError("--x, --y and --kind are for the rows of a store; give --table too.")
    meant = of_store or bool(wishes["figure_by"] or wishes["panel_by"])
    beside = [option for name, option in _NOT_HERE.items() if wishes[name]]
    if meant and beside:
        what = "a store" if of_store else "--figure-by or --panel-by"
        raise click.UsageError(f"{beside[0]} does not go with {what}.")
    return meant


def run(
    paths: Sequence[Path],
    plot: str | None,
    kind: str,
    output: Path | None,
    wishes: dict[str, Any],
    *,
    legend: bool,
    size: tuple[int, int] | None,
    title: str | None,
) -> int:
    """Draw what was asked for; returns the exit status."""
    from whydrop.recording.comparing.grouping import CannotGroup
    from whydrop.recording.errors import RecordingError
    from whydrop.recording.metrics.reducing import UnknownReducer
    from whydrop.show.plots.catalogue import PlotError
    from whydrop.show.plots.picture import NothingToDraw

    # Only stores need an engine, and importing one takes a while.
    errors: tuple[type[BaseException], ...] = (
        NothingToDraw, CannotGroup, RecordingError, OSError, ValueError, KeyboardInterrupt,
    )  # fmt: skip
    of_store = wishes["table"] is not None or any((path / _STORE).is_file() for path in paths)
    if of_store:
        from whydrop.store.engines import BackendError

        errors = (*errors, BackendError)
    try:
        with working("Drawing"):
            pictures = _of_store(paths, wishes) if of_store else _of_recordings(paths, plot, wishes)
        files = _paths(paths[0], [facets.key for facets in pictures], kind, output)
        for facets, path in zip(pictures, files, strict=True):
            with working(f"Drawing {ending.printable(facets.key)}"):
                said = _written(facets.titled(title), path, kind, legend=legend, size=size)
            sys.stdout.write(said)
            sys.stdout.flush()
            print(f"whydrop: {ending.printable(facets.footnotes()[0])}", file=sys.stderr)
    except (PlotError, UnknownReducer) as reason:
        raise click.UsageError(ending.printable(str(reason))) from None
    except errors as reason:
        return ending.status(reason)
    return 0


def _of_store(paths: Sequence[Path], wishes: dict[str, Any]) -> list[Facets]:
    from whydrop.show.facets import of_store
    from whydrop.store.engines import open_backend
    from whydrop.store.tables import TABLES

    if len(paths) != 1:
        raise click.UsageError("A store is drawn alone: give one folder or prefix.")
    table = wishes["table"]
    if table is None:
        raise click.UsageError(f"{ending.printable(str(paths[0]))!r} is a store: give --table {', '.join(TABLES)}.")
    y = wishes["y"] or ("value" if "value" in TABLES.get(table, ()) else None)
    if y is None and table in TABLES:
        raise click.UsageError(f"--y: which column of {table}? It has {', '.join(TABLES[table])}.")
    wish = of_store.Wish(
        table=table,
        y=y or "",
        x=wishes["x"] or "",
        figure_by=wishes["figure_by"],
        panel_by=wishes["panel_by"],
        group_by=wishes["keys"],
        filters=wishes["filters"],
        kind=wishes["mark"] or "points",
        log=wishes["log"],
    )
    # A path has lost one of the two strokes of s3://bucket.
    location = re.sub(r"^(\w{2,}):/(?!/)", r"\1://", str(paths[0]))
    with open_backend(location) as backend:
        return of_store.facets(backend, wish)


def _of_recordings(paths: Sequence[Path], plot: str | None, wishes: dict[str, Any]) -> list[Facets]:
    from whydrop.cli.plot_options import chosen_plots, made_wishes
    from whydrop.formats.importing import open_recording
    from whydrop.show.facets import of_recordings

    opened = [open_recording(path) for path in paths]
    keys = of_recordings.Keys(wishes["figure_by"], wishes["panel_by"], wishes["keys"])
    made = made_wishes(wishes)
    return [
        facets
        for name, spec in chosen_plots(plot, opened)
        for facets in of_recordings.facets(name, spec, opened, keys, made)
    ]


def _paths(first: Path, keys: Sequence[str], kind: str, output: Path | None) -> list[Path]:
    """Where pictures are written, no two in one file; values of columns lead nowhere else as parts of names."""
    names: list[str] = []
    for key in keys:
        name = re.sub(r"[^\w.-]+", "-", key).strip("-.")[:80] or "picture"
        again = sum(1 for other in names if other == name or other.startswith(f"{name}~"))
        names.append(f"{name}~{again + 1}" if again else name)
    if output is not None and (len(keys) == 1 or str(output) == "-"):
        return [output] * len(keys)
    if output is not None:
        return [output.with_name(f"{output.stem}-{name}{output.suffix}") for name in names]
    stem = re.sub(r"\.(recording|store|flent(\.gz)?|json(\.gz)?)$", "", first.name) or "store"
    return [Path(f"{stem}-{name}.{kind}") for name in names]


def _written(facets: Facets, path: Path, kind: str, *, legend: bool, size: tuple[int, int] | None) -> str:
    """Write a picture, or its numbers; return what is to be said on standard output."""
    from whydrop.runtime import durable
    from whydrop.show.facets import drawing, numbers

    piped = str(path) == "-"
    if kind in ("csv", "json"):
        text = (
            numbers.csv_text(facets) if kind == "csv" else json.dumps(numbers.document(facets), allow_nan=False) + "\n"
        )
        if piped:
            return text
        durable.write_bytes(path, text.encode())
    elif piped:
        sys.stdout.buffer.write(drawing.rendered(facets, kind, legend=legend, size=size))
        return ""
    else:
        drawing.write(facets, path, kind, legend=legend, size=size)
    return f"{ending.printable(facets.title or facets.key)}: {ending.printable(str(path))}\n"
