"""netperf's interim results (``-D``, key=value by ``-k``): rates of streams, and transactions per second of UDP_RR."""

from __future__ import annotations

import re

from whydrop.measure.runners.parsing.base import Parser, ns, number, stamped_ns, whole

_INTERIM = re.compile(r"^NETPERF_(?P<key>INTERIM_RESULT|INTERVAL|ENDING|UNITS)\[(?P<index>\d{1,9})\]=(?P<value>.*)$")
# Without -k, for people.
_SENTENCE = re.compile(
    r"Interim result:\s+(?P<rate>[\d.]+) (?P<units>\S+) over (?P<length>[\d.]+) seconds ending at (?P<ending>[\d.]+)"
)
_TOTAL = re.compile(r"^(?P<key>[A-Z][A-Z0-9_]+)=(?P<value>.*)$")
_BITS_PER_S = {
    "10^3bits/s": 1e3,
    "10^6bits/s": 1e6,
    "10^9bits/s": 1e9,
    "10^12bits/s": 1e12,
    "bytes/s": 8.0,
    "KBytes/s": 8.0 * 2**10,
    "MBytes/s": 8.0 * 2**20,
    "GBytes/s": 8.0 * 2**30,
}
# What it prints at the end (netperf manual, "Omni output selectors"), and the facts of it.
FACTS = {
    "LOCAL_CONG_CONTROL": "near_congestion_control",
    "REMOTE_CONG_CONTROL": "far_congestion_control",
    "TRANSPORT_MSS": "mss_bytes",
    "LOCAL_TRANSPORT_RETRANS": "near_retransmits",
    "REMOTE_TRANSPORT_RETRANS": "far_retransmits",
    "LOCAL_SOCKET_TOS": "near_tos",
    "REMOTE_SOCKET_TOS": "far_tos",
    "LOCAL_BYTES_SENT": "near_sent_bytes",
    "LOCAL_BYTES_RECVD": "near_received_bytes",
    "REMOTE_BYTES_SENT": "far_sent_bytes",
    "REMOTE_BYTES_RECVD": "far_received_bytes",
    "ELAPSED_TIME": "elapsed_s",
    "THROUGHPUT": "throughput",
    "THROUGHPUT_UNITS": "throughput_units",
    "RT_LATENCY": "mean_rtt_us",
    "P99_LATENCY": "p99_rtt_us",
}


class NetperfParser(Parser):
    """Rows of ``intervals`` of a stream; of UDP_RR, rows of ``values``: the mean round trip of each interval.

    UDP_RR sends the next request after the answer, or after ``-e`` seconds without one. It reports transactions per
    second, which give a mean round trip; it reports no single probe, so there are no rows of ``probes``.

    Args:
        flow: number of the flow.
        round_trips: whether it is UDP_RR.
    """

    def __init__(self, flow: int, *, round_trips: bool) -> None:
        super().__init__(flow)
        self._round_trips = round_trips
        self._held: dict[str, str] = {}
        self._index: str | None = None

    def line(self, text: str, arrived_ns: int, /) -> None:
        """A part of an interim result, a total, or a sentence."""
        if match := _INTERIM.match(text):
            self._part(match, arrived_ns)
        elif match := _SENTENCE.search(text):
            self._interval(match["rate"], match["units"], match["length"], match["ending"], arrived_ns, text)
        elif match := _TOTAL.match(text):
            self._total(match["key"], match["value"])
        elif "error" in text.lower() or "establish" in text.lower():
            self.failure = text.strip()

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Its complaints; sums of TCP_INFO that some builds print there are no concern of ours."""
        if text.strip() and not text.startswith("tcpi"):
            self.failure = self.failure or text.strip()

    def _part(self, match: re.Match[str], arrived_ns: int) -> None:
        """Four lines make one result; the last of them, whichever it is, completes it."""
        if match["index"] != self._index:
            self._index, self._held = match["index"], {}
        self._held[match["key"]] = match["value"]
        if {"INTERIM_RESULT", "INTERVAL", "ENDING", "UNITS"} <= self._held.keys():
            held, self._held = self._held, {}
            self._interval(
                held["INTERIM_RESULT"], held["UNITS"], held["INTERVAL"], held["ENDING"], arrived_ns, match.string
            )

    def _interval(self, result: str, units: str, length: str, ending: str, arrived_ns: int, text: str) -> None:
        rate, length_s, end_ns = number(result), number(length), stamped_ns(ending, arrived_ns)
        if rate is None or rate < 0 or length_s is None or not 0 < length_s < 1e6:
            self.not_understood(text)
            return
        if self._round_trips:
            # no transaction in all of it: no value, rather than an endless round trip
            value_ms = 1000.0 / rate if rate > 0 else None
            self.rows.add("values", flow=self.flow, time_ns=end_ns, key="", value=value_ms)
        elif (scale := _BITS_PER_S.get(units.strip())) is not None:
            goodput_bps = rate * scale
            self.rows.add(
                "intervals",
                flow=self.flow,
                start_ns=end_ns - ns(length_s),
                end_ns=end_ns,
                payload_bytes=whole(goodput_bps * length_s / 8),
                goodput_bps=goodput_bps,
            )
        else:
            self.not_understood(text)

    def _total(self, key: str, value: str) -> None:
        if key in FACTS:
            found = number(value)
            self.facts[FACTS[key]] = (
                value.strip().strip('"') if found is None else int(found) if found.is_integer() else found
            )
