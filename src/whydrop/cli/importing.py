"""``whydrop import``: files of other tools as recordings, files of measurement platforms into a store."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from whydrop.cli import ending
from whydrop.cli.recordings import all_opened, reading

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

EXAMPLES = """
\b
Examples:
  whydrop import rrul-2017-05-30T174230.flent.gz
  whydrop import results/*.flent.gz --output recordings
  whydrop import iperf3.json --title "with fq"
\b
Into a store:
  whydrop import 2018*-switch.json.gz --store telemetry
  whydrop import archives/ --store telemetry
  whydrop import watch.recording ss.log --store telemetry
  whydrop import archives/*.tgz --store s3://bucket/telemetry --json
"""


@click.command("import", epilog=EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), default=Path(), metavar="DIR",
              help="Where the recordings' folders are made.  [default: here]")  # fmt: skip
@click.option("--title", help="For the recordings, instead of the files' own.")
@click.option("--store", metavar="DIR", help="Folder or object store of platforms' files; made if it is not there.")
@click.option("--again", is_flag=True, help="Read files into the store even if they were read before.")
@click.option("--workers", type=click.IntRange(1), help="Processes that read into it.  [default: one a processor]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document on standard output, and nothing else.")
@click.pass_context
def command(
    context: click.Context,
    files: tuple[Path, ...],
    output: Path,
    title: str | None,
    store: str | None,
    again: bool,
    workers: int | None,
    as_json: bool,
) -> None:
    """Read files of other tools: of one test into recordings, of measurement platforms into a store.

    Files of Flent (every version), netperf-wrapper, iperf3 (--json) and DISCO (switches) become recordings, one each
    (of a log of iperf3: one of each run), and so do those with TCP's statistics of connections (web100, tcp-info, NDT7;
    logs of ss, tcpretrans, tcpdrop). Series keep their names, and metadata are kept whole. They need not be imported to
    be shown, plotted or compared: every command that reads a recording also reads these files.

    With --store, files of measurement platforms go into a store: switch telemetry of DISCO (both generations), web100
    snaplogs, tcp-info, SideStream, NDT5 and NDT7, logs of sockets, archives of them, and folders of archives; and of
    recordings (folders) the TCP statistics. Files of Flent and iperf3 among them become recordings all the same. The
    same file twice changes nothing. Rows that are there already are left out; where one differs, the first stays, and
    the conflict is reported. A damaged file is read up to the damage and stops none of the others.

    Exits with 0 when everything was read, and 1 when something could not be; the rest is imported all the same. Ctrl-C,
    SIGTERM and SIGHUP keep what was read.
    """
    if store is None:
        _no_store_options(context, again=again, workers=workers)
        sys.exit(_make_recordings(files, output, title, as_json=as_json))
    from whydrop.cli import import_into_store

    tests = [path for path in files if _is_of_a_test(path)]
    rest = tuple(path for path in files if path not in tests)
    failed = _make_recordings(tests, output, title, as_json=as_json and not rest) if tests else 0
    if rest:
        failed = max(failed, import_into_store.run(rest, store, again=again, workers=workers, as_json=as_json))
    sys.exit(failed)


def _no_store_options(context: click.Context, *, again: bool, workers: int | None) -> None:
    if context.info_name == "ingest":
        raise click.UsageError("Missing option '--store'. (The command is called import now; ingest still works.)")
    if again or workers is not None:
        raise click.UsageError("--again and --workers are for files that are read into a store: give --store too.")


def _is_of_a_test(path: Path) -> bool:
    """True if a file is that of one test, of Flent, netperf-wrapper or iperf3, and of no measurement platform."""
    from whydrop.formats.archives.reading_one import is_unknown
    from whydrop.formats.kinds import is_recording

    return path.is_file() and is_recording(path) and is_unknown(path)


def _make_recordings(files: list[Path] | tuple[Path, ...], output: Path, title: str | None, *, as_json: bool) -> int:
    """Make a recording of each file, and say where; return the exit status."""
    from whydrop.recording.errors import RecordingError

    failed = 0
    found: list[dict[str, Any]] = []
    with reading():
        for path in files:
            try:
                imported = _import(path, output, title)
            except (RecordingError, OSError) as reason:
                failed = ending.status(reason)
                found.append({"path": str(path), "recording": None, "error": ending.one_line(reason)})
                continue
            for folder, notes in imported:
                found.append({"path": str(path), "recording": str(folder), "notes": notes})
                if not as_json:
                    print(ending.printable(str(folder)), flush=True)
                for note in notes:
                    print(f"whydrop: {ending.printable(f'{path}: {note}')}", file=sys.stderr)
    if as_json:
        ending.write_document(json.dumps({"schema": 1, "recordings": found}, indent=1))
    return 1 if failed else 0


def _import(path: Path, output: Path, title: str | None) -> list[tuple[Path, list[str]]]:
    """The folders made of a file, one for each test in it, with what is to be noted of each."""
    from whydrop.recording.errors import RecordingError

    try:
        found = all_opened([path])
    except RecordingError as reason:
        if _is_for_a_store(path):
            raise RecordingError(
                f"{path}: holds files of a measurement platform, which go into a store: whydrop import FILE --store DIR"
            ) from None
        raise reason
    return [_saved(one, output, title) for one in found]


def _saved(recording: Recording, output: Path, title: str | None) -> tuple[Path, list[str]]:
    from whydrop.recording.naming import folder_for

    metadata = recording.metadata
    if title is not None:
        metadata["title"] = title
    folder = folder_for(output, str(metadata["name"]), recording.started_ns, str(metadata["title"] or ""))
    return recording.save(folder), recording.notes


def _is_for_a_store(path: Path) -> bool:
    """True if a file, or a folder by its first files, is a measurement platform's; captures are for `explain`."""
    from whydrop.formats.archives.reading_one import kind_of

    files = [path] if path.is_file() else [one for one in sorted(path.rglob("*"))[:20] if one.is_file()]
    return any(kind_of(one) not in (None, "unknown", "capture", "empty") for one in files)
