"""``whydrop metadata``: what a recording says about itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command
from whydrop.cli.recordings import ARGUMENT, opened, reading

EXAMPLES = """
\b
Examples:
  whydrop metadata rrul.recording
  whydrop metadata rrul.recording hosts.local.sysctls
  whydrop metadata rrul.recording hosts.local.interfaces
  whydrop metadata rrul.flent.gz imported --json
"""


@click.command("metadata", cls=Command, epilog=EXAMPLES)
@click.argument("recording", type=ARGUMENT)
@click.argument("key", required=False)
@options.as_json
def command(recording: Path, key: str | None, as_json: bool) -> None:
    """Show the metadata of a recording, or one KEY of it: test, hosts, kernels, settings, interfaces, queues."""
    with reading():
        metadata = opened(recording).metadata
        found = metadata if key is None else _part(metadata, key, recording)
        if as_json:
            ending.write_document(json.dumps(found, ensure_ascii=False, indent=2, sort_keys=True))
        elif isinstance(found, (dict, list)):
            for line in _lines(found, ""):
                print(ending.printable(line))
        else:
            print(ending.printable(_word(found)))
        sys.stdout.flush()


def _part(metadata: Any, key: str, recording: Path) -> Any:
    found, seen, rest = metadata, "", key
    while rest:
        name = _name(found, rest)
        if name is None:
            raise _missing(found, rest, seen, recording)
        found = found[int(name)] if isinstance(found, list) else found[name]
        seen = f"{seen}.{name}" if seen else name
        rest = rest[len(name) + 1 :]
    return found


def _name(found: Any, rest: str) -> str | None:
    """The longest beginning of ``rest`` that is a key: keys may have dots in them."""
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if (isinstance(found, dict) and name in found) or (isinstance(found, list) and _is_place(name, found)):
            return name
    return None


def _is_place(name: str, found: list[Any]) -> bool:
    return name.isdecimal() and len(name) < 10 and int(name) < len(found)


def _missing(found: Any, rest: str, seen: str, recording: Path) -> Exception:
    from whydrop.recording.errors import RecordingError

    where = f"under {seen}" if seen else "in its metadata"
    if isinstance(found, dict):
        there = f"; there are {', '.join(map(str, list(found)[:20]))}" if found else "; there is nothing"
    elif isinstance(found, list):
        there = f"; it is a list of {len(found)}"
    else:
        there = f"; it is {_word(found)!r:.60}"
    return RecordingError(f"{recording}: no {rest!r} {where}{there}")


def _lines(found: Any, indent: str) -> list[str]:
    items = found.items() if isinstance(found, dict) else enumerate(found)
    lines = []
    for key, value in items:
        if isinstance(value, (dict, list)) and value and not _fits(value):
            lines += [f"{indent}{key}:", *_lines(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {_word(value)}")
    return lines


def _fits(value: Any) -> bool:
    """True if it is a short list of plain values, which stands on one line."""
    return isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value) and len(value) <= 32


def _word(value: Any) -> str:
    if value is None or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_word, value)) or "-" if isinstance(value, list) else str(value)
