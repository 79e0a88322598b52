"""Metadata of hosts: gathered before and after a test, sampled while it runs, redacted on request.

The same functions serve the far end, which sends what it gathered to the client.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from whydrop.recording.metadata.items import Items
from whydrop.recording.metadata.redaction import Redactor
from whydrop.recording.metadata.sampling import CounterSampler

__all__ = ["CounterSampler", "Redactor", "gather", "interfaces", "with_after"]

# What a far end may send to its client.
MOST_BYTES = 128 * 1024

# What a test may change of an interface.
_CHANGING = ("qdiscs", "classes", "byte_queue_limits", "carrier_changes", "flow_control")

# Left out first where it would be more, from the longest that can be spared on.
_DISPENSABLE = ("modules", "addresses", "gateways", "interfaces", "sysctls")


def gather(targets: Sequence[str] = ()) -> dict[str, Any]:
    """This host, and the way from it to each target (addresses, or names that can be resolved).

    Nothing raises: what could not be found out is told in words under ``not_gathered``. As JSON it is smaller than
    128 kB.
    """
    from whydrop.recording.metadata import host, network

    items = Items()
    host.gather(items)
    items.try_("network", lambda: network.gather(items, targets))
    return _limited({**items.found, "not_gathered": items.missing})


def with_after(before: dict[str, Any], targets: Sequence[str] = ()) -> dict[str, Any]:
    """``before`` with what a test may have changed beside it, under keys that end in ``_after``."""
    from whydrop.recording.metadata import network

    items = Items()
    items.try_("network", lambda: network.gather(items, targets))
    later = items.found.get("interfaces", {})
    both = {}
    for name, interface in before.get("interfaces", {}).items():
        after = {key: later.get(name, {}).get(key) for key in _CHANGING}
        both[name] = {**interface, **{f"{key}_after": value for key, value in after.items() if value is not None}}
    return _limited({**before, "interfaces": both}) if both else before


def interfaces(metadata: dict[str, Any]) -> list[str]:
    """The names of the interfaces that packets to the targets leave by, of what :func:`gather` returned."""
    return sorted(metadata.get("interfaces", {}))


def _limited(metadata: dict[str, Any]) -> dict[str, Any]:
    for key in _DISPENSABLE:
        if len(json.dumps(metadata, default=str)) < MOST_BYTES:
            break
        if key in metadata:
            metadata = {name: value for name, value in metadata.items() if name != key}
            metadata["not_gathered"] = [*metadata.get("not_gathered", []), f"{key}: too much of it to be kept"]
    return metadata
