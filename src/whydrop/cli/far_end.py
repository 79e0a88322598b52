"""The far end of a test as the options name it: host, port, secret."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending

if TYPE_CHECKING:
    from whydrop.measure.engine import FarHost


def secret(path: Path | None) -> str | None:
    """The secret of the option or of the environment; the program ends where it cannot be read."""
    from whydrop.measure import secrets

    try:
        return secrets.secret(path)
    except ValueError as reason:
        raise click.UsageError(f"{ending.printable(str(reason))}.") from None
    except OSError as reason:
        sys.exit(ending.status(reason))


def far_host(host: str, port: int | None, secret_file: Path | None) -> FarHost:
    """The far end that ``HOST[:PORT]`` and the options name."""
    from whydrop.measure.engine import FarHost
    from whydrop.measure.places import places

    try:
        place = places([host])[0]
    except ValueError as reason:
        raise click.UsageError(f"{ending.printable(str(reason))}.") from None
    return FarHost(place.name, place.host, place.port or port, secret(secret_file))
