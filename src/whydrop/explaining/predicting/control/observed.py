"""The congestion window of a sender, as its packets and their acknowledgments show it.

A sender that only its congestion window limits has as many segments in flight after each transmission as the window
allows. So the data in flight after a transmission is the window at that time, unless the sender is in loss recovery,
or the receive window or the application limits it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.explaining.explained import Explained

if TYPE_CHECKING:
    from polars import DataFrame

# Segments by which a window is lower than before, if that is no jitter of the capture.
_LEAST_DIP = 3
# So many answers in a row that the sender had not finished; more are jitter.
_MOST_UNFINISHED = 2


@dataclass
class Ack:
    """One acknowledgment, and the answer of the sender.

    Attributes:
        time_ns: when it arrived.
        una: bytes acknowledged so far.
        nxt: bytes sent before it arrived.
        packets: segments that it acknowledges for the first time.
        rtt_ns: round-trip time of the last of them; ``None`` if it was retransmitted.
        flight_bytes: bytes in flight when the last of them was sent.
        state: ``open``, ``recovery``, ``loss`` (after a retransmission timeout) or ``cwr`` (after an ECN echo).
        window: the congestion window in segments after it; ``None`` if it is not known.
        sent: segments of new data sent in answer.
        delivered: bytes acknowledged or selectively acknowledged for the first time.
        is_echo: true if it reports a mark (RFC 3168).
        begins: true if the sender reduces its window at it; a state can follow another of the same name.
    """

    time_ns: int
    una: int
    nxt: int
    packets: int
    rtt_ns: int | None
    flight_bytes: int
    state: str
    window: int | None = None
    sent: int = 0
    delivered: int = 0
    is_echo: bool = False
    begins: bool = False


@dataclass
class Sender:
    """One flow at its sender.

    Attributes:
        segment_bytes: payload of a full segment.
        acks: the acknowledgments in order.
        initial_window: segments sent before the first acknowledgment of data.
        row: the flow in the table ``flows``.
        sends: times of new data and its end in the sequence, in order.
    """

    segment_bytes: int
    acks: list[Ack]
    initial_window: int
    row: dict[str, Any]
    sends: list[tuple[int, int]] = field(default_factory=list)


def sender(found: Explained, flow: int) -> Sender | None:
    """The sender of a flow; ``None`` without data or acknowledgments of them."""
    own = pl.col("flow") == flow
    segments = found.table("segments").filter(own).sort("time_ns")
    acks = found.table("acks").filter(own).sort("time_ns")
    sacks = found.table("sacks").filter(own & ~pl.col("duplicate"))
    if segments.is_empty() or acks.is_empty():
        return None
    row = found.table("flows").row(flow, named=True)
    size = int(segments["payload_bytes"].max())  # type: ignore[arg-type]
    seen = _Reader(size, segments, acks, sacks, row["ecn"] == "classic").read(row)
    return seen if seen.acks else None


def forget_unfinished(acks: list[Ack]) -> None:
    """Forget windows of a sender that had not sent all when the next acknowledgment arrived.

    They are below an earlier one, or in the first round after a recovery; but no window grows by more than what is
    acknowledged, nor comes back in a round.
    """
    known: list[tuple[Ack, int, int, int]] = []
    packets = 0
    opened: int | None = None
    for ack in acks:
        packets += ack.packets
        if ack.state != "open":
            known.clear()
            # After a timeout Hybla's slow start grows by more.
            opened = ack.nxt if ack.state != "loss" else None
        if ack.window is None:
            continue
        while known:
            last, window, most, then = known[-1]
            is_first = opened is not None and ack.una <= opened
            if (window >= most and not is_first) or ack.window <= window + packets - then + is_first:
                break
            last.window = None
            known.pop()
        if known and ack.window >= known[-1][2]:
            _forget_dip(known, ack)
        most = max(known[-1][2], ack.window) if known else ack.window
        known.append((ack, ack.window, most, packets))


def _forget_dip(known: list[tuple[Ack, int, int, int]], ack: Ack) -> None:
    """Forget the windows below the highest one before them, if it is regained in the round in which they began."""
    first = len(known)
    while known[first - 1][1] < known[first - 1][2]:
        first -= 1
    dip = known[first:]
    is_short = 0 < len(dip) <= _MOST_UNFINISHED and ack.una <= dip[0][0].nxt
    if is_short and min(window for _, window, _, _ in dip) <= known[-1][2] - _LEAST_DIP:
        for one, *_ in dip:
            one.window = None
        del known[first:]


class _Reader:
    """Sender's scoreboard, built from the packets in the order of time."""

    def __init__(self, size: int, segments: DataFrame, acks: DataFrame, sacks: DataFrame, is_classic: bool) -> None:
        self.size = size
        self.is_classic = is_classic
        self.segments = segments.select("time_ns", "sequence", "payload_bytes", "kind").rows()
        self.raw = acks.select("time_ns", "acknowledged", "window_bytes", "ecn_echo").rows()
        self.blocks: dict[int, list[tuple[int, int]]] = {}
        for time_ns, start, end in sacks.select("time_ns", "start", "end").iter_rows():
            self.blocks.setdefault(time_ns, []).append((start, end))
        self.una = 0
        self.nxt = 0
        self.high = -1
        self.state = "open"
        self.is_timeout = False
        self.room: int | None = None
        self.sacked: list[tuple[int, int]] = []
        self.first: dict[int, tuple[int, int]] = {}
        self.again: set[int] = set()
        self.acks: list[Ack] = []
        self.sends: list[tuple[int, int]] = []

    def read(self, row: dict[str, Any]) -> Sender:
        for time_ns, is_ack, at in self._events():
            if is_ack:
                self._acknowledged(*self.raw[at])
            else:
                _, sequence, payload, kind = self.segments[at]
                self._sent(time_ns, sequence, payload, kind)
        forget_unfinished(self.acks)
        initial = -(-self.acks[0].nxt // self.size) if self.acks else 0
        return Sender(self.size, self.acks, initial, row, self.sends)

    def _events(self) -> Iterator[tuple[int, bool, int]]:
        sends = ((row[0], False, at) for at, row in enumerate(self.segments))
        acks = ((row[0], True, at) for at, row in enumerate(self.raw))
        # An acknowledgment precedes what is sent at the same time.
        yield from sorted([*sends, *acks], key=lambda event: (event[0], not event[1]))

    def _sent(self, time_ns: int, sequence: int, payload: int, kind: str) -> None:
        end = sequence + payload
        if end > self.nxt:
            self.nxt = end
            self.first[end] = (time_ns, end - self.una)
            self.sends.append((time_ns, end))
            self._window()
            return
        self.again.add(end)
        if self.state in ("open", "cwr") and kind != "tail-loss-probe":
            is_timeout, was = kind == "timeout", self.state
            self.state = "loss" if is_timeout else "recovery"
            if self.acks:
                # Losses while a mark reduces the window do not reduce it again (Linux).
                self.acks[-1].begins = was == "open" or is_timeout
                self.acks[-1].state = self.state
                self.acks[-1].window = None
            self.high = self.nxt
        elif self.state == "recovery" and kind == "timeout":
            self.state = "loss"
            self.high = self.nxt
            self.is_timeout = True

    def _window(self) -> None:
        if not self.acks:
            return
        last = self.acks[-1]
        last.sent += 1
        if self.state != "open" or self.sacked or last.state != "open":
            return
        flight = self.nxt - self.una
        if self.room is not None and flight + 2 * self.size > self.room:
            return
        # Less than half of a segment shows what the application had to send.
        last.window = round(flight / self.size) or None

    def _acknowledged(self, time_ns: int, number: int, window: int | None, is_echo: bool) -> None:
        fresh = [block for block in self.blocks.get(time_ns, ()) if block[1] > max(number, self.una)]
        known = self.sacked
        delivered = self._deliver(number, fresh)
        if number <= self.una and not fresh:
            self.room = window
            return
        rtt_ns, flight = self._round_trip(time_ns, number, known, fresh)
        packets = -(-max(0, number - self.una) // self.size)
        self.una = max(self.una, number)
        begins = self._change_state(is_echo and self.is_classic)
        self.room = window
        self.acks.append(
            Ack(
                *(time_ns, self.una, self.nxt, packets, rtt_ns, flight, self.state),
                delivered=delivered,
                is_echo=is_echo and self.is_classic,
                begins=begins or self.is_timeout,
            )
        )
        self.is_timeout = False

    def _change_state(self, is_echo: bool) -> bool:
        """Leave a state that has ended; return true if a reduction begins."""
        was = self.state
        # The receiver sees the answer to its echo only in data sent after that (RFC 3168, section 6.1.2).
        if was != "open" and self.una >= self.high + (was == "cwr"):
            self.state = "open"
        if self.state != "open":
            return False
        if was in ("recovery", "loss") and self._is_lost():
            # A loss of data sent in the recovery: Linux begins the next one at its end.
            self.state = "recovery"
        elif is_echo:
            self.state = "cwr"
        else:
            return False
        self.high = self.nxt
        return True

    def _is_lost(self) -> bool:
        """True if retransmitted data have not arrived yet."""
        return any(end > self.una and not any(start < end <= stop for start, stop in self.sacked) for end in self.again)

    def _round_trip(
        self, time_ns: int, number: int, known: list[tuple[int, int]], fresh: list[tuple[int, int]]
    ) -> tuple[int | None, int]:
        """Round-trip time of the last segment that was reported for the first time, and the flight when it was sent.

        Neither a retransmitted segment shows it nor one that arrived earlier (RFC 6298, section 3).
        """
        ends = [end for _, end in fresh if end not in self.again]
        acked = {end for end in self.again if self.una < end <= number}
        if not ends and number > self.una and not acked and not any(start < number <= end for start, end in known):
            ends = [number]
        self.again -= acked
        sent = max((self.first[end] for end in ends if end in self.first), default=None)
        return (None, 0) if sent is None else (time_ns - sent[0], sent[1])

    def _deliver(self, number: int, fresh: list[tuple[int, int]]) -> int:
        before = sum(end - start for start, end in self.sacked)
        ranges = sorted([*self.sacked, *fresh])
        merged: list[tuple[int, int]] = []
        una = max(number, self.una)
        for begin, end in ranges:
            if end <= una:
                continue
            start = max(begin, una)
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((start, end))
        self.sacked = merged
        after = sum(end - start for start, end in merged)
        return max(0, una - self.una + after - before)
