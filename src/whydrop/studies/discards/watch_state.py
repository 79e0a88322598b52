"""The state of `study discards watch`: the ports that it has reported, in a file from one look to the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StrictInt, ValidationError

from whydrop.errors import Error
from whydrop.runtime import durable
from whydrop.runtime.user_files.problems import written_path

FILE = "watch-state.json"
_SCHEMA = 1
_LARGEST_BYTES = 50_000_000
_EXPECTED = "expected what `whydrop study discards watch` writes; delete it, and every port that exceeds is new"

# Site, switch, machine, port and direction, as in `watch`.
_Key = tuple[str | None, str | None, str | None, str | None, Annotated[str, Field(pattern="^(rx|tx)$")]]


class StateError(Error, ValueError):
    """The file holds something else; the message names it and says what to do."""


class _Entry(BaseModel):
    port: _Key
    since_ns: StrictInt


class _State(BaseModel):
    version: Literal[1] = Field(alias="schema")
    ports: list[_Entry]


def read(path: Path, now_ns: int) -> dict[_Key, int]:
    """Since when each port was reported, in nanoseconds; empty before the first look.

    Reports later than ``now_ns`` are left out: a clock was set back, or history is looked at.

    Raises:
        StateError: the file is there but is not such a state.
    """
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise StateError(f"{path}: larger than {_LARGEST_BYTES} bytes; {_EXPECTED}")
        state = _State.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError as reason:
        first = reason.errors()[0]
        if first["type"] == "json_invalid":
            raise StateError(f"{path}: not JSON; {_EXPECTED}") from None
        raise StateError(f"{path}: {written_path(first['loc'])}: {first['msg']}; {_EXPECTED}") from None
    return {entry.port: entry.since_ns for entry in state.ports if entry.since_ns <= now_ns}


def write(path: Path, reported: Mapping[_Key, int]) -> None:
    """Keep it, whole or not at all."""
    ports = [{"port": list(key), "since_ns": since} for key, since in reported.items()]
    durable.write_bytes(path, json.dumps({"schema": _SCHEMA, "ports": ports}, ensure_ascii=False, indent=1).encode())
