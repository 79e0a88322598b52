"""Trains that a responder sends or receives, with kernel stamps of every packet at both ends."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.measure.clocks import Clocks
from whydrop.measure.depth.rounds import Direction, Round
from whydrop.measure.depth.searching import Search, Seen
from whydrop.measure.depth.trains import Trains
from whydrop.measure.engine import Engine, EngineError
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally
from whydrop.recording import tables

_LEAD_S = 0.1
_LOOK_EVERY_S = 0.1
# Behind its planned end: a queue may take so long to empty.
_GRACE_S = 10.0
# For the responder's report on arrived packets, after the last packet.
_ROWS_PATIENCE_S = 20.0

# Facts of a flow: packets that the receiving kernel dropped from a full socket, and packets read after the last report.
_LOST_BY_RECEIVER = (
    "packets_lost_in_receive_buffer",
    "packets_lost_in_responders_receive_buffer",
    "packets_too_late",
)
# Of all losses: a few more or less do not move a median.
_MOST_LOST_BY_RECEIVER = 0.05

_PACKETS = ["flow", "burst", "sequence", "sent_ns", "left_ns", "is_stamped", "received_ns", "ip_bytes", "marked"]

# Fewer losses say nothing of where they happened, and kernels forget a stamp now and then.
_FEWEST_LOSSES = 4
_FEW_WITHOUT_STAMP = 0.05


# Of nothing nothing is known.
NOTHING: dict[str, Any] = {
    "packets": 0, "lost": 0, "marked": 0, "line_rate_bps": None, "arrival_rate_bps": None, "drain_rate_bps": None,
    "burst_bytes": None, "bucket": None,
    "longest_wait_s": 0.0, "most_packets": 0.0, "most_bytes": 0.0, "lost_found_packets": None, "passed_with_more": 0,
    "limit": None, "byte_basis": None,
    "verdict": {"cause": "unknown", "confidence": 0.0, "parameters": {}, "byte_basis": None}, "at_sender": False,
}  # fmt: skip


class UnusableRoundError(EngineError):
    """A round was measured, but the losses in it are not the path's."""


class PacketTrains(Trains):
    """Packets that were sent so far, and what became of each."""

    search: Search

    def __init__(self, host: FarHost, search: Search) -> None:
        super().__init__(host, search)
        self._packets: list[pl.DataFrame] = []

    def analysis(self) -> dict[str, Any]:
        """The analysis of all packets."""
        if not self._packets:
            return dict(NOTHING)
        kept = pl.concat(self._packets)
        columns = entered(kept).select("flow", "burst", "left_ns", "received_ns", "ip_bytes", "marked")
        found = self.arrived(_core.explain_bursts(*(column.to_list() for column in columns)))
        return {**found, "at_sender": dropped_by_sender(kept)}

    def _note(self, upcoming: Round, bursts: pl.DataFrame, departures: pl.DataFrame | None) -> None:
        """Keep the packets, and what was lost of them."""
        packets = joined(bursts, departures, upcoming.ip_bytes)
        self._packets.append(packets)
        packets = entered(packets)
        seen = self.search.seen.setdefault(upcoming.ip_bytes, Seen())
        seen.longest = max(seen.longest, upcoming.packets)
        seen.lost += int(packets["received_ns"].null_count())
        place = pl.col("sequence") % upcoming.packets
        first = packets.filter(pl.col("received_ns").is_null()).select(place.min()).item()
        if first is not None and upcoming.rate_bps == self.search.rate_cap_bps:
            seen.first_lost = first if seen.first_lost is None else min(first, seen.first_lost)


class ResponderTrains(PacketTrains):
    """Trains of the engine, to a responder or from it."""

    def __init__(self, host: FarHost, search: Search, direction: Direction, version: int, *, ecn: bool) -> None:
        super().__init__(host, search)
        self._direction, self._version, self._ecn = direction, version, ecn
        self._rows: _Rows | None = None

    def kept(self, tally: Tally) -> dict[str, pl.DataFrame]:
        """Rows of an interrupted round."""
        if self._rows is None:
            return {}
        self._rows.drain(tally)
        return self._rows.by_one_clock()

    def flow(self, upcoming: Round, name: str) -> PlannedFlow:
        """The flow that sends a round."""
        return upcoming.flow(name, self.host.name, self._direction, self._version, ecn=self._ecn)

    def send(self, upcoming: Round, tally: Tally, left_s: float) -> dict[str, pl.DataFrame]:
        """Send a round by a session of its own."""
        self._rows = None
        engine = Engine({tally.number: tally.flow}, [self.host])
        with contextlib.closing(engine):
            engine.prepare()
            self._rows = rows = _Rows(engine)
            engine.start(time.monotonic_ns() + int(_LEAD_S * 1e9))
            until_s = min(left_s, upcoming.bursts * upcoming.every_s + _GRACE_S) + time.monotonic()
            while not engine.done() and time.monotonic() < until_s:
                self._look(rows, tally)
            if not engine.done():
                engine.stop()
            # A busy responder may still collect its metadata: it reports arrived packets after that.
            until_s = time.monotonic() + _ROWS_PATIENCE_S
            wanted = upcoming.packets * upcoming.bursts
            while rows.packets < wanted and tally.status != "failed" and time.monotonic() < until_s:
                self._look(rows, tally)
            engine.finish()
            rows.drain(tally)
            self.far.update(engine.far_ends())
        frames = rows.by_one_clock()
        if "bursts" not in frames or tally.status == "failed":
            sent = tally.facts.get("packets_sent", "no")
            raise EngineError(f"{self.host.name}: {tally.message or 'nothing was measured'} ({sent} packets sent)")
        if tally.status == "stopped" and rows.packets < wanted:
            raise EngineError(f"the time was over before all of {tally.flow.name} was sent and reported")
        _check_receiver(frames["bursts"], tally)
        self._note(upcoming, frames["bursts"], frames.get("departures"))
        return frames

    def _look(self, rows: _Rows, tally: Tally) -> None:
        time.sleep(_LOOK_EVERY_S)
        rows.drain(tally)


def _check_receiver(bursts: pl.DataFrame, tally: Tally) -> None:
    """Refuse a round if the path did not cause all its losses.

    Raises:
        UnusableRoundError: the receiving host lost packets in its own buffer, or read them too late.
    """
    lost_there = sum(int(tally.facts.get(name, 0)) for name in _LOST_BY_RECEIVER)
    if lost_there > _MOST_LOST_BY_RECEIVER * bursts["received_ns"].null_count():
        what = f"{lost_there} packets of {tally.flow.name} were lost or read too late at the receiving host"
        raise UnusableRoundError(f"{what}, and not on the path: it was busy, or stopped")


class _Rows:
    """The rows that one round measured."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._clocks = Clocks(engine.places())
        self._frames: dict[str, list[pl.DataFrame]] = {}

    def drain(self, tally: Tally) -> None:
        """Take what came since the last call."""
        frames, endings, facts = self._engine.drain()
        conformed = {name: tables.conform(name, frame) for name, frame in frames.items()}
        self._clocks.note(self._engine.clocks_used(), {name: frame.height for name, frame in conformed.items()})
        for name, frame in conformed.items():
            self._frames.setdefault(name, []).append(frame)
        for ended in endings:
            tally.end(ended.status, ended.message)
        for known in facts.values():
            tally.facts.update(known)

    @property
    def packets(self) -> int:
        """Packets of bursts that are known to have arrived, or to be lost."""
        return sum(frame.height for frame in self._frames.get("bursts", ()))

    def by_one_clock(self) -> dict[str, pl.DataFrame]:
        """All of it, by what is known of the far clock at the end."""
        final = self._engine.clocks()
        return {name: self._clocks.corrected(name, pl.concat(frames), final) for name, frames in self._frames.items()}


def joined(bursts: pl.DataFrame, departures: pl.DataFrame | None, ip_bytes: int) -> pl.DataFrame:
    """Packets with the time at which they left, of table ``bursts`` and ``departures`` of one flow.

    Where the sender's kernel stamps none, that is when they were sent. Single stamps that are missing are between their
    neighbours'; what comes behind the last one has no time.
    """
    packets = bursts.with_columns(ip_bytes=pl.lit(ip_bytes), marked=pl.col("marked").fill_null(value=False))
    if departures is None or not departures.height:
        return packets.with_columns(left_ns="sent_ns", is_stamped=pl.lit(value=True)).select(_PACKETS)
    stamps = departures.unique("sequence", keep="first").select("sequence", "left_ns")
    return (
        packets.join(stamps, on="sequence", how="left")
        .sort("sequence")
        .with_columns(
            pl.col("left_ns").interpolate().over("burst").round().cast(pl.Int64),
            is_stamped=pl.col("left_ns").is_not_null(),
        )
        .select(_PACKETS)
    )


def entered(packets: pl.DataFrame) -> pl.DataFrame:
    """Packets with the time at which they came to the first queue, as ``left_ns``, and without those that never did.

    Where a queue of the sending host dropped them, packets came to it when they were sent.
    """
    if dropped_by_sender(packets):
        return packets.with_columns(left_ns="sent_ns").drop_nulls("left_ns")
    return packets.drop_nulls("left_ns")


def dropped_by_sender(packets: pl.DataFrame) -> bool:
    """True where most losses are of a queue of the sending host: such packets never leave its interface.

    Their kernel stamps those behind them, and all that arrive, but not these.
    """
    # Behind the last stamp nothing may have been sent.
    sent = packets.drop_nulls("left_ns")
    lost, arrived = sent.filter(pl.col("received_ns").is_null()), sent.filter(pl.col("received_ns").is_not_null())
    dropped = lost.height - int(lost["is_stamped"].sum())
    forgotten = arrived.height - int(arrived["is_stamped"].sum())
    return dropped >= _FEWEST_LOSSES and 2 * dropped > lost.height and forgotten <= _FEW_WITHOUT_STAMP * arrived.height
