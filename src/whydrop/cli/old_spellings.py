"""Spellings of earlier versions: each is answered by one line that says the new one (exit status 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

import click

from whydrop.cli.ending import printable

# By command: the option of before, and what is written instead.
OLD: dict[str, dict[str, str]] = {
    "batch plan": {"--override": "--set"},
    "batch run": {"--override": "--set", "--anew": "--restart", "--dry-run": "whydrop batch plan FILE"},
    "collect": {"--check": "whydrop collect check CONFIG", "--once": "whydrop collect once CONFIG"},
    "depth": {"--down": "-R/--reverse", "--max-time": "--max-duration"},
    "explain": dict.fromkeys(
        ("--store", "--workers", "--time-limit", "--memory-limit", "--retry-failed", "--backend"),
        "whydrop store explain STORE CAPTURE...",
    ),
    "export": {"--to": "--format"},
    "fix": {"--length": "-t/--duration"},
    "import": dict.fromkeys(("--store", "--again", "--workers"), "whydrop store import STORE FILE..."),
    "metadata": {"--format": "--json"},
    "pace": {
        "--length": "-t/--duration",
        "--highest": "--max-rate",
        "--unproved": "--no-proof",
        "--status": "whydrop pace status",
        "--revert": "whydrop pace revert",
        "--forget": "whydrop pace forget",
        "--keep": "whydrop pace keep",
    },
    "plot": {"--list": "whydrop plot list RECORDING..."},
    "run": {"--length": "-t/--duration", "-l": "-t/--duration", "-u": "whydrop run udp", "--local-bind": "-B/--bind"},
    "store": {
        "--compact": "whydrop store compact STORE",
        "--table": "whydrop store compact STORE --table TABLE",
        "--before": "whydrop store compact STORE --before DAY",
    },
    "study discards": {
        "--watch": "whydrop study discards watch STORE",
        "--now": "whydrop study discards watch STORE --now TIME",
        "--every": "whydrop study discards watch STORE --interval TIME",
        "--state": "whydrop study discards watch STORE --state FILE",
        "--tests": "whydrop study discards tests STORE",
        "--class": "whydrop study discards tests STORE --class CLASS",
        "--example": "whydrop study discards example",
    },
    "tests": {"--check": "whydrop tests check FILE..."},
    "watch": {"--dst": "--to", "--every": "-i/--interval", "--for": "-t/--duration", "--no-live": "-q/--quiet"},
}


class OldSpelling(click.UsageError):
    """An option that has another spelling now."""

    def show(self, file: TextIO | Any | None = None) -> None:
        """Say it in one line, without the usage."""
        click.echo(f"whydrop: {self.format_message()}", file=file, err=True)


def raise_if_old(command: str, arguments: Sequence[str], problem: click.UsageError) -> None:
    """Raise :class:`OldSpelling` where the problem comes from an option of earlier versions."""
    known = OLD.get(command, {})
    suspects: Sequence[str] = ()
    if isinstance(problem, click.NoSuchOption):
        suspects = (problem.option_name,)
    elif isinstance(problem, click.MissingParameter):
        # `pace --keep` was whole; now HOST is missing.
        suspects = arguments
    for option in suspects:
        if option in known:
            message = f"{printable(option)} is now spelled `{known[option]}` (see whydrop {command} --help)"
            raise OldSpelling(message, problem.ctx) from None
