"""The connections to watch, as the user selects them and as the sampler takes them."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whydrop.errors import Mistake

# Where systemd mounts control groups of version 2, alone or beside those of version 1.
_CGROUP_ROOTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
_MOST_CGROUPS = 256
_HIGHEST_PORT = 65_535


class WantedError(Mistake):
    """A selection that is not valid; the message names it and says what to try."""


@dataclass(frozen=True)
class Wanted:
    """The selected connections: they match one value of each kind that is given.

    Attributes:
        ports: of either end.
        networks: addresses of the other end, each with its prefix length.
        cgroups: numbers of control groups.
        processes: with their children; ``None``: every process.
        said: as the user wrote it, for the recording.
    """

    ports: tuple[int, ...] = ()
    networks: tuple[tuple[str, int], ...] = ()
    cgroups: tuple[int, ...] = ()
    processes: tuple[int, ...] | None = None
    said: tuple[tuple[str, str], ...] = ()

    def config(self) -> dict[str, Any]:
        """The selection in the sampler's form."""
        return {
            "ports": self.ports,
            "networks": self.networks,
            "cgroups": self.cgroups,
            "processes": self.processes,
        }


def wanted(
    ports: Sequence[int] = (),
    destinations: Sequence[str] = (),
    pids: Sequence[int] = (),
    cgroups: Sequence[str] = (),
) -> Wanted:
    """Check and resolve a selection.

    Raises:
        WantedError: a port is none, a destination is no address and no name, or a process or a control group does not
            exist.
    """
    for port in ports:
        if not 0 < port <= _HIGHEST_PORT:
            raise WantedError(f"--port {port}: expected a port, 1 to {_HIGHEST_PORT}")
    for pid in pids:
        if not Path(f"/proc/{pid}").exists():
            raise WantedError(f"--pid {pid}: there is no such process; `pgrep -a NAME` lists process numbers")
    said = [
        *(("port", str(port)) for port in ports),
        *(("dst", destination) for destination in destinations),
        *(("pid", str(pid)) for pid in pids),
        *(("cgroup", cgroup) for cgroup in cgroups),
    ]
    return Wanted(
        tuple(ports),
        tuple(network for destination in destinations for network in networks(destination)),
        tuple(number for cgroup in cgroups for number in cgroup_numbers(cgroup)),
        tuple(pids) or None,
        tuple(said),
    )


def networks(destination: str) -> list[tuple[str, int]]:
    """The addresses of a destination, each with its prefix length.

    Raises:
        WantedError: it is not valid.

    >>> networks("192.0.2.0/24"), networks("[2001:db8::7]")
    ([('192.0.2.0', 24)], [('2001:db8::7', 128)])
    """
    text = destination.strip().removeprefix("[").removesuffix("]")
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        if "/" in text:
            raise WantedError(
                f"--to {destination}: expected an address, a prefix such as 192.0.2.0/24 or 2001:db8::/32, or a name"
            ) from None
        return _resolved(destination, text)
    return [(str(network.network_address), network.prefixlen)]


def _resolved(destination: str, name: str) -> list[tuple[str, int]]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as reason:
        why = reason.strerror if isinstance(reason, OSError) else "not a valid host name"
        raise WantedError(
            f"--to {destination}: neither an address nor a name that has one ({why}). Give an address, a prefix "
            "such as 192.0.2.0/24, or a host name"
        ) from None
    addresses = dict.fromkeys(str(place[4][0]).partition("%")[0] for place in found)
    return [(address, 128 if ":" in address else 32) for address in addresses]


def cgroup_numbers(path: str, roots: Sequence[Path] = _CGROUP_ROOTS) -> list[int]:
    """The numbers (inodes) of a control group of version 2 and of the groups in it.

    Raises:
        WantedError: there is no such group.
    """
    root = next((root for root in roots if (root / "cgroup.controllers").exists()), None)
    if root is None:
        raise WantedError(
            f"--cgroup {path}: this host has no control groups of version 2 under {' or '.join(map(str, roots))}; "
            "select by --pid instead"
        )
    given = Path(path)
    folder = given if given.is_relative_to(root) else root / path.lstrip("/")
    if not (folder / "cgroup.procs").exists():
        raise WantedError(
            f"--cgroup {path}: there is no control group {folder}; `systemd-cgls` or `cat /proc/PID/cgroup` shows "
            "paths, such as system.slice/nginx.service"
        )
    folders = [Path(one) for one, _, _ in os.walk(folder)]
    if len(folders) > _MOST_CGROUPS:
        raise WantedError(
            f"--cgroup {path}: {len(folders)} control groups, at most {_MOST_CGROUPS} can be watched; "
            "select one farther down"
        )
    return [one.stat().st_ino for one in folders]
