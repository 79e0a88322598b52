"""A program's flow as this host's kernel sees it: the TCP_INFO of its socket, whatever the program prints."""

from __future__ import annotations

import os
import time

import polars as pl

from whydrop.measure.runners import Outcome, Runner
from whydrop.monitoring.sockets.sampler import Sampler, SamplingError, Taken
from whydrop.monitoring.sockets.selection import Wanted

_EVERY_S = 0.1
# Of the planned time, the share for which a flow must last.
_ENOUGH = 0.7
# A poll may be late by so much.
_SLACK_NS = 50_000_000
_FOREVER_NS = 1 << 62


class ObservedRunner(Runner):
    """A flow of another runner; its payload and TCP_INFO are read from the kernel (``sock_diag``).

    Of the connections that this process and its children have to the host, the one that carries most is the flow; the
    others are of the program's own protocol. Payload counts when it is acknowledged.
    """

    name = "observed"

    def __init__(self, inner: Runner, networks: tuple[tuple[str, int], ...]) -> None:
        super().__init__(inner.flow, inner.number)
        self._inner = inner
        self._wanted = Wanted(networks=networks, processes=(os.getpid(),))
        self._sampler: Sampler | None = None
        self._problem: str | None = None
        self._from_ns = 0
        self._observed: dict[str, pl.DataFrame] = {}
        self._ended_ns: int | None = None

    def check(self) -> str | None:
        """Faults of the program's runner."""
        return self._inner.check()

    def start(self, at_ns: int) -> None:
        """Sample the kernel's sockets, and let the program begin."""
        self._from_ns = at_ns + round(self.flow.start_s * 1e9) + time.time_ns() - time.monotonic_ns()
        try:
            self._sampler = Sampler(self._wanted, _EVERY_S)
        except SamplingError as reason:
            self._problem = str(reason)
        self._inner.start(at_ns)

    def drain(self) -> dict[str, pl.DataFrame]:
        """The kernel's rows, once the flow has ended; what the program counted is not the same thing, and left out."""
        self._note_end()
        self._inner.drain()
        rows, self._observed = self._observed, {}
        return rows

    def done(self) -> bool:
        """True if the program has ended."""
        return self._inner.done()

    def stop(self) -> None:
        """End early."""
        self._inner.stop()

    def finish(self, timeout_s: float) -> Outcome:
        """Wait for the end; only then it is known which connection was the flow."""
        self._note_end()
        found = self._inner.finish(timeout_s)
        if self._sampler is None:
            return Outcome("failed", self._problem or found.message or "the flow was never started", found.facts)
        self._sampler.stop()
        self._observed = rows_of_flow(self._sampler.take(), self.number, self._from_ns, self._until_ns())
        if found.status not in ("complete", "no-data"):
            return found
        lasted_s = ((self._ended_ns or time.time_ns()) - self._from_ns) / 1e9
        if lasted_s < _ENOUGH * (self.flow.duration_s or 0.0):
            words = f"the program ended after {lasted_s:.1f} s of {self.flow.duration_s:g} s"
            return Outcome("failed", words, found.facts)
        if not self._observed:
            return Outcome("failed", self._unseen(), found.facts)
        return Outcome("complete", None, found.facts)

    def _until_ns(self) -> int | None:
        return None if self.flow.duration_s is None else self._from_ns + round(self.flow.duration_s * 1e9)

    def _note_end(self) -> None:
        if self._ended_ns is None and self._inner.done():
            self._ended_ns = time.time_ns()

    def _unseen(self) -> str:
        where = ", ".join(address for address, _ in self._wanted.networks)
        return (
            f"the program ended, but this host's kernel shows no TCP connection of it to {where} that carried data: "
            "does it go through a proxy or a jump host?"
        )


def rows_of_flow(taken: Taken, number: int, from_ns: int, until_ns: int | None = None) -> dict[str, pl.DataFrame]:
    """The tables ``intervals`` and ``tcp_info`` of the connection that sent most, as those of flow ``number``.

    Args:
        taken: samples of connections.
        number: of the flow in the recording.
        from_ns, until_ns: its planned time; what the kernel still sends afterwards is no part of it.
    """
    intervals, info = (taken.frames.get(table) for table in ("intervals", "tcp_info"))
    if intervals is None or info is None:
        return {}
    within = (pl.col("start_ns") >= from_ns - _SLACK_NS) & (pl.col("end_ns") <= (until_ns or _FOREVER_NS) + _SLACK_NS)
    # An even number is what this host sends; the odd one beside it is what it receives.
    sent = intervals.filter((pl.col("flow") % 2 == 0) & within)
    sums = sent.group_by("flow").agg(pl.col("payload_bytes").sum()).sort("payload_bytes", "flow")
    if sums.is_empty() or not sums["payload_bytes"][-1]:
        return {}
    own = pl.col("flow") == sums["flow"][-1]
    found = {"intervals": sent.filter(own).sort("start_ns"), "tcp_info": info.filter(own).sort("time_ns")}
    return {name: frame.with_columns(flow=pl.lit(number, pl.Int32)) for name, frame in found.items()}
