"""Parts of a recording's metadata by dotted keys."""

from __future__ import annotations

from typing import Any

from whydrop.recording.errors import RecordingError

_MOST_SHOWN = 20


def part(metadata: Any, key: str, where: str) -> Any:
    """The part that a key names: names and numbers of places in lists, with dots between them.

    Names that have dots in them, as sysctls do, are found too.

    Raises:
        RecordingError: there is none; the message begins with ``where`` and lists the names that there are.

    >>> part({"sysctls": {"net.core.rmem_max": 212992}}, "sysctls.net.core.rmem_max", "a.recording")
    212992
    """
    found, seen, rest = metadata, "", key
    while rest:
        name = _name(found, rest)
        if name is None:
            raise RecordingError(
                f"{where}: no {rest!r} {f'under {seen}' if seen else 'in its metadata'}{_there(found)}"
            )
        found = found[int(name)] if isinstance(found, list) else found[name]
        seen = f"{seen}.{name}" if seen else name
        rest = rest[len(name) + 1 :]
    return found


def _name(found: Any, rest: str) -> str | None:
    """The longest beginning of ``rest`` that is a key."""
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if (isinstance(found, dict) and name in found) or (isinstance(found, list) and _is_place(name, found)):
            return name
    return None


def _is_place(name: str, found: list[Any]) -> bool:
    return name.isdecimal() and len(name) < 10 and int(name) < len(found)


def _there(found: Any) -> str:
    if isinstance(found, dict):
        return f"; there are {', '.join(map(str, list(found)[:_MOST_SHOWN]))}" if found else "; there is nothing"
    return f"; it is a list of {len(found)}" if isinstance(found, list) else f"; it is {found!r:.60}"
