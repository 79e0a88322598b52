"""``whydrop mcp``: captures and recordings for programs that speak the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path

import click

from whydrop.cli.command import Command

_EXAMPLES = """
\b
Examples:
  whydrop mcp ~/captures
  whydrop mcp ~/captures /var/recordings
"""


@click.command("mcp", cls=Command, epilog=_EXAMPLES)
@click.argument(
    "folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path, file_okay=False, exists=True)
)
def command(folders: tuple[Path, ...]) -> None:
    """Answer questions of a language model on captures and recordings in FOLDERs (here: the current one).

    Needs the package mcp: pip install 'whydrop[mcp]'
    """
    from whydrop.mcp import server

    server.serve(folders or [Path()])
