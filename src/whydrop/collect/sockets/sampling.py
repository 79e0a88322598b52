"""The sampler: a thread in Rust that asks the kernel for its sockets at even times (``crates/sockets``)."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.collect.sockets.wanted import Wanted
from whydrop.errors import Error

# Of rows that Python has not taken yet: some minutes of a thousand busy connections.
_MOST_BYTES = 256 * 1024 * 1024
# Payload is put into intervals no shorter than this, as Flent's are: shorter ones see single round trips.
INTERVAL_S = 0.2
# A connection at rest is written so often, so that a series on a grid (of steps of INTERVAL_S) has no gaps.
_QUIET_S = 1.0


class SamplingError(Error):
    """The kernel does not tell of its sockets; the message says why and what to try."""


@dataclass(frozen=True)
class Taken:
    """The batch of what was seen since the last time.

    Attributes:
        frames: rows by the tables of a recording; ``datagrams``, which has none there, has the queues of UDP sockets.
        connections: those that are new, or of which something else is known now.
        ended: numbers of flows, and when each was there last.
        lost_rows: that were thrown away because nobody took them.
    """

    frames: dict[str, pl.DataFrame]
    connections: list[dict[str, Any]]
    ended: list[tuple[int, int]]
    lost_rows: int


class Sampler:
    """Samples from when it is made until :meth:`stop`."""

    def __init__(self, wanted: Wanted, every_s: float, *, datagrams: bool = False) -> None:
        """Begin.

        Raises:
            SamplingError: the kernel does not answer, or not to this question.
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
        """Take what was seen since the last call."""
        tables, connections, ended, lost_rows = self._sampler.take()
        return Taken({name: pl.DataFrame(table) for name, table in tables}, connections, ended, lost_rows)

    def standing(self) -> dict[str, Any]:
        """How it stands: ``connections``, ``problem``, ``ends_lost``, ``ends_told``, ``processes_gone``."""
        return self._sampler.standing()

    def stop(self) -> None:
        """Poll for the last time; the last rows can be taken afterwards."""
        self._sampler.stop()


def _in_words(reason: OSError, wanted: Wanted) -> str:
    if reason.errno == errno.EINVAL and wanted.cgroups:
        return "this kernel cannot choose sockets by control group (Linux 5.9 and later can): choose by --pid instead"
    advice = {
        errno.ENOENT: ": it has no inet_diag; try `modprobe tcp_diag` as root",
        errno.EPROTONOSUPPORT: ": it was built without inet_diag (CONFIG_INET_DIAG)",
        errno.EPERM: ": what runs whydrop (a container's seccomp profile, as a rule) forbids netlink sockets",
        errno.EACCES: ": what runs whydrop forbids netlink sockets",
        errno.EMFILE: ": too many files are open; try `ulimit -n 4096`",
    }.get(reason.errno or 0, "")
    return f"the kernel does not tell of its sockets ({reason.strerror or reason}){advice}"
