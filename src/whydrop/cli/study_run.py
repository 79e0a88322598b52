"""``whydrop study``: compute a study or the list of its tests, print and write the results."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import whydrop
from whydrop.cli import ending, progress
from whydrop.recording.document import plain
from whydrop.runtime import cancelling
from whydrop.text import csv

if TYPE_CHECKING:
    import polars as pl

    from whydrop.show.document import Document
    from whydrop.store.engines.base import Backend
    from whydrop.studies.discards import parameters, study
    from whydrop.studies.queues import study as queue_study
    from whydrop.studies.study_files import Folder
    from whydrop.studies.tcp import study as tcp_study

# Tables that are small enough to read; the sentences come from them.
_IN_DOCUMENT = ("client_spread", "comparisons", "placebo_comparisons", "discard_changes", "discard_bins")
# Tables of TCP by network can have 100 000 rows: only the files hold them.
_NOT_BY_NETWORK = ("all", "site", "day")
SCHEMA = 1
_MOST_FILES = 6


def discards(given: dict[str, Any], wanted: parameters.Parameters, formats: tuple[str, ...]) -> int:
    """Compute the study of discards, and print it or write it into a folder; returns the exit status."""
    from whydrop.show.document import Document, Text
    from whydrop.studies import study_files
    from whydrop.studies.discards import changes_file, document, sentences

    noted = () if given["changes"] is None else tuple(changes_file.read(given["changes"]))
    folder = results_folder(given["output"], wanted.model_dump(mode="json"))
    # Each table is written as soon as it is computed, as a later one may fail.
    kind = next((one for one in ("parquet", "csv") if one in formats), None)

    def keep(name: str, frame: pl.DataFrame) -> None:
        if folder is not None and kind is not None:
            study_files.write_table(folder, name, frame, kind)

    with opened(given, folder) as (backend, advance):
        results = replace(_computed(backend, wanted, advance, keep=keep), noted=noted)
        files = 0 if folder is None else len(document.write(results, folder, formats, writing(advance)))
    if given["as_json"]:
        ending.write_json(_discards_as_json(results))
    elif folder is not None:
        lines = [*(sentences.verdict(results) or sentences.findings(results)), *results.notes]
        ending.show(Document(results.parameters.title, tuple(map(Text, lines))))
    else:
        ending.show(document.document(results))
    say_files(folder, files, as_json=given["as_json"])
    complete = not results.facts["failed"] and any(frame.height for frame in results.tables.values())
    return 0 if complete else ending.NOT_ANALYSED


def list_tests(given: dict[str, Any], wanted: parameters.Parameters, kind: str) -> int:
    """Print or write the list of tests with the discards during each; returns the exit status."""
    with opened(given, None) as (backend, advance):
        results = _computed(backend, wanted, advance, only=("contacts",))
    _write_tests(results, given, kind)
    return ending.NOT_ANALYSED if results.facts["failed"] else 0


def rollout(given: dict[str, Any], wanted: parameters.Parameters) -> int:
    """Judge the stages of a change, and print what was found; returns the exit status."""
    from whydrop.show.document import Document, Items
    from whydrop.studies.discards import changes_file
    from whydrop.studies.discards import rollout as stages

    noted = changes_file.read(given["changes"])
    with opened(given, None) as (backend, advance):
        found = stages.judged_stages(backend, wanted, noted, given["days"], advance)
        notes = list(backend.notes)
    if given["as_json"]:
        rows = [plain(row) for row in found.iter_rows(named=True)]
        ending.write_json({"schema": SCHEMA, "days": given["days"], "stages": rows, "notes": notes})
    else:
        said = (*stages.sentences(found), *notes)
        ending.show(Document("Stages of the change", tuple(filter(None, [Items.of(said)]))))
    return 0 if (found["conclusion"] != "no-data").any() else ending.NOT_ANALYSED


def pauses(given: dict[str, Any], wanted: parameters.Parameters) -> int:
    """Compare pause frames with tests, and print what was found; returns the exit status."""
    from whydrop.show import html
    from whydrop.studies import study_files
    from whydrop.studies.discards import pauses as study_pauses
    from whydrop.studies.discards import pauses_document, pauses_figures

    asked = wanted.model_dump(mode="json")
    folder, files = results_folder(given["output"], asked), 0
    with opened(given, folder) as (backend, advance):
        found = study_pauses.pauses(backend, wanted)
        found = replace(found, notes=[*found.notes, *backend.notes])
        frames = {"days": found.days, "correlations": found.correlations}
        if folder is not None and found.days.height:
            pictures = pauses_figures.figures(found)
            contents = study_files.Contents(
                {"parameters": asked, "notes": found.notes},
                frames,
                pictures,
                lambda: html.page(pauses_document.document(found, pictures)),
            )
            files = len(study_files.write(contents, folder, given["formats"], writing(advance)))
    _show(given, frames, found.notes, lambda: pauses_document.document(found))
    say_files(folder if files else None, files, as_json=given["as_json"])
    return 0 if found.days.height else ending.NOT_ANALYSED


def streams(given: dict[str, Any], wanted: parameters.Parameters) -> int:
    """Compare tests of several connections before and after the change, and print it; returns the exit status."""
    from whydrop.studies.discards import multi_stream, multi_stream_document

    with opened(given, None) as (backend, _):
        found = multi_stream.compare(backend, wanted)
        found = replace(found, notes=[*found.notes, *backend.notes])
    names = ("agreement", "comparisons", "single_stream")
    frames = {name: getattr(found, name) for name in names}
    _show(given, frames, found.notes, lambda: multi_stream_document.document(found))
    return 0 if found.comparisons.height else ending.NOT_ANALYSED


def flow_control(given: dict[str, Any], wanted: parameters.Parameters) -> int:
    """Find where flow control could replace discards, and print it; returns the exit status."""
    from whydrop.studies.discards import flow_control as study_flow_control
    from whydrop.studies.discards import flow_control_document

    with opened(given, None) as (backend, _):
        found = study_flow_control.find(backend, wanted)
        found = replace(found, notes=[*found.notes, *backend.notes])
    frames = {"ports": found.ports, "feeders": found.feeders, "left": found.left}
    _show(given, frames, found.notes, lambda: flow_control_document.document(found))
    return 0 if found.is_counted else ending.NOT_ANALYSED


def tcp(given: dict[str, Any], wanted: tcp_study.Parameters) -> int:
    """Compute the study of TCP connections, print it and write it into a folder; returns the exit status."""
    from whydrop.studies.tcp import document, figures, study

    return reported(given, wanted, (study, figures, document), "connections", _tcp_as_json)


def reported(
    given: dict[str, Any],
    wanted: Any,
    modules: tuple[Any, Any, Any],
    counted: str,
    to_json: Callable[[Any], dict[str, Any]],
) -> int:
    """Compute a study, print it and write it into a folder; returns the exit status.

    Args:
        given: options of the command line.
        wanted: the study's parameters.
        modules: ``study``, ``figures`` and ``document`` of the study's package.
        counted: the fact that is 0 if there was nothing to study.
        to_json: the document for ``--json``.
    """
    from whydrop.show import html
    from whydrop.studies import study_files

    study, figures, document = modules
    folder, files = results_folder(given["output"], wanted.document()), 0
    with opened(given, folder) as (backend, advance):
        results = study.run(backend, wanted, advance)
        cancelling.raise_if_received()
        if folder is not None and results.facts[counted]:
            pictures = figures.figures(results)
            contents = study_files.Contents(
                {"parameters": wanted.document(), "notes": results.notes, "facts": results.facts},
                results.tables,
                pictures,
                lambda: html.page(document.document(results, pictures)),
            )
            files = len(study_files.write(contents, folder, given["formats"], writing(advance)))
    if given["as_json"]:
        ending.write_json(to_json(results))
    else:
        ending.show(document.document(results))
    say_files(folder if files else None, files, as_json=given["as_json"])
    return 0 if results.facts[counted] else ending.NOT_ANALYSED


def _show(
    given: dict[str, Any], frames: Mapping[str, pl.DataFrame], notes: list[str], document: Callable[[], Document]
) -> None:
    """Print frames and notes as JSON where that is asked for, and else the document."""
    if given["as_json"]:
        rows = {name: [plain(row) for row in frame.iter_rows(named=True)] for name, frame in frames.items()}
        ending.write_json({"schema": SCHEMA, **rows, "notes": notes})
    else:
        ending.show(document())


def results_folder(path: Path | None, wanted: dict[str, Any]) -> Folder | None:
    """The folder that a study is written into, with what was asked; ``None`` without a path."""
    from whydrop.studies.study_files import Folder

    return None if path is None else Folder(path, {"parameters": wanted})


@contextmanager
def opened(given: dict[str, Any], folder: Folder | None) -> Iterator[tuple[Backend, progress.Advance]]:
    """The engine that reads the store, and the progress; Ctrl-C says where the results so far are."""
    from whydrop.store.engines import open_backend

    def place() -> str | None:
        return f"the results so far are in {folder.path}" if folder is not None and folder.begun else None

    cancelling.import_polars()
    asked = {name: given.get(name) for name in ("mapping", "endpoint")}
    with (
        cancelling.noted(place),
        open_backend(given["store"] or "", given["backend"], **asked) as backend,
        progress.stepping("Opening the store") as advance,
    ):
        yield backend, advance


def _computed(
    backend: Backend, wanted: parameters.Parameters, advance: progress.Advance, **options: Any
) -> study.Results:
    """Compute the study of discards; where no table could be computed no file is replaced.

    Raises:
        BackendError: no table could be computed.
    """
    from whydrop.store.engines import BackendError
    from whydrop.studies.discards import study

    results = study.run(backend, wanted, advance, **options)
    cancelling.raise_if_received()
    failed = results.facts["failed"]
    if failed and all(frame.is_empty() for frame in results.tables.values()):
        raise BackendError("; ".join(dict.fromkeys(failed.values())))
    return results


def writing(advance: progress.Advance) -> Any:
    """The progress of writing files."""
    return lambda what, done, of: advance(f"Writing {what}", done, of)


def say_files(folder: Folder | None, files: int, *, as_json: bool) -> None:
    """Say where a study was written, and what of earlier ones became."""
    if folder is None:
        return
    lines = [f"Study: {folder.path} ({files} files)"]
    if folder.removed:
        lines.append(f"Removed what an earlier study had written there: {_names(folder.removed)}")
    if folder.left:
        lines.append(f"Not of this study, and left there as whydrop did not write it so: {_names(folder.left)}")
    for line in lines:
        print(ending.printable(line), file=sys.stderr if as_json else sys.stdout)


def _names(files: list[str]) -> str:
    """Files, not all of many."""
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    return f"{', '.join(files[:_MOST_FILES])}{more}"


# --- as JSON ---


def _discards_as_json(results: study.Results) -> dict[str, Any]:
    """The study with its sentences, and the tables of its conclusions."""
    import polars as pl

    from whydrop.studies.discards import sentences

    classes = results.tables["contact_days"].group_by("class").agg(pl.col("tests").sum())
    tables = {name: results.tables[name] for name in _IN_DOCUMENT}
    tests = {"tests": dict(sorted(classes.iter_rows()))}
    return as_json(
        "discards", results, results.parameters.model_dump(mode="json"), sentences.summary(results), tables, tests
    )


def _tcp_as_json(results: tcp_study.Results) -> dict[str, Any]:
    """The study with its sentences and tables, without those by network."""
    import polars as pl

    from whydrop.studies.tcp import sentences

    tables = {
        name: frame.filter(pl.col("by").is_in(_NOT_BY_NETWORK)) if "by" in frame.columns else frame
        for name, frame in results.tables.items()
    }
    return as_json("tcp", results, results.parameters.document(), sentences.summary(results), tables, {})


def as_json(
    name: str,
    results: study.Results | tcp_study.Results | queue_study.Results,
    wanted: dict[str, Any],
    summary: list[str],
    tables: dict[str, pl.DataFrame],
    more: dict[str, Any],
) -> dict[str, Any]:
    """A study as JSON: what was asked, sentences, notes, facts, ``more``, the number of rows, and these tables."""
    return {
        "whydrop": whydrop.__version__,
        "schema": SCHEMA,
        "study": name,
        "parameters": wanted,
        "summary": summary,
        "notes": results.notes,
        "facts": results.facts,
        **more,
        "rows": {name: frame.height for name, frame in results.tables.items()},
        "tables": {name: plain(frame.to_dicts()) for name, frame in tables.items()},
    }


# --- the list of tests ---


def _write_tests(results: study.Results, given: dict[str, Any], kind: str) -> None:
    import polars as pl

    from whydrop.runtime import durable

    frame = results.tables["contacts"]
    if given["classes"]:
        frame = frame.filter(pl.col("class").is_in(given["classes"]))
    content = _content(frame, kind)
    for note in results.notes:
        ending.note(note)
    if given["output"] is not None:
        durable.write_bytes(given["output"], content)
        print(f"{ending.printable(str(given['output']))}: {frame.height} tests", file=sys.stderr)
        return
    if kind != "parquet" and sys.stdout.isatty():
        # Names come from files: escape control characters.
        content = "\n".join(map(ending.printable, content.decode().split("\n"))).encode()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def _content(frame: pl.DataFrame, kind: str) -> bytes:
    match kind:
        case "csv":
            return csv.text(frame).encode()
        case "json":
            return json.dumps(plain(frame.to_dicts()), ensure_ascii=False).encode() + b"\n"
        case _:
            target = io.BytesIO()
            frame.write_parquet(target)
            return target.getvalue()
