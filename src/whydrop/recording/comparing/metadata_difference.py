"""Differences in the metadata of recordings, without what differs in any two runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Keys that differ between any two runs and explain nothing: times, counters, names of files, numbers of processes.
NOISE = tuple(
    re.compile(pattern)
    for pattern in (
        r"(^|[._])(started|ended|time|date|timestamp|uptime|t0|elapsed)(_(s|ns|utc|ms))?$",
        r"(^|[._])(uuid|pid|ppid|port|session|nonce|seed|path|file_?name|data_filename)$",
        r"(^|[._])(load|load_average|loadavg|memory_(free|available|used).*|mem_?free.*|free_bytes|inodes?)([._]|$)",
        r"(^|[._])(statistics|stats|stats2|xstats|counters|before|after|tc_stats\w*)([._]|$)",
        r"(^|[._])(rx|tx)_(bytes|packets|dropped|errors)$",
        r"(^|[._])(bytes|packets|drops|dropped|overlimits|requeues|backlog|qlen)$",
        r"^(status|failures|schema|redacted|notes|tables)([._\[]|$)",
        r"^test\.(flows|computed|plots|default_plot|source)([._\[]|$)",
        r"^imported([._\[]|$)",
        r"^batch\.((variables\.)?(run|number|repetition|uuid|id|batch_time|batch_uuid|output)|arguments)$",
        r"(^|[._])(bql|byte_queue_limits).*(inflight|limit)$",
        r"(^|[._])not_gathered([._\[]|$)",
        r"(^|[._])(pref|valid_lft|preferred_lft|expires|cache\w*|age)(_s)?$",
    )
)


@dataclass(frozen=True)
class Different:
    """One key and its value in each recording; ``None`` where a recording has not got it."""

    key: str
    values: tuple[str | None, ...]


def flattened(metadata: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every leaf of nested metadata by its dotted key; short lists of plain values stay one value.

    >>> flattened({"test": {"parameters": {"flows": 4}, "hosts": ["a", "b"]}})
    {'test.parameters.flows': 4, 'test.hosts': 'a, b'}
    """
    flat: dict[str, Any] = {}
    for key, value in metadata.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{name}.")
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
            if any(isinstance(part, (Mapping, list, tuple)) for part in value):
                flat |= flattened({f"[{number}]": part for number, part in enumerate(value)}, name)
            else:
                flat[name] = ", ".join(str(part) for part in value)
        else:
            flat[name] = value
    return flat


def is_noise(key: str) -> bool:
    """True if a key differs between any two runs of the same test.

    >>> is_noise("started_ns"), is_noise("hosts.local.uptime_s"), is_noise("hosts.local.kernel.release")
    (True, True, False)
    """
    return any(pattern.search(key) for pattern in NOISE)


def differences(metadata: Sequence[Mapping[str, Any]]) -> list[Different]:
    """The keys that do not have the same value everywhere, in the order of the first recording that has them."""
    flat = [flattened(one) for one in metadata]
    keys = dict.fromkeys(key for one in flat for key in one)
    present = [_branches(one) for one in flat]
    found: dict[str, Different] = {}
    for key in keys:
        values = tuple(_text(one.get(key)) for one in flat)
        if len(set(values)) == 1 or is_noise(key):
            continue
        branch = _absent_branch(key, present)
        if branch is None:
            found[key] = Different(key, values)
        elif branch not in found:
            counts = [sum(1 for name in one if name.startswith(branch)) for one in flat]
            found[branch] = Different(branch, tuple(f"({count} keys)" if count else None for count in counts))
    return list(found.values())


def _branches(flat: Mapping[str, Any]) -> set[str]:
    """Every key with all that it is part of."""
    found = set()
    for key, value in flat.items():
        if _text(value) is None:
            continue
        parts = key.split(".")
        found |= {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return found


def _absent_branch(key: str, present: Sequence[set[str]]) -> str | None:
    """The largest part of the tree above a key that a recording has nothing of: one line says so for all of it."""
    parts = key.split(".")
    for length in range(2, len(parts)):
        branch = ".".join(parts[:length])
        if any(branch not in one for one in present):
            return branch
    return None


def _text(value: Any) -> str | None:
    # Empty and absent mean the same.
    return None if value is None or value == "" else str(value)


def value_of(metadata: Mapping[str, Any], key: str) -> str | None:
    """The value of a dotted key, such as ``test.parameters.qdisc``; ``None`` where it is not there.

    >>> value_of({"test": {"parameters": {"flows": 4}}}, "test.parameters.flows")
    '4'
    """
    return _text(flattened(metadata).get(key))
