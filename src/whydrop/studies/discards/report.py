"""The study as files: figures, one page that needs neither a network nor scripts, and all tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.discards import figures, page
from whydrop.studies.discards.folder import PAGE, PICTURES, TABLES, Folder

if TYPE_CHECKING:
    from whydrop.show.figure import Figure
    from whydrop.studies.discards.study import Results

FORMATS = (*PICTURES, "html", *TABLES)

Progress = Callable[[str, int, int], None]


def write(
    results: Results, folder: Path | Folder, formats: Collection[str] = FORMATS, progress: Progress | None = None
) -> list[Path]:
    """Write the study into a folder, which is made if it is not there.

    Each file is there whole or not at all. Tables are written first, so that nothing computed is lost if a picture
    fails. Of a figure without any row there is no picture; the page says why. At the end files of earlier studies that
    this one did not write are removed (see `Folder`).

    Args:
        results: what the study found.
        folder: gets ``report.html``, ``study.json`` (parameters, notes, facts and the files), ``figures/NAME.KIND`` and
            ``tables/NAME.KIND``; what all figures draw is the table ``plot``.
        formats: some of ``FORMATS``.
        progress: told the file, how many are done, and how many there are.

    Returns:
        The files, in the order of writing.

    Raises:
        ValueError: a format is not known.
        OSError: a file cannot be written.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise ValueError(f"no format {unknown[0]!r}: expected some of {', '.join(FORMATS)}")
    into = Folder(folder) if isinstance(folder, Path) else folder
    laid_out = figures.facets(results)
    steps = list(_steps(results, laid_out, formats))
    written = [into.describe(_document(results))]
    for number, (name, make) in enumerate(steps):
        if progress is not None:
            progress(Path(name).name, number, len(steps))
        written.append(into.write(name, make))
    into.finish()
    return written


def write_table(folder: Folder, name: str, frame: pl.DataFrame, kind: str) -> Path:
    """Write one table of the study, whole or not at all, where :func:`write` puts it; returns its file."""
    return folder.write(f"tables/{name}.{kind}", _table(frame, kind))


Step = tuple[str, Callable[[Path], object]]


def _steps(results: Results, laid_out: dict[str, Figure], formats: Collection[str]) -> Iterator[Step]:
    """The name of every file with what writes it, the most precious first."""
    tables = {**results.tables, "plot": figures.plot_frame(results)}
    for name, frame in tables.items():
        for kind in TABLES:
            if kind in formats:
                yield f"tables/{name}.{kind}", _table(frame, kind)
    if "html" in formats:
        yield PAGE, lambda path: _page(results, laid_out, path)
    for name, figure in laid_out.items():
        for kind in PICTURES:
            if kind in formats and figures.rows(figure):
                yield f"figures/{name}.{kind}", _picture(figure, kind)


def _table(frame: pl.DataFrame, kind: str) -> Callable[[Path], object]:
    return frame.write_parquet if kind == "parquet" else frame.write_csv


def _picture(figure: Figure, kind: str) -> Callable[[Path], None]:
    from whydrop.show import writing

    return lambda path: _bytes(path, writing.rendered(figure, kind))


def _bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _page(results: Results, laid_out: dict[str, Figure], path: Path) -> None:
    path.write_text(page.page(results, laid_out), encoding="utf-8")


def _document(results: Results) -> dict[str, Any]:
    return {
        "parameters": results.parameters.model_dump(mode="json"),
        "notes": results.notes,
        "facts": results.facts,
    }
