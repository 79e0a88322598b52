"""Running the study of discards from the command line: progress, what is kept, what is printed and written."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.cli import aligned, ending, study_output
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    import polars as pl

    from whydrop.studies.discards.parameters import Parameters
    from whydrop.studies.discards.study import Keep, Progress, Results
    from whydrop.studies.folder import Folder

# Small enough to be read by a person, and what the sentences are made of.
_IN_DOCUMENT = ("comparisons", "placebo_comparisons", "discard_changes")
SCHEMA = 1


def run(options: dict[str, Any], parameters: Parameters, formats: tuple[str, ...]) -> int:
    """Compute and print or write what was asked for; returns the exit status."""
    from whydrop.store.engines import BackendError

    cancelling.import_polars()
    folder = None if options["list_tests"] or options["output"] is None else _folder(options["output"], parameters)
    try:
        with study_output.said_where(folder):
            return _run(options, parameters, formats, folder)
    except (BackendError, OSError) as reason:
        return ending.status(reason)


def _run(
    options: dict[str, Any],
    parameters: Parameters,
    formats: tuple[str, ...],
    folder: Folder | None,
) -> int:
    from whydrop.store.engines import open_backend
    from whydrop.studies.discards import study

    only = ("contacts",) if options["list_tests"] else None
    with (
        open_backend(options["store"] or "", options["backend"], mapping=options["mapping"]) as backend,
        study_output.showing() as progress,
    ):
        results = study.run(backend, parameters, progress, _keeping(folder, formats), only)
        cancelling.raise_if_received()
        _check_any(results)
        if folder is not None:
            files = _write_files(results, folder, formats, progress)
    if options["list_tests"]:
        _write_tests(results, options, formats[0])
    else:
        _print(results, folder, as_json=options["as_json"])
    if folder is not None:
        study_output.say_files(folder, files, sys.stderr if options["as_json"] else sys.stdout)
    return ending.NOT_ANALYSED if results.facts["failed"] or _nothing(results, only) else 0


def _check_any(results: Results) -> None:
    """Raise what kept every table from being computed: then there is nothing to say, and no file to be replaced."""
    from whydrop.store.engines import BackendError

    failed = results.facts["failed"]
    if failed and all(frame.is_empty() for frame in results.tables.values()):
        raise BackendError("; ".join(dict.fromkeys(failed.values())))


def _nothing(results: Results, only: tuple[str, ...] | None) -> bool:
    """True if there was nothing to study at all."""
    return only is None and all(frame.is_empty() for frame in results.tables.values())


def _folder(path: Path, parameters: Parameters) -> Folder:
    from whydrop.studies.folder import Folder

    return Folder(path, {"parameters": parameters.model_dump(mode="json")})


def _keeping(folder: Folder | None, formats: tuple[str, ...]) -> Keep | None:
    """Write each table as soon as it is there: what comes later may fail, or be interrupted."""
    kind = next((one for one in ("parquet", "csv") if one in formats), None)
    if folder is None or kind is None:
        return None
    from whydrop.studies.discards import report

    def keep(name: str, frame: pl.DataFrame) -> None:
        report.write_table(folder, name, frame, kind)

    return keep


# --- the study ---


def _write_files(results: Results, folder: Folder, formats: tuple[str, ...], progress: Progress) -> int:
    from whydrop.studies.discards import report

    def drawing(what: str, done: int, of: int) -> None:
        progress(f"Writing {what}", done, of)

    return len(report.write(results, folder, formats, drawing))


def _print(results: Results, folder: Folder | None, *, as_json: bool) -> None:
    from whydrop.studies.discards import words

    if as_json:
        ending.write_document(json.dumps(document(results), ensure_ascii=False, allow_nan=False))
    elif folder is not None:
        for line in [*(words.verdict(results) or words.findings(results)), *results.notes]:
            print(aligned.paragraph(line))
    else:
        from whydrop.cli import study_text

        print("\n".join(study_text.lines(results)))


def document(results: Results) -> dict[str, Any]:
    """The study as JSON has it: its sentences, and the tables of its conclusions."""
    import polars as pl

    from whydrop import _core
    from whydrop.studies.discards import words

    classes = results.tables["contact_days"].group_by("class").agg(pl.col("tests").sum())
    return {
        "whydrop": _core.__version__,
        "schema": SCHEMA,
        "study": "discards",
        "parameters": results.parameters.model_dump(mode="json"),
        "summary": words.summary(results),
        "notes": results.notes,
        "facts": results.facts,
        "tests": dict(sorted(classes.iter_rows())),
        "rows": {name: frame.height for name, frame in results.tables.items()},
        "tables": {name: study_output.rows_of(results.tables[name]) for name in _IN_DOCUMENT},
    }


# --- the list of tests ---


def _write_tests(results: Results, options: dict[str, Any], kind: str) -> None:
    import polars as pl

    from whydrop.runtime import durable

    frame = results.tables["contacts"]
    if options["classes"]:
        frame = frame.filter(pl.col("class").is_in(options["classes"]))
    content = _WRITERS[kind](frame)
    for note in results.notes:
        print(f"whydrop: {ending.printable(note)}", file=sys.stderr)
    if options["output"] is not None:
        durable.write_bytes(options["output"], content)
        print(f"{ending.printable(str(options['output']))}: {frame.height} tests", file=sys.stderr)
        return
    if kind != "parquet" and sys.stdout.isatty():
        # Names come from files, and must not command the terminal.
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
