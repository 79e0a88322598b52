"""The sampler: a thread in Rust that asks the kernel for its sockets at even times (``crates/sockets``)."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.errors import Error
from whydrop.monitoring.sockets.selection import Wanted

# The limit of rows that Python has not taken yet: some minutes of a thousand busy connections.
_MOST_BYTES = 256 * 1024 * 1024
# Payload is counted in intervals no shorter than this, as in Flent: shorter ones show single round trips.
INTERVAL_S = 0.2
# An idle connection is written this often, so that a series on a grid (of steps of INTERVAL_S) has no gaps.
_QUIET_S = 1.0


class SamplingError(Error):
    """The kernel does not list its sockets; the message says why and what to try."""


@dataclass(frozen=True)
class Taken:
    """The samples since the last call.

    Attributes:
        frames: rows by the tables of a recording; ``datagrams``, which is no such table, has the queues of UDP sockets.
        connections: new ones, and those with changed facts.
        ended: numbers of flows, and when each was last seen.
        lost_rows: rows dropped because they were not taken in time.
    """

    frames: dict[str, pl.DataFrame]
    connections: list[dict[str, Any]]
    ended: list[tuple[int, int]]
    lost_rows: int


class Sampler:
    """Samples from its creation until :meth:`stop`."""

    def __init__(self, wanted: Wanted, every_s: float, *, datagrams: bool = False) -> None:
        """Begin.

        Raises:
            SamplingError: the kernel does not answer, or does not support this selection.
        """
        config = {
            **wanted.config(),
            "every_ns": max(1, round(every_s * 1e9)),
            "interval_ns": round(max(every_s, INTERVAL_S) * 1e9),
            "quiet_ns": round(_QUIET_S * 1e9),
            "most_bytes": _MOST_BYTES,
            "datagrams": datagrams,
        }
        try:
            self._sampler = _core.SocketSampler(json.dumps(config))
        except OSError as reason:
            raise SamplingError(_in_words(reason, wanted)) from reason
        except ValueError as reason:
            raise SamplingError(str(reason)) from None

    def take(self) -> Taken:
        """Take the samples since the last call."""
        tables, connections, ended, lost_rows = self._sampler.take()
        return Taken({name: pl.DataFrame(table) for name, table in tables}, connections, ended, lost_rows)

    def standing(self) -> dict[str, Any]:
        """Its state: ``connections``, ``problem``, ``ends_lost``, ``ends_told``, ``processes_gone``."""
        return self._sampler.standing()

    def stop(self) -> None:
        """Poll for the last time; the last rows can be taken afterwards."""
        self._sampler.stop()


def _in_words(reason: OSError, wanted: Wanted) -> str:
    if reason.errno == errno.EINVAL and wanted.cgroups:
        return "this kernel cannot select sockets by control group (Linux 5.9 and later can): select by --pid instead"
    advice = {
        errno.ENOENT: ": it has no inet_diag; try `modprobe tcp_diag` as root",
        errno.EPROTONOSUPPORT: ": it was built without inet_diag (CONFIG_INET_DIAG)",
        errno.EPERM: ": netlink sockets are forbidden here, usually by a container's seccomp profile",
        errno.EACCES: ": netlink sockets are forbidden here",
        errno.EMFILE: ": too many files are open; try `ulimit -n 4096`",
    }.get(reason.errno or 0, "")
    return f"the kernel does not list its sockets ({reason.strerror or reason}){advice}"
