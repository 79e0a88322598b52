"""Facts about this host: gathered before and after a test; counters, sampled while it runs.

The far end gathers its own with the same functions (`crates/host`) and sends them to the client.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whydrop import _core
from whydrop.measure.host.counters import CounterSampler

__all__ = ["CounterSampler", "gather", "interfaces", "with_after"]


def gather(targets: Sequence[str] = ()) -> dict[str, Any]:
    """Facts about this host and its route to each target (addresses, or names that can be resolved).

    Nothing raises: ``not_gathered`` lists the facts that could not be found, with the reason. As JSON the result is
    smaller than 128 kB.
    """
    found: dict[str, Any] = json.loads(_core.host_metadata([_known(target) for target in targets]))
    found["whydrop"]["revision"] = _revision()
    return found


def with_after(before: dict[str, Any], targets: Sequence[str] = ()) -> dict[str, Any]:
    """``before``, with the values after the test under keys that end in ``_after``."""
    found: dict[str, Any] = json.loads(
        _core.host_metadata_after(json.dumps(before), [_known(target) for target in targets])
    )
    return found


def interfaces(metadata: dict[str, Any]) -> list[str]:
    """The names of the interfaces by which packets to the targets leave, from the result of :func:`gather`."""
    return sorted(metadata.get("interfaces", {}))


def _known(target: str) -> tuple[str, str | None, str]:
    """A target, and its address or the reason for none."""
    try:
        return target, str(ipaddress.ip_address(target.partition("%")[0])), ""
    except ValueError:
        pass
    try:
        return target, str(socket.getaddrinfo(target, None, type=socket.SOCK_DGRAM)[0][4][0]).partition("%")[0], ""
    except (OSError, UnicodeError) as reason:
        return target, None, getattr(reason, "strerror", None) or str(reason)


@functools.cache
def _revision() -> str | None:
    """``git describe`` of the checkout that this runs from, if it does; as of the process's first run."""
    import subprocess

    top = Path(__file__).resolve().parents[4]
    if not (top / ".git").exists():
        return None
    command = ["git", "-C", str(top), "describe", "--always", "--dirty", "--tags"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
