"""``whydrop metadata``: what a recording says about itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import whydrop
from whydrop.cli import ending, options
from whydrop.cli.command import Command

EXAMPLES = """
\b
Examples:
  whydrop metadata rrul.recording
  whydrop metadata rrul.recording hosts.local.sysctls
  whydrop metadata rrul.recording hosts.local.interfaces
  whydrop metadata rrul.flent.gz imported --json
"""


@click.command("metadata", cls=Command, epilog=EXAMPLES)
@options.recording
@click.argument("key", required=False)
@options.as_json
def command(recording: Path, key: str | None, as_json: bool) -> None:
    """Show the metadata of a recording, or one KEY of it: test, hosts, kernels, settings, interfaces, queues."""
    found = whydrop.metadata(recording, key)
    if as_json:
        ending.write_json(found, indent=2, sort_keys=True)
        return
    for line in _lines(found, "") if isinstance(found, (dict, list)) else [_word(found)]:
        print(ending.printable(line))


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
