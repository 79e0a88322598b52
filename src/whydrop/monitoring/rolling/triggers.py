"""Triggers: what makes a rolling capture keep its packets, judged by the kernel's state of this host's connections."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from whydrop.errors import Mistake
from whydrop.monitoring.rolling.filters import Ends, Term
from whydrop.monitoring.sockets import limits
from whydrop.monitoring.sockets.connections import Connections
from whydrop.monitoring.sockets.limits import Board
from whydrop.monitoring.sockets.sampler import Sampler
from whydrop.monitoring.sockets.selection import Wanted
from whydrop.text.quantities import duration, plural

EVERY_S = 0.25
# Retransmissions are counted over this time.
WITHIN_S = 1.0
# A limit that is named for one reading only is no state.
_LASTING = 2
NETWORK = "network"
LIMITS = (
    NETWORK,
    limits.RECEIVE_WINDOW,
    limits.SEND_BUFFER,
    limits.APPLICATION,
    limits.LOSS_RECOVERY,
    limits.SLOW_START,
    limits.CONGESTION_WINDOW,
    limits.PACING,
)
# The path holds the sender back: it recovers from a loss, or waits for acknowledgments of what it may have in flight.
_OF_NETWORK = (limits.LOSS_RECOVERY, limits.CONGESTION_WINDOW)


class TriggerError(Mistake):
    """A trigger that does not exist."""


@dataclass(frozen=True)
class Triggers:
    """The triggers that are set.

    Attributes:
        loss_packets: segments retransmitted by one connection within one second; ``None``: not set.
        delay_s: smoothed round-trip time of a connection that is in use; ``None``: not set.
        limits: what limits a connection, in the words of ``whydrop watch``, or ``network``.
    """

    loss_packets: int | None = None
    delay_s: float | None = None
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that could not fire as they say."""
        if self.loss_packets is not None and self.loss_packets < 1:
            raise TriggerError("loss: expected at least 1 retransmitted segment")
        if self.delay_s is not None and not 0 < self.delay_s < 3600:
            raise TriggerError("delay: expected a round-trip time of more than 0 s, and less than 1 h")
        unknown = sorted(set(self.limits) - set(LIMITS))
        if unknown:
            raise TriggerError(f"there is no limit {unknown[0]!r}; there are {', '.join(LIMITS)}")

    @property
    def are_set(self) -> bool:
        """True if one of them is set."""
        return self.loss_packets is not None or self.delay_s is not None or bool(self.limits)


@dataclass(frozen=True)
class Fired:
    """A trigger that has fired.

    Attributes:
        kind: ``loss``, ``delay``, ``verdict`` or ``hand``.
        words: what was seen.
        at_s: when, as time of the monotonic clock.
        time_ns: when, since the Unix epoch.
    """

    kind: str
    words: str
    at_s: float
    time_ns: int


def fired(kind: str, words: str) -> Fired:
    """A trigger that fires now."""
    return Fired(kind, words, time.monotonic(), time.time_ns())


class Judge:
    """Judges readings of connections; it knows which ones went on for how long."""

    def __init__(self, triggers: Triggers, term: Term | None) -> None:
        """Judge by these triggers the connections that pass the filter."""
        self._triggers = triggers
        self._term = term
        self._sent_again: dict[int, deque[tuple[float, int]]] = {}
        self._lasting: dict[int, tuple[str, int]] = {}

    def judge(self, rows: list[dict[str, Any]], ends: Callable[[int], Ends | None], now_s: float) -> Fired | None:
        """The first trigger that these readings fire; ``rows`` are those of a :class:`Board`."""
        found = None
        for row in rows:
            of = ends(row["flow"])
            if of is None or (self._term is not None and not self._term.matches(of)):
                continue
            # Each connection is looked at, since the next reading counts on this one.
            found = self._one(row, of, now_s) or found
        here = {row["flow"] for row in rows}
        both: tuple[MutableMapping[int, Any], ...] = (self._sent_again, self._lasting)
        for known in both:
            for gone in known.keys() - here:
                del known[gone]
        return found

    def _one(self, row: dict[str, Any], ends: Ends, now_s: float) -> Fired | None:
        name = " > ".join(
            f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            for address, port in zip(ends.addresses, ends.ports, strict=True)
        )
        return self._loss(row, name, now_s) or self._delay(row, name) or self._limit(row, name)

    def _loss(self, row: dict[str, Any], name: str, now_s: float) -> Fired | None:
        if self._triggers.loss_packets is None:
            return None
        # A connection that is new to the judge may be old: what it has lost before is not of now.
        seen = self._sent_again.setdefault(row["flow"], deque())
        seen.append((now_s, row["retransmitted"] or 0))
        while seen[0][0] < now_s - WITHIN_S:
            seen.popleft()
        number = sum(packets for _, packets in seen)
        if number < self._triggers.loss_packets:
            return None
        return fired("loss", f"{name} retransmitted {plural(number, 'segment')} within {duration(WITHIN_S)}")

    def _delay(self, row: dict[str, Any], name: str) -> Fired | None:
        wanted = self._triggers.delay_s
        if wanted is None or row["limit"] == limits.IDLE or row["srtt_ns"] is None or row["srtt_ns"] < wanted * 1e9:
            return None
        return fired("delay", f"the round-trip time of {name} is {duration(row['srtt_ns'] / 1e9)}")

    def _limit(self, row: dict[str, Any], name: str) -> Fired | None:
        word = row["limit"]
        is_wanted = word in self._triggers.limits or (NETWORK in self._triggers.limits and word in _OF_NETWORK)
        if not is_wanted or row["state"] != "established":
            self._lasting.pop(row["flow"], None)
            return None
        before, times = self._lasting.get(row["flow"], (word, 0))
        self._lasting[row["flow"]] = word, times + 1 if before == word or NETWORK in self._triggers.limits else 1
        if self._lasting[row["flow"]][1] < _LASTING:
            return None
        return fired("verdict", f"{name} is limited by: {word}")


class Watching:
    """The connections of this host, read now and then."""

    def __init__(self, triggers: Triggers, term: Term | None) -> None:
        """Begin.

        Raises:
            whydrop.Error: the kernel does not list its sockets.
        """
        self._sampler = Sampler(Wanted(), EVERY_S / 2)
        self._connections, self._board = Connections(lambda _: {}), Board()
        self._judge = Judge(triggers, term)

    def look(self) -> Fired | None:
        """The trigger that fires now, if one does."""
        taken = self._sampler.take()
        self._connections.take(taken)
        self._board.take(taken.frames.get("tcp_info"), self._connections)
        rows = self._board.rows(self._connections).to_dicts()
        return self._judge.judge(rows, self._ends, time.monotonic())

    def problem(self) -> str:
        """Why the kernel does not say how connections are; empty if it does."""
        wrong = self._sampler.standing()["problem"]
        return f"a poll of the sockets failed, so triggers may not fire: {wrong}" if wrong else ""

    def _ends(self, flow: int) -> Ends | None:
        found = self._connections.there.get(flow)
        if found is None:
            return None
        of = found.sampled
        return Ends((of["local_address"], of["remote_address"]), (of["local_port"], of["remote_port"]))

    def close(self) -> None:
        """End the readings."""
        self._sampler.stop()
