"""The end section of iperf3: what each stream came to as a whole, of which the far end's part stands nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whydrop.formats.files import number

Object = dict[str, Any]


@dataclass(frozen=True)
class Whole:
    """The totals of one stream, as iperf3 said them at its end; ``None`` where it did not, or never heard them.

    Attributes:
        reported: its part of the end section.
        payload_bytes, mean_bps: what arrived.
        sent_bytes: by the sender's count.
        retransmitted: segments.
        sent_packets, lost_packets, jitter_ms: of UDP, as the receiver counted them.
    """

    reported: Object
    payload_bytes: float | None = None
    mean_bps: float | None = None
    seconds: float | None = None
    sent_bytes: float | None = None
    retransmitted: float | None = None
    sent_packets: float | None = None
    lost_packets: float | None = None
    jitter_ms: float | None = None


class End:
    """The end section of one run."""

    def __init__(self, content: Object) -> None:
        self._end = as_object(content.get("end"))
        # The ends exchange results last: after an error there were none, and zeros stand for the far end's.
        self._exchanged = bool(self._end) and not content.get("error")

    @property
    def is_there(self) -> bool:
        """True if iperf3 came to write one."""
        return bool(self._end)

    def congestion_control(self) -> str | None:
        """The sender's."""
        algorithm = self._end.get("sender_tcp_congestion")
        return algorithm if isinstance(algorithm, str) else None

    def own_counts(self) -> Iterator[tuple[int, Object]]:
        """Socket and totals of each stream as this end counted them, for runs without intervals (``-i 0``)."""
        for stream in as_objects(self._end.get("streams")):
            udp, sender, receiver = (as_object(stream.get(key)) for key in ("udp", "sender", "receiver"))
            own = udp or (receiver if sender.get("sender") is False else sender)
            if isinstance(own.get("socket"), int) and _positive(own.get("bytes")) is not None:
                yield own["socket"], own

    def of(self, socket: int, *, is_upload: bool, is_alone: bool) -> Whole:
        """The totals of a stream; ``is_alone`` if no other stream has its direction."""
        for stream in as_objects(self._end.get("streams")):
            if any(as_object(part).get("socket") == socket for part in stream.values()):
                udp = as_object(stream.get("udp"))
                return self._datagrams(stream, udp, is_upload, is_alone) if udp else self._bytes(stream, is_upload)
        return Whole({})

    def _bytes(self, stream: Object, is_upload: bool) -> Whole:
        sender, receiver = as_object(stream.get("sender")), as_object(stream.get("receiver"))
        arrived, sent = _positive(receiver.get("bytes")), _positive(sender.get("bytes"))
        again = number(sender.get("retransmits"))
        # The far end reports the retransmissions of a download.
        is_known = again is not None and again >= 0 and sent is not None and (is_upload or self._exchanged)
        return Whole(
            stream,
            payload_bytes=arrived,
            mean_bps=number(receiver.get("bits_per_second")) if arrived is not None else None,
            sent_bytes=sent,
            retransmitted=again if is_known else None,
        )

    def _datagrams(self, stream: Object, udp: Object, is_upload: bool, is_alone: bool) -> Whole:
        packets, lost, size = (number(udp.get(key)) for key in ("packets", "lost_packets", "bytes"))
        seconds = _positive(udp.get("seconds"))
        if not is_upload:
            # A server writes zeros of what it received: its intervals have the values.
            rate = number(udp.get("bits_per_second")) if _positive(size) is not None else None
            return Whole(stream, _positive(size), rate, seconds, jitter_ms=number(udp.get("jitter_ms")))
        received = as_object(self._end.get("sum_received"))
        if not self._exchanged or not packets or lost is None or size is None or lost > packets:
            return Whole(stream, sent_bytes=size)
        # From version 3.8 on; 0 is what stands there without a result.
        if "bytes" in received and _positive(received.get("bytes")) is None:
            return Whole(stream, sent_bytes=size)
        # Packets that came late were counted as lost before, by some versions once too often.
        lost = max(0.0, lost)
        arrived = size * (packets - lost) / packets
        if is_alone and _positive(received.get("seconds")) is not None and received.get("sender") is not True:
            arrived, seconds = number(received["bytes"]) or arrived, number(received["seconds"])
        rate = arrived * 8 / seconds if seconds else None
        return Whole(stream, arrived, rate, seconds, size, None, packets, lost, number(udp.get("jitter_ms")))


def as_object(value: Any) -> Object:
    """An object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Object]:
    """The objects in a list; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _positive(value: Any) -> float | None:
    found = number(value)
    return found if found is not None and found > 0 else None
