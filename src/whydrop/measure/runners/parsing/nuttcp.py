"""nuttcp's lines for programs (``-fparse``): key=value, counted at the receiver in both directions."""

from __future__ import annotations

from whydrop.measure.runners.parsing.base import Parser, Timeline, ns, number, whole

_MEGABYTE = 1 << 20
# Facts from the last line.
_COUNTS = {"retransmits": "retrans", "lost_packets": "drop", "packets": "pkt"}
_MEASURES = {"handshake_rtt_ms": "rtt_ms", "sender_cpu_percent": "tx_cpu", "receiver_cpu_percent": "rx_cpu"}


class NuttcpParser(Parser):
    """Rows of ``intervals``, and of ``tcp_info`` where it reports the sender's retransmissions."""

    def __init__(self, flow: int) -> None:
        super().__init__(flow)
        self._timeline = Timeline()
        self._at_s = 0.0
        self._bytes = 0.0
        self._packets = self._lost = 0
        self._retransmits = 0
        self._sent: list[tuple[float, float]] = []

    def line(self, text: str, arrived_ns: int, /) -> None:
        """An interval, the total, or a complaint."""
        if not text.strip():
            return
        if "Error:" in text:
            self.failure = text.partition("Error:")[2].strip()
            return
        pairs = dict(word.split("=", 1) for word in text.split() if "=" in word)
        amount, rate = number(pairs.get("megabytes")), number(pairs.get("rate_Mbps"))
        if amount is None or rate is None:
            self.not_understood(text)
        elif "real_sec" in pairs:
            self._interval(amount, rate, pairs, text, arrived_ns)
        else:
            self._total(amount, rate, pairs, arrived_ns)

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Such as a connection that was refused."""
        if self.failure is None and text.strip() and "option only supported" not in text and "Warning=" not in text:
            self.failure = text.strip()

    def _interval(self, amount: float, rate: float, pairs: dict[str, str], text: str, arrived_ns: int) -> None:
        payload_bytes, rate_bps = amount * _MEGABYTE, rate * 1e6
        # The printed length has a resolution of 10 ms; that from amount and rate is a few microseconds.
        length_s = payload_bytes * 8 / rate_bps if rate_bps > 0 else number(pairs["real_sec"])
        if length_s is None or not 0 < length_s < 1e6:
            self.not_understood(text)
            return
        if (sent := number(pairs.get("tx_megabytes"))) is not None:
            self._sent.append((length_s, sent))
        self._add(length_s, payload_bytes, rate_bps, _received(pairs), whole(pairs.get("drop")), arrived_ns)
        if (retransmits := whole(pairs.get("retrans"))) is not None:
            self._retransmits += retransmits
            time_ns = (self._timeline.zero_ns or 0) + ns(self._at_s)
            self.rows.add("tcp_info", flow=self.flow, time_ns=time_ns, retransmitted_packets=self._retransmits)

    def _add(
        self,
        length_s: float,
        payload_bytes: float,
        rate_bps: float,
        packets: int | None,
        lost: int | None,
        arrived_ns: int,
    ) -> None:
        start_s, self._at_s = self._at_s, self._at_s + length_s
        self._bytes += payload_bytes
        self._packets += packets or 0
        self._lost += lost or 0
        start_ns, end_ns = self._timeline.place(start_s, self._at_s, arrived_ns=arrived_ns)
        self.rows.add(
            "intervals",
            flow=self.flow,
            start_ns=start_ns,
            end_ns=end_ns,
            payload_bytes=round(payload_bytes),
            goodput_bps=rate_bps,
            packets=packets,
            lost=lost,
        )

    def _total(self, amount: float, rate: float, pairs: dict[str, str], arrived_ns: int) -> None:
        self._sending(number(pairs.get("tx_megabytes")))
        self._last_interval(amount * _MEGABYTE, rate * 1e6, pairs, arrived_ns)
        self.facts |= {"received_bytes": round(amount * _MEGABYTE), "received_bps": rate * 1e6}
        known: dict[str, float | None] = {fact: whole(pairs.get(key)) for fact, key in _COUNTS.items()}
        known |= {fact: number(pairs.get(key)) for fact, key in _MEASURES.items()}
        self.facts |= {fact: value for fact, value in known.items() if value is not None}

    def _sending(self, sent_megabytes: float | None) -> None:
        """How long the sender took, by what it sent in intervals between the first and the last."""
        between = self._sent[1:-1]
        seconds, megabytes = sum(one[0] for one in between), sum(one[1] for one in between)
        if sent_megabytes is not None and megabytes > 0:
            self.facts["sending_s"] = sent_megabytes / megabytes * seconds

    def _last_interval(self, payload_bytes: float, rate_bps: float, pairs: dict[str, str], arrived_ns: int) -> None:
        """Add the interval that nuttcp does not print: from its last line about an interval to the end."""
        rest_bytes = payload_bytes - self._bytes
        rest_s = payload_bytes * 8 / rate_bps - self._at_s if rate_bps > 0 else 0.0
        # its own rounding of amounts and rates leaves a little
        if rest_s < 0.005 or rest_bytes < 0:
            return
        packets, lost = _received(pairs), whole(pairs.get("drop"))
        packets = max(0, packets - self._packets) if packets is not None else None
        lost = lost - self._lost if lost is not None else None
        self._add(rest_s, rest_bytes, rest_bytes * 8 / rest_s, packets, lost, arrived_ns)


def _received(pairs: dict[str, str]) -> int | None:
    """``pkt`` counts those that were sent: what arrived is less by the drops."""
    packets, dropped = whole(pairs.get("pkt")), whole(pairs.get("drop"))
    return packets - (dropped or 0) if packets is not None else None
