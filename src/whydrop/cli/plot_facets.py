"""Grids of panels by ``whydrop plot``: of recordings by keys of their metadata, of stores by columns of a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending, figures
from whydrop.cli.progress import working
from whydrop.cli.recordings import all_opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whydrop.show.figure import Figure

_STORE = "whydrop-store.json"
_STORE_ONLY = ("x", "y", "mark")
# Options with which other plots combine recordings; grids use panels instead.
_NOT_HERE = {"combine": "--combine", "reduce": "--reduce", "paired": "--paired", "absolute_time": "--absolute-time"}


def wanted(paths: Sequence[Path], options: dict[str, Any]) -> bool:
    """True if the options ask for a grid of panels."""
    of_store = options["table"] is not None or any((path / _STORE).is_file() for path in paths)
    if not of_store and any(options[name] is not None for name in _STORE_ONLY):
        raise click.UsageError("--x, --y and --kind are for the rows of a store; give --table too.")
    meant = of_store or bool(options["figure_by"] or options["panel_by"])
    beside = [option for name, option in _NOT_HERE.items() if options[name]]
    if meant and beside:
        what = "a store" if of_store else "--figure-by or --panel-by"
        raise click.UsageError(f"{beside[0]} does not go with {what}.")
    return meant


def run(
    paths: Sequence[Path],
    plot: str | None,
    kind: str,
    output: Path | None,
    options: dict[str, Any],
    *,
    legend: bool,
    size: tuple[int, int] | None,
    title: str | None,
) -> int:
    """Draw the grids; returns the exit status."""
    from whydrop.recording.comparing.grouping import CannotGroup
    from whydrop.recording.errors import RecordingError
    from whydrop.recording.metrics.reducing import UnknownReducer
    from whydrop.show.facets import numbers
    from whydrop.show.figure import NothingToDraw
    from whydrop.show.plots.catalogue import PlotError

    # Only stores need an engine, and importing one takes a while.
    errors: tuple[type[BaseException], ...] = (
        NothingToDraw, CannotGroup, RecordingError, OSError, ValueError,
    )  # fmt: skip
    of_store = options["table"] is not None or any((path / _STORE).is_file() for path in paths)
    if of_store:
        from whydrop.store.engines import BackendError

        errors = (*errors, BackendError)
    try:
        with working("Drawing"):
            made = _of_store(paths, options) if of_store else _of_recordings(paths, plot, options)
        files = _paths(paths[0], [figure.key for figure in made], kind, output)
        for figure, path in zip(made, files, strict=True):
            figures.write(figure.titled(title), path, kind, numbers, legend=legend, size=size)
    except (PlotError, UnknownReducer) as reason:
        raise click.UsageError(ending.printable(str(reason))) from None
    except errors as reason:
        return ending.status(reason)
    return 0


def _of_store(paths: Sequence[Path], options: dict[str, Any]) -> list[Figure]:
    from whydrop.show.facets import of_store
    from whydrop.store.engines import open_backend
    from whydrop.store.tables import TABLES

    if len(paths) != 1:
        raise click.UsageError("A store is drawn alone: give one folder or prefix.")
    table = options["table"]
    if table is None:
        raise click.UsageError(f"{ending.printable(str(paths[0]))!r} is a store: give --table {', '.join(TABLES)}.")
    y = options["y"] or ("value" if "value" in TABLES.get(table, ()) else None)
    if y is None and table in TABLES:
        raise click.UsageError(f"--y: which column of {table}? It has {', '.join(TABLES[table])}.")
    made = of_store.Options(
        table=table,
        y=y or "",
        x=options["x"] or "",
        figure_by=options["figure_by"],
        panel_by=options["panel_by"],
        group_by=options["keys"],
        filters=options["filters"],
        kind=options["mark"] or "points",
        log=options["log"],
    )
    # Path() drops one slash of s3://bucket.
    location = re.sub(r"^(\w{2,}):/(?!/)", r"\1://", str(paths[0]))
    with open_backend(location) as backend:
        return of_store.facets(backend, made)


def _of_recordings(paths: Sequence[Path], plot: str | None, options: dict[str, Any]) -> list[Figure]:
    from whydrop.api.plotting import chosen
    from whydrop.cli.plot_options import plot_options
    from whydrop.show.facets import of_recordings

    opened = all_opened(paths)
    keys = of_recordings.Keys(options["figure_by"], options["panel_by"], options["keys"])
    made = plot_options(options)
    return [
        figure for name, spec in chosen(plot, opened) for figure in of_recordings.facets(name, spec, opened, keys, made)
    ]


def _paths(first: Path, keys: Sequence[str], kind: str, output: Path | None) -> list[Path]:
    """The file of each picture, all different; values of columns cannot lead to other folders."""
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
