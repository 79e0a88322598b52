"""``whydrop doctor``: the abilities of this host."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, options
from whydrop.cli.command import Command

if TYPE_CHECKING:
    from whydrop.act.abilities import Ability

EXAMPLES = """
\b
Examples:
  whydrop doctor
  sudo whydrop doctor
  whydrop doctor --json
"""


@click.command("doctor", cls=Command, epilog=EXAMPLES)
@options.as_json
def command(as_json: bool) -> None:
    """Show which privileges, kernel features, programs and folders this host has, and how to get the missing ones."""
    from whydrop.act.abilities import doctor

    found = doctor()
    if as_json:
        from whydrop import _core

        document = {"whydrop": _core.__version__, "schema": 1, "abilities": [asdict(one) for one in found]}
        ending.write_document(json.dumps(document, ensure_ascii=False))
        return
    for group, members in groupby(found, key=lambda one: one.group):
        click.echo(click.style(group.capitalize(), bold=True))
        for one in members:
            for line in _lines(one):
                click.echo(ending.printable(line))
    sys.stdout.flush()


def _lines(one: Ability) -> list[str]:
    """One line for an ability; for a missing one also its uses and the command that adds it."""
    if one.present:
        return [f"  yes  {one.name}" + (f": {one.found}" if one.found else "")]
    lines = [f"  no   {one.name}" + (f": {one.found}" if one.found else ""), f"       for {one.used_for}"]
    return lines + ([f"       $ {one.remedy}"] if one.remedy else [])
