"""A study as files: pictures, one page, and all tables; each is there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.studies.folder import PAGE, PICTURES, TABLES, Folder

if TYPE_CHECKING:
    from whydrop.show.figure import Figure

FORMATS = (*PICTURES, "html", *TABLES)

Progress = Callable[[str, int, int], None]
Step = tuple[str, Callable[[Path], object]]


@dataclass(frozen=True)
class Contents:
    """The files that a study writes.

    Attributes:
        document: what it is: parameters, notes and facts.
        tables: by name.
        figures: by name; those without anything to draw are left out.
        page: makes the page.
    """

    document: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    figures: Mapping[str, Figure]
    page: Callable[[], str]


def write(
    contents: Contents, folder: Path | Folder, formats: Collection[str] = FORMATS, progress: Progress | None = None
) -> list[Path]:
    """Write a study into a folder, which is made if it is not there.

    Tables are written first, so that nothing computed is lost if a picture fails. At the end files of earlier studies
    that this one did not write are removed (see `Folder`).

    Args:
        contents: what is written.
        folder: gets ``report.html``, ``study.json`` (the document and the files), ``figures/NAME.KIND`` and
            ``tables/NAME.KIND``.
        formats: some of ``FORMATS``.
        progress: called with the file, how many are done, and how many there are.

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
    steps = list(_steps(contents, formats))
    written = [into.describe(dict(contents.document))]
    for number, (name, make) in enumerate(steps):
        if progress is not None:
            progress(Path(name).name, number, len(steps))
        written.append(into.write(name, make))
    into.finish()
    return written


def write_table(folder: Folder, name: str, frame: pl.DataFrame, kind: str) -> Path:
    """Write one table of a study, whole or not at all, where :func:`write` puts it; returns its file."""
    return folder.write(f"tables/{name}.{kind}", _table(frame, kind))


def _steps(contents: Contents, formats: Collection[str]) -> Iterator[Step]:
    """The name of every file with what writes it, the most precious first."""
    for name, frame in contents.tables.items():
        for kind in TABLES:
            if kind in formats:
                yield f"tables/{name}.{kind}", _table(frame, kind)
    if "html" in formats:
        yield PAGE, lambda path: path.write_text(contents.page(), encoding="utf-8")
    for name, figure in contents.figures.items():
        for kind in PICTURES:
            if kind in formats:
                yield f"figures/{name}.{kind}", _picture(figure, kind)


def _table(frame: pl.DataFrame, kind: str) -> Callable[[Path], object]:
    return frame.write_parquet if kind == "parquet" else frame.write_csv


def _picture(figure: Figure, kind: str) -> Callable[[Path], object]:
    from whydrop.show import writing

    return lambda path: path.write_bytes(writing.rendered(figure, kind))
