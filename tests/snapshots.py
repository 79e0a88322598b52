"""Snapshots of what people read: help, output, errors and the public names, as text beside the golden documents.

``make golden`` writes them again, so that a change of words is seen line by line.
"""

from __future__ import annotations

import html
import inspect
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

import golden
import recordings

FOLDERS = ("help", "output", "errors", "public")
_CAPTURES = [path for pair in golden.EXAMPLES for path in pair]


def all_snapshots() -> dict[str, str]:
    """The text of every snapshot by its name within the folder of golden files."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        _prepare(Path(folder))
        makers: Mapping[str, Callable[[], Iterator[tuple[str, str]]]] = {
            "help": _help, "output": _outputs, "errors": _errors, "public": _public,
        }  # fmt: skip
        return {f"{kind}/{name}.txt": text for kind in FOLDERS for name, text in makers[kind]()}


def _prepare(folder: Path) -> None:
    """Put the inputs of the snapshots into a folder, under names that do not differ between machines."""
    for capture in set(_CAPTURES):
        shutil.copy(capture, folder / capture.name)
    (folder / "text.pcap").write_text("this is no capture\n")
    (folder / "empty.pcap").write_bytes(b"")
    whole = _decompressed(folder / "policed-download.pcap.zst")
    (folder / "cut.pcap").write_bytes(whole[: len(whole) // 2])
    (folder / "broken.toml").write_text("[test]\nlength_s = 'long'\n")
    recordings.rrul(folder / "before.recording")
    recordings.rrul(folder / "after.recording", scale=0.5)


def _decompressed(path: Path) -> bytes:
    import pyarrow as pa

    return pa.input_stream(path, compression="zstd").read()


def _run(*words: str, columns: int = 80) -> str:
    """All that the program prints, in the order of its two streams, and its exit status where that is not 0."""
    from whydrop.cli.commands import whydrop

    environment = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    done = CliRunner().invoke(whydrop, words, prog_name="whydrop", env=environment, terminal_width=columns)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    status = f"(exit status {done.exit_code})\n" if done.exit_code else ""
    return f"$ whydrop {' '.join(words)}\n{_settled(done.stdout + done.stderr)}{status}"


def _settled(text: str) -> str:
    """Without what differs between two runs: the version, and the folder of the inputs."""
    import whydrop

    return text.replace(whydrop.__version__, "VERSION").replace(os.path.realpath("."), "FOLDER")


def _help() -> Iterator[tuple[str, str]]:
    from whydrop.cli.commands import whydrop

    def walk(command: click.Command, words: list[str]) -> Iterator[tuple[str, str]]:
        yield "-".join(["whydrop", *words]), _run(*words, "--help")
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=words[-1] if words else "whydrop")
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                if below is not None and not below.hidden:
                    yield from walk(below, [*words, name])
        for name, below in getattr(command, "subcommands", {}).items():
            yield from walk(below, [*words, name])

    yield from walk(whydrop, [])


def _outputs() -> Iterator[tuple[str, str]]:
    for example in golden.EXAMPLES:
        yield f"explain-{golden.name_of(example)}", _run("explain", *(path.name for path in example))
    first = _CAPTURES[0].name
    yield "explain-cut-off", _run("explain", "cut.pcap")
    yield "explain-report", _run("explain", first, "--report", "report.html") + _words_of(Path("report.html"))
    yield "match", _run("match", *(path.name for path in golden.EXAMPLES[-1]))
    yield "report-recording", _run("report", "before.recording") + _words_of(Path("before.html"))
    for words in (
        ["explain", "before.recording"], ["show", "before.recording"], ["stats", "before.recording"],
        ["compare", "before.recording", "after.recording"], ["metadata", "before.recording"],
        ["tests"], ["tests", "rrul"],
    ):  # fmt: skip
        yield "-".join(word.partition(".")[0] for word in words), _run(*words)


def _words_of(page: Path) -> str:
    """The words of a page, an element a line."""
    text = page.read_text(encoding="utf-8")
    body = text.partition("<body>")[2]
    body = re.sub(r"<(script|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    lines = re.sub(r"</?(?:p|div|h\d|li|tr|dt|section|summary|button|pre)\b[^>]*>", "\n", body)
    lines = re.sub(r"</t[hd]>", " | ", lines)
    plain = html.unescape(re.sub(r"<[^>]+>", "", lines))
    return "".join(f"{line.strip()}\n" for line in _settled(plain).splitlines() if line.strip())


def _errors() -> Iterator[tuple[str, str]]:
    wrong = [
        ["explan"], ["explain"], ["explain", "missing.pcap"], ["explain", "text.pcap"], ["explain", "empty.pcap"],
        ["explain", "cut.pcap", "--flow", "no such flow"], ["explain", "cut.pcap", "--no-such-option"],
        ["run"], ["run", "no-such-test"], ["run", "rrul"], ["run", "tpc", "--to", "host.invalid"],
        ["run", "broken.toml", "--to", "127.0.0.1"], ["show", "missing.recording"], ["show", "cut.pcap"],
        ["plot", "before.recording", "--plot", "no-such-plot"], ["compare", "before.recording"],
        ["tests", "no-such-test"], ["batch", "broken.toml"], ["study"], ["store", "missing.store"],
        ["collect", "missing.toml"], ["export", "before.recording"], ["import", "text.pcap"], ["match", "cut.pcap"],
    ]  # fmt: skip
    yield "all", "\n".join(_run(*words) for words in wrong)


def _public() -> Iterator[tuple[str, str]]:
    import whydrop

    yield "python", "".join(f"{line}\n" for name in sorted(whydrop.__all__) for line in _signature(name, whydrop))
    documents = [golden.document_of(example) for example in golden.EXAMPLES]
    yield "explain-json", "".join(f"{line}\n" for line in sorted(set(_keys(documents, "document"))))


def _signature(name: str, owner: Any, indent: str = "") -> Iterator[str]:
    thing = inspect.getattr_static(owner, name) if indent else getattr(owner, name)
    thing = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing
    first_line = (inspect.getdoc(thing) or "").partition("\n")[0]
    try:
        shape = re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(thing))) if callable(thing) else ""
    except (TypeError, ValueError):
        shape = ""
    yield f"{indent}{name}{shape}" + (f": {first_line}" if callable(thing) or isinstance(thing, property) else "")
    if inspect.isclass(thing) and not indent:
        own = [key for base in thing.__mro__ if base.__module__.startswith("whydrop") for key in vars(base)]
        for key in sorted(dict.fromkeys(own)):
            if not key.startswith("_"):
                yield from _signature(key, thing, "    ")


def _keys(value: Any, where: str) -> Iterator[str]:
    """Every place of a document with the kind of its value; those of a list are all one place."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _keys(inner, f"{where}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, where if where == "document" else f"{where}[]")
    else:
        yield f"{where}: {type(value).__name__}"


def write() -> None:
    """Write every snapshot again."""
    for kind in FOLDERS:
        shutil.rmtree(golden.FOLDER / kind, ignore_errors=True)
        (golden.FOLDER / kind).mkdir(parents=True)
    for name, text in all_snapshots().items():
        (golden.FOLDER / name).write_text(text, encoding="utf-8")
    print(f"wrote {golden.FOLDER.relative_to(golden.ROOT)}/{{{','.join(FOLDERS)}}}")
