"""``whydrop web``: the page in a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from whydrop.cli.command import Command

_EXAMPLES = """
\b
Examples:
  whydrop web
  whydrop web ~/recordings /var/captures
  whydrop web --listen 127.0.0.1:8080
"""


@click.command("web", cls=Command, epilog=_EXAMPLES)
@click.argument(
    "folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path, file_okay=False, exists=True)
)
@click.option("--listen", default="127.0.0.1:0", metavar="ADDRESS:PORT", show_default=True, help="Where to listen.")
def command(folders: tuple[Path, ...], listen: str) -> None:
    """Open captures and recordings of FOLDERs (here: the current one) in a browser."""
    from whydrop.web import serving

    address, _, port = listen.rpartition(":")
    uploads = (folders[0] if folders else Path()) / "uploads"
    serving.serve(
        folders or [Path()], uploads, serving.Listening(address.strip("[]") or "127.0.0.1", int(port or 0)),
        started=lambda url: print(f"Open {url}", file=sys.stderr, flush=True),
    )  # fmt: skip
