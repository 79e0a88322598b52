"""``whydrop secret``: a random secret for a responder and its clients, or for one client."""

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
  whydrop secret --name alice -o a.secret --add secrets
"""


@click.command("secret", cls=Command, epilog=EXAMPLES)
@options.output_file("New file for the secret, with mode 600.  [default: print it]")
@click.option("--name", metavar="NAME", help="Make the secret of one client, with this name before it.")
@click.option("--add", "add_to", type=options.FILE, metavar="FILE",
              help="Add it to this file of the responder; with --name.")  # fmt: skip
def command(output: Path | None, name: str | None, add_to: Path | None) -> None:
    """Make a random secret for a responder and its clients, or for one client."""
    if add_to is not None and name is None:
        raise click.UsageError("--add takes the secret of one client: give its name with --name.")
    secret = whydrop.new_secret(output, name=name, add_to=add_to)
    if output is None:
        print(secret)
