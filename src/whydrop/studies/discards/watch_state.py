"""The memory of `study discards watch`: what it has reported, in a small file from one look to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.errors import Error
from whydrop.runtime import durable

if TYPE_CHECKING:
    from whydrop.studies.discards.watch import Key

FILE = "watch-state.json"
_SCHEMA = 1
_LARGEST_BYTES = 50_000_000
_EXPECTED = "expected what `whydrop study discards watch` writes; delete it, and every port that exceeds is new"


class StateError(Error, ValueError):
    """The file holds something else; the message names it and says what to do."""


def read(path: Path, now_ns: int) -> dict[Key, int]:
    """Since when each port was reported, in nanoseconds; empty before the first look.

    What was reported at a later time than ``now_ns`` is left out: a clock was set back, or history is looked at.

    Raises:
        StateError: the file is there but is not such a state.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise StateError(f"{path}: larger than {_LARGEST_BYTES} bytes; {_EXPECTED}")
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as reason:
        if isinstance(reason, StateError):
            raise
        raise StateError(f"{path}: not JSON; {_EXPECTED}") from None
    found: dict[Key, int] = {}
    entries = document.get("ports") if isinstance(document, dict) and document.get("schema") == _SCHEMA else None
    if not isinstance(entries, list):
        raise StateError(f"{path}: no list `ports` of schema {_SCHEMA}; {_EXPECTED}")
    for number, entry in enumerate(entries):
        key, since = _entry(entry)
        if key is None or since is None:
            raise StateError(f"{path}: ports[{number}]: {str(entry)[:80]!r}; {_EXPECTED}")
        if since <= now_ns:
            found[key] = since
    return found


def _entry(entry: object) -> tuple[Key | None, int | None]:
    if not isinstance(entry, dict):
        return None, None
    port, since = entry.get("port"), entry.get("since_ns")
    if not isinstance(port, list) or len(port) != 5 or not isinstance(since, int) or isinstance(since, bool):
        return None, None
    site, switch, machine, name, direction = port
    if not all(part is None or isinstance(part, str) for part in port) or direction not in ("rx", "tx"):
        return None, None
    return (site, switch, machine, name, direction), since


def write(path: Path, reported: Mapping[Key, int]) -> None:
    """Keep it, whole or not at all."""
    ports = [{"port": list(key), "since_ns": since} for key, since in reported.items()]
    durable.write_bytes(path, json.dumps({"schema": _SCHEMA, "ports": ports}, ensure_ascii=False, indent=1).encode())
