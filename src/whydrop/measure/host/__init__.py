"""Facts about this host: gathered before and after a test; counters, sampled while it runs.

The far end gathers its own with the same functions and sends them to the client.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from whydrop.measure.host.counters import CounterSampler
from whydrop.measure.host.items import Items

__all__ = ["CounterSampler", "gather", "interfaces", "with_after"]

# The most that a far end may send to its client.
MOST_BYTES = 128 * 1024

# Properties of an interface that may change during a test.
_CHANGING = ("qdiscs", "classes", "byte_queue_limits", "carrier_changes", "flow_control")

# Left out in this order if the whole is larger.
_DISPENSABLE = ("modules", "addresses", "gateways", "interfaces", "sysctls")


def gather(targets: Sequence[str] = ()) -> dict[str, Any]:
    """Facts about this host and its route to each target (addresses, or names that can be resolved).

    Nothing raises: ``not_gathered`` lists the facts that could not be found, with the reason. As JSON the result is
    smaller than 128 kB.
    """
    from whydrop.measure.host import network, system

    items = Items()
    system.gather(items)
    items.try_("network", lambda: network.gather(items, targets))
    return _limited({**items.found, "not_gathered": items.missing})


def with_after(before: dict[str, Any], targets: Sequence[str] = ()) -> dict[str, Any]:
    """``before``, with the values after the test under keys that end in ``_after``."""
    from whydrop.measure.host import network

    items = Items()
    items.try_("network", lambda: network.gather(items, targets))
    later = items.found.get("interfaces", {})
    both = {}
    for name, interface in before.get("interfaces", {}).items():
        after = {key: later.get(name, {}).get(key) for key in _CHANGING}
        both[name] = {**interface, **{f"{key}_after": value for key, value in after.items() if value is not None}}
    return _limited({**before, "interfaces": both}) if both else before


def interfaces(metadata: dict[str, Any]) -> list[str]:
    """The names of the interfaces by which packets to the targets leave, from the result of :func:`gather`."""
    return sorted(metadata.get("interfaces", {}))


def _limited(metadata: dict[str, Any]) -> dict[str, Any]:
    for key in _DISPENSABLE:
        if len(json.dumps(metadata, default=str)) < MOST_BYTES:
            break
        if key in metadata:
            metadata = {name: value for name, value in metadata.items() if name != key}
            metadata["not_gathered"] = [*metadata.get("not_gathered", []), f"{key}: too large to be kept"]
    return metadata
