"""``whydrop doctor``: the abilities of this host."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

import whydrop
from whydrop.cli import command as shape
from whydrop.cli import ending, options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from whydrop.act.abilities import Ability
    from whydrop.show.document import Document, Items

EXAMPLES = """
\b
Examples:
  whydrop doctor
  sudo whydrop doctor
  whydrop doctor --json
"""


@click.command("doctor", cls=shape.Command, epilog=EXAMPLES)
@options.as_json
def command(as_json: bool) -> None:
    """Show the privileges, kernel features, programs, extras and folders of this host, and how to get missing ones."""
    found = whydrop.doctor()
    if as_json:
        ending.write_json({"whydrop": whydrop.__version__, "schema": 1, "abilities": [asdict(one) for one in found]})
    else:
        ending.show(_document(found))


def _document(found: list[Ability]) -> Document:
    from whydrop.show.document import Document, Section
    from whydrop.text.phrases import capital

    title = f"This host has {sum(one.present for one in found)} of the {len(found)} abilities that whydrop uses."
    groups = groupby(found, key=lambda one: one.group)
    return Document(title, (Section(title, ()), *(Section(capital(name), (_items(of),)) for name, of in groups)))


def _items(abilities: Iterable[Ability]) -> Items:
    """Abilities; missing ones with their uses and the command that adds them."""
    from whydrop.show.document import Command, Items, Text

    items: list[Text | Command] = []
    for one in abilities:
        if one.present:
            items.append(Text(f"{one.name}: {one.found or 'yes'}"))
            continue
        items.append(Text(f"{one.name}: {one.found or 'missing'}; used for {one.used_for}", "warning"))
        if one.remedy:
            items.append(Command(one.remedy))
    return Items(tuple(items))
