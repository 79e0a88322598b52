"""iperf3's JSON: one document at the end (``-J``), or an event a line while it runs (``--json-stream``, from 3.17)."""

from __future__ import annotations

import json
import re
from typing import Any

from whydrop.formats.iperf3 import rows as iperf3
from whydrop.formats.iperf3.ends import as_object
from whydrop.measure.runners.parsing.base import NS_PER_S, Parser, ns, number, whole
from whydrop.measure.runners.parsing.intervals import Timeline

_MOST_CHARACTERS = 256_000_000
# The year 2116: later stamps are wrong, and would leave no room for the test in 64 bits.
_LATEST_NS = 1 << 62


class Iperf3Json(Parser):
    """Reads either form: lines are events until one of them is none, which begins a document.

    Arguments are those of :class:`~whydrop.measure.runners.parsing.iperf3_text.Iperf3Text`.
    """

    def __init__(self, flow: int, *, sends: bool | None = True) -> None:
        super().__init__(flow)
        self._sends = sends
        self._document: list[str] = []
        self._characters = 0
        self._arrived_ns = 0
        self._streamed = False
        self._timeline = Timeline()
        self._stamped_ns: int | None = None
        self._retransmits = 0
        self._mss_bytes: int | None = None
        if sends:
            self.facts["measured_at"] = "sender"

    def line(self, text: str, arrived_ns: int, /) -> None:
        """An event, or a line of the document."""
        if not self._document and text.startswith('{"event"'):
            self._streamed = True
            try:
                event = json.loads(text)
            except (ValueError, RecursionError):
                self.not_understood(text)
                return
            self._event(as_object(event).get("event"), as_object(event).get("data"), arrived_ns)
        elif self._streamed:
            if text.strip():
                self.not_understood(text)
        elif self._characters < _MOST_CHARACTERS:
            self._arrived_ns = arrived_ns
            self._characters += len(text)
            self._document.append(text)

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Read an error of the command line, which iperf3 prints without JSON."""
        for prefix in ("iperf3: error - ", "iperf3: parameter error - "):
            if text.startswith(prefix):
                self.failure = text.removeprefix(prefix).strip()

    def end(self, _now_ns: int, /) -> None:
        """Read the document, if that is what it was."""
        if not self._document:
            return
        text = "\n".join(self._document)
        self._document = []
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as reason:
            if self.failure is None:
                self.failure = f"its output is no JSON ({reason})"
            self.not_understood(text.strip().partition("\n")[0])
            return
        document = as_object(document)
        intervals = _list(document.get("intervals"))
        self._start(document.get("start"))
        self._place(intervals)
        for interval in intervals:
            self._interval(interval, None)
        self._last(document.get("end"))
        self._server(document.get("server_output_json") or document.get("server_output_text"))
        self._error(document.get("error"))

    def _event(self, kind: object, data: object, arrived_ns: int) -> None:
        if kind == "start":
            self._start(data)
        elif kind == "interval":
            self._interval(data, arrived_ns)
        elif kind == "end":
            self._last(data)
        elif kind in ("server_output_json", "server_output_text"):
            self._server(data)
        elif kind == "error":
            self._error(data)

    def _error(self, message: object) -> None:
        if isinstance(message, str) and message:
            self.failure = message.removeprefix("error - ").strip()

    def _start(self, data: object) -> None:
        start = as_object(data)
        stamped_ns = iperf3.started_ns(start)
        self._stamped_ns = None if stamped_ns is None else min(stamped_ns, _LATEST_NS)
        self._mss_bytes = whole(iperf3.segment_bytes(start))
        ports = [whole(as_object(one).get("local_port")) for one in _list(start.get("connected"))]
        for key, value in (
            ("iperf3_version", start.get("version")),
            ("mss_bytes", self._mss_bytes),
            ("local_ports", [port for port in ports if port is not None]),
        ):
            if value:
                self.facts[key] = value

    def _place(self, intervals: list[Any]) -> None:
        """Place a document in time: its stamp gives the second; its arrival, soon after the end, is more precise."""
        ends_s = [number(as_object(as_object(one).get("sum")).get("end")) or 0.0 for one in intervals]
        by_arrival_ns = self._arrived_ns - ns(min(max(ends_s, default=0.0), 1e9))
        stamped_ns = self._stamped_ns if self._stamped_ns is not None else by_arrival_ns
        # The arrival of an old document, read from a file, does not count.
        plausible = 0 <= by_arrival_ns - stamped_ns < 5 * NS_PER_S
        self._timeline = Timeline(by_arrival_ns if plausible else stamped_ns)

    def _interval(self, data: object, arrived_ns: int | None) -> None:
        interval = as_object(data)
        total, reverse = as_object(interval.get("sum")), as_object(interval.get("sum_bidir_reverse"))
        sums = [one for one in (total, reverse) if one]
        bounds = [(number(one.get("start")), number(one.get("end"))) for one in sums]
        if not sums or any(start is None or end is None or end <= start for start, end in bounds):
            self.not_understood(json.dumps(data)[:500])
            return
        start_s, end_s = bounds[0][0] or 0.0, bounds[0][1] or 0.0
        arrived = arrived_ns if arrived_ns is not None else round(end_s * NS_PER_S)
        start_ns, end_ns = self._timeline.place(start_s, end_s, arrived_ns=arrived)
        if self._sends is None:
            for one in sums:
                key = "up_bps" if one.get("sender") else "down_bps"
                self.rows.add(
                    "values", flow=self.flow, time_ns=end_ns, key=key, value=number(one.get("bits_per_second"))
                )
        self.rows.add("intervals", **iperf3.interval(self.flow, start_ns, end_ns, *sums))
        self._tcp_info(end_ns, sums, [as_object(one) for one in _list(interval.get("streams"))])

    def _server(self, output: object) -> None:
        """Read what the server counted of datagrams: in JSON where it runs with ``-J``, else in lines."""
        if isinstance(output, str):
            counted = [_counted(line) for line in output.partition("- - - -")[0].splitlines()]
        else:
            sums = [as_object(as_object(one).get("sum")) for one in _list(as_object(output).get("intervals"))]
            keys = ("start", "end", "packets", "lost_packets")
            counted = [[number(one.get(key)) for key in keys] for one in sums]
        whole_ones = [[value for value in one if value is not None] for one in counted]
        intervals = [
            [start, end, int(packets - lost)]
            for start, end, packets, lost in (one for one in whole_ones if len(one) == 4)
            if start < end
        ]
        if intervals:
            self.facts["server_intervals"] = intervals

    def _tcp_info(self, time_ns: int, sums: list[dict[str, Any]], streams: list[dict[str, Any]]) -> None:
        """The counts of all connections; windows and round-trip times where there is one only."""
        counts = [whole(one.get("retransmits")) for one in sums if one.get("sender")]
        if not counts or counts[0] is None:
            return
        self._retransmits += counts[0]
        sending = [one for one in streams if one.get("sender")]
        alone = sending[0] if len(sending) == 1 else {}
        row = iperf3.tcp_info(self.flow, time_ns, alone, self._mss_bytes, self._retransmits)
        self.rows.add("tcp_info", **row)

    def _last(self, data: object) -> None:
        end = as_object(data)
        for section, direction in (("sum", ""), ("sum_bidir_reverse", "down_")):
            for key, what in ((f"{section}_sent", "sent"), (f"{section}_received", "received")):
                one = as_object(end.get(key))
                if one and not (what == "received" and one.get("bytes") == 0):
                    self.facts[f"{direction}{what}_bytes"] = whole(one.get("bytes"))
                    self.facts[f"{direction}{what}_bps"] = number(one.get("bits_per_second"))
                if (retransmits := whole(one.get("retransmits"))) is not None:
                    self.facts[f"{direction}retransmits"] = retransmits
        datagrams = as_object(end.get("sum"))
        sending = [as_object(as_object(one).get("udp")) for one in _list(end.get("streams"))]
        if len(sending) == 1 and (seconds := number(sending[0].get("seconds"))) is not None:
            self.facts["sending_s"] = seconds
        for key, fact in (("lost_packets", "lost_packets"), ("packets", "packets")):
            if (count := whole(datagrams.get(key))) is not None:
                self.facts[fact] = count
        for side in ("sender", "receiver"):
            if isinstance(algorithm := end.get(f"{side}_tcp_congestion"), str):
                self.facts[f"{side}_congestion_control"] = algorithm
        if (share := number(as_object(end.get("cpu_utilization_percent")).get("remote_total"))) is not None:
            self.facts["far_cpu_percent"] = share


_COUNTED = re.compile(
    r"\[ *\d+\] +(?P<start>\d+\.\d+)-(?P<end>\d+\.\d+) +sec .* (?P<lost>\d{1,12})/(?P<packets>\d{1,12}) \("
)


def _counted(line: str) -> list[float | None]:
    """Start and end, seconds, and packets sent and lost, of a server's line for people; empty for other lines.

    >>> _counted("[  5]   1.00-2.00   sec   476 KBytes  3.90 Mbits/sec  0.132 ms  350/681 (51%)  ")
    [1.0, 2.0, 681.0, 350.0]
    """
    match = _COUNTED.match(line)
    return [number(match[key]) for key in ("start", "end", "packets", "lost")] if match is not None else []


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
