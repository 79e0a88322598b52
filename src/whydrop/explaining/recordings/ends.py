"""Recordings of both ends of the same connections: one account, by what each kernel saw.

The connections are matched by their ends. The sender's recording is explained; the receiver's adds what only its kernel
knows: packets that arrived, their order, data that waited for the application, and packets that it dropped itself. The
clocks are left as they are. How far they are apart follows from the counts of bytes: data arrives after it was sent and
before it is acknowledged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from whydrop.explaining.recordings.document import RecordingAnalysis, of_recording
from whydrop.explaining.recordings.measures.series import Times, Values, begins_of_polls_ns, read_from_ns
from whydrop.explaining.recordings.wording import phrase
from whydrop.recording.document import json_object
from whydrop.recording.errors import RecordingError
from whydrop.recording.recording import Recording

Json = dict[str, Any]

_SENT = (
    "time_ns", "sent_data_packets", "retransmitted_packets", "unacked_packets", "acked_bytes", "sent_bytes",
    "retransmitted_bytes",
)  # fmt: skip
_RECEIVED = ("time_ns", "received_data_packets", "received_bytes", "out_of_order_packets", "receive_queue_bytes")


@dataclass(frozen=True)
class Both:
    """One connection at both ends; ``None`` where an end does not show it.

    Attributes:
        sent: packets with data that left the sender, retransmissions counted again.
        received: packets with data that reached the receiver's TCP.
        missing: of those sent and not still in flight; about, because the last samples are of different times.
        retransmitted: by the sender.
        out_of_order: packets that came behind others.
        waited_bytes: the most that the receiver's application left unread.
        ahead_s: the receiver's clock is ahead of the sender's by between these; ``None`` where counts do not show it.
    """

    flow: str
    sent: float | None
    received: float | None
    missing: float | None
    retransmitted: float | None
    out_of_order: float | None
    waited_bytes: float | None
    ahead_s: tuple[float, float] | None

    @property
    def needless(self) -> float | None:
        """Retransmissions beyond the packets that are missing."""
        if self.missing is None or self.retransmitted is None:
            return None
        return max(0.0, self.retransmitted - self.missing)


def explain(first: Recording, second: Recording) -> RecordingAnalysis:
    """Explain two recordings of `whydrop watch`, one at each end of the same connections, in either order.

    Raises:
        RecordingError: they have no connection in common, or one of them cannot be read.
    """
    pairs = {(sender, receiver): _matched(sender, receiver) for sender, receiver in ((first, second), (second, first))}
    (sender, receiver), flows = max(pairs.items(), key=lambda pair: sum(carried for *_, carried in pair[1]))
    if not flows:
        raise RecordingError(
            f"{first.path} and {second.path} have no connection in common: no address and port of one is in the other. "
            "Expected recordings of `whydrop watch` at both ends, at the same time, without address translation between"
        )
    account = of_recording(sender).document()
    found = {flow: _measured(sender, number, receiver, other, flow) for flow, number, other, _ in flows}
    for verdict in account["verdicts"]:
        for flow in verdict["flows"]:
            if flow in found:
                fact = _fact(found[flow])
                verdict["facts"].append(fact)
                verdict["evidence"].append(phrase(fact))
    other = of_recording(receiver).document()
    account["recordings"] += other["recordings"]
    account["verdicts"] += [one for one in other["verdicts"] if one["cause"] == "host-drop"]
    account["ends"] = [_entry(one) for one in found.values()]
    return RecordingAnalysis(account)


def _matched(sender: Recording, receiver: Recording) -> list[tuple[str, int, int, int]]:
    """Connections that one recording sends and the other receives: name, both numbers, payload."""
    sent = sender.table("flows").filter((pl.col("kind") == "tcp") & (pl.col("direction") == "up"))
    came = receiver.table("flows").filter((pl.col("kind") == "tcp") & (pl.col("direction") == "down"))
    names = {row["name"]: row for row in came.iter_rows(named=True)}
    found = []
    for row in sent.iter_rows(named=True):
        other = names.get(row["name"])
        number = None if other is None else _socket(receiver, other)
        if number is not None:
            found.append((row["name"], row["flow"], number, row["payload_bytes"] or 0))
    return found


def _socket(recording: Recording, received: Json) -> int | None:
    """The number of the flow that has the samples of the socket of a received flow."""
    cookie = json_object(received["facts"]).get("cookie")
    for row in recording.table("flows").filter(pl.col("direction") == "up").iter_rows(named=True):
        if cookie is not None and json_object(row["facts"]).get("cookie") == cookie and row["host"] == received["host"]:
            number: int = row["flow"]
            return number
    return None


def _measured(sender: Recording, number: int, receiver: Recording, other: int, flow: str) -> Both:
    sent = sender.of_flow("tcp_info", number, *_SENT).drop_nulls("time_ns").sort("time_ns")
    came = receiver.of_flow("tcp_info", other, *_RECEIVED).drop_nulls("time_ns").sort("time_ns")
    left, arrived = _last(sent, "sent_data_packets"), _last(came, "received_data_packets")
    acked, received_bytes = _last(sent, "acked_bytes"), _last(came, "received_bytes")
    missing = None
    # A recording that ends before the other lacks packets that the path delivered.
    if left is not None and arrived is not None and acked is not None and (received_bytes or 0) >= acked - 1:
        missing = max(0.0, left - arrived - (_last(sent, "unacked_packets") or 0))
    waited = came["receive_queue_bytes"].max()
    return Both(
        flow,
        left,
        arrived,
        missing,
        _last(sent, "retransmitted_packets"),
        _last(came, "out_of_order_packets"),
        None if waited is None else float(waited),  # type: ignore[arg-type]
        _ahead(sent, begins_of_polls_ns(sender), came, begins_of_polls_ns(receiver)),
    )


def _last(rows: pl.DataFrame, column: str) -> float | None:
    known = rows[column].drop_nulls()
    return float(known[-1]) if len(known) else None


def _ahead(
    sent: pl.DataFrame, sent_polls_ns: Times, came: pl.DataFrame, came_polls_ns: Times
) -> tuple[float, float] | None:
    """By how much the receiver's clock is ahead, at least and at most, in seconds.

    A sample was read between the beginning of its poll and its own time, which may be milliseconds apart on a busy
    host: each bound takes the one that is safe for it.
    """
    sent = sent.drop_nulls(["acked_bytes", "sent_bytes", "retransmitted_bytes"])
    came = came.drop_nulls("received_bytes")
    if sent.height < 2 or came.height < 2:
        return None
    new = (sent["sent_bytes"] - sent["retransmitted_bytes"]).to_numpy()
    sent_ns, came_ns = sent["time_ns"].to_numpy(), came["time_ns"].to_numpy()
    sent_from_ns, came_from_ns = read_from_ns(sent_ns, sent_polls_ns), read_from_ns(came_ns, came_polls_ns)
    received = came["received_bytes"].to_numpy()
    # FIN counts as a byte at one end, SYN at the other. A byte that is there had been sent before: after the last
    # sample of the sender that lacks it.
    most = came_ns - _at(sent_from_ns, np.searchsorted(new, received - 1, "left") - 1)
    # The next byte had not come, and so was acknowledged later: no later than the first sample that has it.
    least = came_from_ns - _at(sent_ns, np.searchsorted(sent["acked_bytes"].to_numpy(), received + 2, "left"))
    most, least = most[np.isfinite(most)], least[np.isfinite(least)]
    if not most.size or not least.size:
        return None
    low, high = float(least.max()) / 1e9, float(most.min()) / 1e9
    return (low, high) if low <= high else None


def _at(times_ns: Times, places: Any) -> Values:
    """The times at these places; NaN beyond the ends."""
    inside = (places >= 0) & (places < len(times_ns))
    return np.where(inside, times_ns[np.clip(places, 0, len(times_ns) - 1)].astype(float), math.nan)


def _entry(both: Both) -> Json:
    low, high = both.ahead_s or (None, None)
    return {
        "flow": both.flow,
        "sent_packets": both.sent,
        "received_packets": both.received,
        "missing_packets": both.missing,
        "retransmitted_packets": both.retransmitted,
        "needless_retransmissions": both.needless,
        "out_of_order_packets": both.out_of_order,
        "waited_bytes": both.waited_bytes,
        "receiver_ahead_s": None if low is None else {"low": low, "high": high},
    }


def _fact(both: Both) -> Json:
    values = {name: one for name, one in _entry(both).items() if name != "receiver_ahead_s"}
    low, high = both.ahead_s or (None, None)
    return {"code": "at-both-ends", "values": {**values, "ahead_low_s": low, "ahead_high_s": high}, "packets": []}
