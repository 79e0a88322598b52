"""The options by which a user says what is known of the path between two captures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from whydrop.cli import options, quantities

_OPTIONS = (
    click.option("--client-side", type=options.ANY_PATH, metavar="CAPTURE",
                 help="Of two captures: the one nearer to the clients."),
    click.option("--same-sequence-numbers", is_flag=True,
                 help="No device between the captures changes TCP sequence numbers."),
    click.option("--match-up-to", "longest_bytes", type=quantities.SIZE, metavar="BYTES",
                 help="Match only packets of up to BYTES (of IP)."),
)  # fmt: skip


def hints(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as :func:`given` expects them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def given(chosen: dict[str, Any]) -> Any:
    """Take the hints out of the options of a command, as :class:`whydrop.PairHints`; ``None`` where there are none."""
    from whydrop.explaining.hints import PairHints

    longest = chosen.pop("longest_bytes")
    found = PairHints(
        chosen.pop("client_side"), chosen.pop("same_sequence_numbers"), None if longest is None else int(longest)
    )
    return found if found.given else None
