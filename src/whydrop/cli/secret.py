"""``whydrop secret``: a random secret for a responder and its clients."""

from __future__ import annotations

from pathlib import Path

import click

import whydrop
from whydrop.cli import options
from whydrop.cli.command import Command

EXAMPLES = """
\b
Examples:
  whydrop secret -o secret
  whydrop secret
"""


@click.command("secret", cls=Command, epilog=EXAMPLES)
@options.output_file("New file for the secret, with mode 600.  [default: print it]")
def command(output: Path | None) -> None:
    """Make a random secret for a responder and its clients."""
    secret = whydrop.new_secret(output)
    if output is None:
        print(secret)
