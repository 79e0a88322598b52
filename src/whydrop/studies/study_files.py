"""A study as files: pictures, one page, and all tables; each is there whole or not at all.

``study.json`` lists under ``files`` the SHA-256 of every file that was written. A file is ours if its content is one
that we wrote: files that a person put there, or changed, are never touched. A digest is listed before the file gets its
name, so that after a crash no file of ours is unknown; ``finished`` is false from the first file until the last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.runtime import durable
from whydrop.show import pictures
from whydrop.text import csv

if TYPE_CHECKING:
    from whydrop.show.figure import Figure

DOCUMENT = "study.json"
PAGE = "report.html"
TABLES = ("parquet", "csv")
FORMATS = (*pictures.FORMATS, "html", *TABLES)

# Names that a study gives; a list of others (a damaged or a hostile one) must not have anything removed.
_OURS = re.compile(rf"figures/\w+\.({'|'.join(pictures.FORMATS)})|tables/\w+\.({'|'.join(TABLES)})|{re.escape(PAGE)}")
_LARGEST_BYTES = 10_000_000

Progress = Callable[[str, int, int], None]
Step = tuple[str, Callable[[Path], object]]


class Folder:
    """A study's folder while it is written.

    Args:
        path: need not exist yet.
        document: what is known of the study before its first table is.

    Attributes:
        removed: files of earlier studies that this one did not write, and that are gone now.
        left: files that are named as ours are, but are not, or were changed since; they are still there.
    """

    def __init__(self, path: Path, document: dict[str, Any] | None = None) -> None:
        self.path = path
        self.removed: list[str] = []
        self.left: list[str] = []
        self._document = document or {}
        self._known = _listed(path / DOCUMENT)
        self._written: dict[str, str] = {}

    @property
    def begun(self) -> bool:
        """True if a file of this study is there."""
        return bool(self._written)

    def write(self, name: str, make: Callable[[Path], object]) -> Path:
        """Have ``make`` fill the file ``name``, which is there whole or not at all; returns its path.

        Raises:
            OSError: it cannot be written.
        """
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)

        def fill(temporary: Path) -> None:
            make(temporary)
            self._written[name] = _digest(temporary)
            self._known.setdefault(name, []).append(self._written[name])
            self._list(finished=False)

        if name not in self._known:
            # What a crash leaves of a file that was not finished is to be known too.
            self._known[name] = []
            self._list(finished=False)
        durable.write_by(path, fill)
        return path

    def describe(self, document: dict[str, Any]) -> Path:
        """Write what the study is; returns the file.

        Raises:
            OSError: it cannot be written.
        """
        self._document = document
        self._list(finished=False)
        return self.path / DOCUMENT

    def finish(self) -> None:
        """Remove what earlier studies wrote and this one did not, and say that the study is complete.

        Raises:
            OSError: a file cannot be removed, or the list not be written.
        """
        for name in sorted({*self._known, *self._named_as_ours()} - set(self._written)):
            self._clear(name)
        self._known = {name: [digest] for name, digest in self._written.items()}
        self._list(finished=True)

    def _clear(self, name: str) -> None:
        path = self.path / name
        if name in self._known:
            path.with_name(path.name + durable.TEMPORARY_SUFFIX).unlink(missing_ok=True)
        if path.is_file() and not path.is_symlink() and _digest(path) in self._known.get(name, ()):
            path.unlink()
            self.removed.append(name)
            with contextlib.suppress(OSError):  # other files are in it
                path.parent.rmdir()
        elif path.exists() or path.is_symlink():
            self.left.append(name)

    def _named_as_ours(self) -> Iterable[str]:
        paths = [self.path / PAGE, *(self.path / "figures").glob("*"), *(self.path / "tables").glob("*")]
        names = (path.relative_to(self.path).as_posix() for path in paths)
        return [name for name in names if _OURS.fullmatch(name)]

    def _list(self, *, finished: bool) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        document = {**self._document, "finished": finished, "files": dict(sorted(self._known.items()))}
        text = json.dumps(document, ensure_ascii=False, indent=2, default=str) + "\n"
        durable.write_bytes(self.path / DOCUMENT, text.encode())


def _listed(path: Path) -> dict[str, list[str]]:
    """The digests of files that earlier studies wrote; none where that is not known."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return {}
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, dict):
        return {}
    return {
        name: [digest for digest in digests if isinstance(digest, str)]
        for name, digests in files.items()
        if _OURS.fullmatch(name) and isinstance(digests, list)
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        for kind in pictures.FORMATS:
            if kind in formats:
                yield f"figures/{name}.{kind}", _picture(figure, kind)


def _table(frame: pl.DataFrame, kind: str) -> Callable[[Path], object]:
    return frame.write_parquet if kind == "parquet" else csv.safe(frame).write_csv


def _picture(figure: Figure, kind: str) -> Callable[[Path], object]:
    from whydrop.show import writing

    return lambda path: path.write_bytes(writing.rendered(figure, kind))
