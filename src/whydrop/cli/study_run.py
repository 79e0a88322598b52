"""``whydrop study discards``: compute the study or the list of its tests, print and write the results."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.cli import ending, progress, study_output
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    import polars as pl

    from whydrop.studies.discards.parameters import Parameters
    from whydrop.studies.discards.study import Keep, Results
    from whydrop.studies.study_files import Folder

# Tables that are small enough to read; the sentences come from them.
_IN_DOCUMENT = ("comparisons", "placebo_comparisons", "discard_changes")
SCHEMA = 1


def run(given: dict[str, Any], parameters: Parameters, formats: tuple[str, ...]) -> int:
    """Compute the study, and print it or write it into a folder; returns the exit status."""
    folder = None if given["output"] is None else _folder(given["output"], parameters)

    def study() -> bool:
        results, files = _computed(given, parameters, folder, formats)
        _print(results, folder, as_json=given["as_json"])
        if folder is not None:
            study_output.say_files(folder, files, sys.stderr if given["as_json"] else sys.stdout)
        return not results.facts["failed"] and any(frame.height for frame in results.tables.values())

    return _status(study, folder)


def list_tests(given: dict[str, Any], parameters: Parameters, kind: str) -> int:
    """Print or write the list of tests with the discards during each; returns the exit status."""

    def study() -> bool:
        results, _ = _computed(given, parameters, only=("contacts",))
        _write_tests(results, given, kind)
        return not results.facts["failed"]

    return _status(study, None)


def _status(study: Callable[[], bool], folder: Folder | None) -> int:
    from whydrop.store.engines import BackendError

    cancelling.import_polars()
    try:
        with study_output.said_where(folder):
            return 0 if study() else ending.NOT_ANALYSED
    except (BackendError, OSError) as reason:
        return ending.status(reason)


def _computed(
    given: dict[str, Any],
    parameters: Parameters,
    folder: Folder | None = None,
    formats: tuple[str, ...] = (),
    only: tuple[str, ...] | None = None,
) -> tuple[Results, int]:
    """The results, and how many files were written into the folder."""
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards import study

    with (
        open_backend(given["store"] or "", given["backend"], mapping=given["mapping"]) as backend,
        progress.stepping("Opening the store") as advance,
    ):
        results = study.run(backend, parameters, advance, _keeping(folder, formats), only)
        cancelling.raise_if_received()
        _check_any(results)
        return results, 0 if folder is None else _write_files(results, folder, formats, advance)


def _check_any(results: Results) -> None:
    """Raise the error where no table could be computed: then no file is replaced."""
    from whydrop.store.engines import BackendError

    failed = results.facts["failed"]
    if failed and all(frame.is_empty() for frame in results.tables.values()):
        raise BackendError("; ".join(dict.fromkeys(failed.values())))


def _folder(path: Path, parameters: Parameters) -> Folder:
    from whydrop.studies.study_files import Folder

    return Folder(path, {"parameters": parameters.model_dump(mode="json")})


def _keeping(folder: Folder | None, formats: tuple[str, ...]) -> Keep | None:
    """Write each table as soon as it is computed, as a later one may fail."""
    kind = next((one for one in ("parquet", "csv") if one in formats), None)
    if folder is None or kind is None:
        return None
    from whydrop.studies.discards import report

    def keep(name: str, frame: pl.DataFrame) -> None:
        report.write_table(folder, name, frame, kind)

    return keep


# --- the study ---


def _write_files(results: Results, folder: Folder, formats: tuple[str, ...], advance: progress.Advance) -> int:
    from whydrop.studies.discards import report

    def drawing(what: str, done: int, of: int) -> None:
        advance(f"Writing {what}", done, of)

    return len(report.write(results, folder, formats, drawing))


def _print(results: Results, folder: Folder | None, *, as_json: bool) -> None:
    from whydrop.studies.discards import sentences

    if as_json:
        ending.write_document(json.dumps(document(results), ensure_ascii=False, allow_nan=False))
    elif folder is not None:
        from whydrop.show import terminal
        from whydrop.show.document import Document, Text

        lines = [*(sentences.verdict(results) or sentences.findings(results)), *results.notes]
        terminal.print_document(Document(results.parameters.title, tuple(map(Text, lines))))
    else:
        from whydrop.show import terminal
        from whydrop.studies.discards import document as documents

        terminal.print_document(documents.document(results))


def document(results: Results) -> dict[str, Any]:
    """The study as JSON: its sentences, and the tables of its conclusions."""
    import polars as pl

    from whydrop import _core
    from whydrop.studies.discards import sentences

    classes = results.tables["contact_days"].group_by("class").agg(pl.col("tests").sum())
    return {
        "whydrop": _core.__version__,
        "schema": SCHEMA,
        "study": "discards",
        "parameters": results.parameters.model_dump(mode="json"),
        "summary": sentences.summary(results),
        "notes": results.notes,
        "facts": results.facts,
        "tests": dict(sorted(classes.iter_rows())),
        "rows": {name: frame.height for name, frame in results.tables.items()},
        "tables": {name: study_output.rows_of(results.tables[name]) for name in _IN_DOCUMENT},
    }


# --- the list of tests ---


def _write_tests(results: Results, given: dict[str, Any], kind: str) -> None:
    import polars as pl

    from whydrop.runtime import durable

    frame = results.tables["contacts"]
    if given["classes"]:
        frame = frame.filter(pl.col("class").is_in(given["classes"]))
    content = _WRITERS[kind](frame)
    for note in results.notes:
        print(f"whydrop: {ending.printable(note)}", file=sys.stderr)
    if given["output"] is not None:
        durable.write_bytes(given["output"], content)
        print(f"{ending.printable(str(given['output']))}: {frame.height} tests", file=sys.stderr)
        return
    if kind != "parquet" and sys.stdout.isatty():
        # Names come from files: escape control characters.
        content = "\n".join(map(ending.printable, content.decode().split("\n"))).encode()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _csv(frame: pl.DataFrame) -> bytes:
    return frame.write_csv().encode()


def _json(frame: pl.DataFrame) -> bytes:
    return json.dumps(study_output.rows_of(frame), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _parquet(frame: pl.DataFrame) -> bytes:
    target = io.BytesIO()
    frame.write_parquet(target)
    return target.getvalue()


_WRITERS: dict[str, Callable[[pl.DataFrame], bytes]] = {"csv": _csv, "json": _json, "parquet": _parquet}
