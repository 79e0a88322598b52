"""iperf3's output: JSON at the end (``-J``), an event a line (``--json-stream``, from 3.17), or lines for people."""

from __future__ import annotations

import json
import re
from typing import Any

from whydrop.formats.iperf3 import rows as iperf3
from whydrop.formats.iperf3.ends import as_object, as_objects
from whydrop.measure.runners.parsing.base import NS_PER_S, Parser, Timeline, ns, number, whole

_MOST_CHARACTERS = 256_000_000
# The year 2116: later stamps are wrong, and would leave no room for the test in 64 bits.
_LATEST_NS = 1 << 62

_INTERVAL = re.compile(
    r"""\[\s*(?P<stream>\d+|SUM)\](?:\[(?P<role>[TR]X-[CS])\])?\s+
        (?P<start>\d+\.\d+)-\s*(?P<end>\d+\.\d+)\s+sec\s+
        (?P<transfer>[\d.]+)\s(?P<transfer_unit>[KMGTP]?)Bytes\s+
        (?P<rate>[\d.]+)\s(?P<rate_unit>[KMGT]?)bits/sec\s*
        (?P<rest>.*)""",
    re.VERBOSE,
)
_JITTER = re.compile(r"(?P<jitter>[\d.]+)\sms\s+(?P<lost>-?\d+)/(?P<total>\d+)\s+\([^)]*\)")
_TCP = re.compile(r"(?P<retransmits>\d+)(?:\s+(?P<window>[\d.]+)\s(?P<unit>[KMGT]?)Bytes)?\s*(?:sender)?$")
_CONNECTED = re.compile(r"\[\s*\d+\] local (?P<local>\S+) port (?P<port>\d+) connected to (?P<remote>\S+) port \d+")
_MSS = re.compile(r"Control connection MSS (\d+)")
_ALGORITHM = re.compile(r"(snd|rcv)_tcp_congestion (\S+)")
_COUNTED_BY_SERVER = re.compile(
    r"\[ *\d+\] +(?P<start>\d+\.\d+)-(?P<end>\d+\.\d+) +sec .* (?P<lost>\d{1,12})/(?P<packets>\d{1,12}) \("
)
# Rates count in thousands, sizes in 1024s.
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}

# One count, as iperf3's JSON has it; that of a line for people is brought into this form.
_Sum = dict[str, Any]


class _Iperf3Parser(Parser):
    """Rows and facts of counts.

    Args:
        flow: number of the flow.
        sends: whether this end sends; ``None`` where both do (``--bidir``), which makes one total of both.
    """

    def __init__(self, flow: int, *, sends: bool | None = True) -> None:
        super().__init__(flow)
        self._sends = sends
        self._timeline = Timeline()
        self._retransmits = 0
        self._mss_bytes: int | None = None
        if sends:
            self.facts["measured_at"] = "sender"

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Keep a line that iperf3 itself calls an error: it prints those of the command line without JSON."""
        for prefix in ("iperf3: error - ", "iperf3: parameter error - "):
            if text.startswith(prefix):
                self.failure = text.removeprefix(prefix).strip()

    def _add(self, start_s: float, end_s: float, arrived_ns: int, sums: list[_Sum], alone: _Sum) -> None:
        """Rows of one interval.

        Args:
            start_s, end_s: by iperf3's own clock.
            sums: the counts of each direction; where both send, each is a value of its own, too.
            alone: the sending connection, if there is one only, which has a window and a round-trip time.
        """
        start_ns, end_ns = self._timeline.place(start_s, end_s, arrived_ns=arrived_ns)
        for one in sums if self._sends is None else []:
            key = "up_bps" if one.get("sender") else "down_bps"
            self.rows.add("values", flow=self.flow, time_ns=end_ns, key=key, value=number(one.get("bits_per_second")))
        self.rows.add("intervals", **iperf3.interval(self.flow, start_ns, end_ns, *sums))
        counts = [whole(one.get("retransmits")) for one in sums if one.get("sender")]
        if counts and counts[0] is not None:
            self._retransmits += counts[0]
            row = iperf3.tcp_info(self.flow, end_ns, alone, self._mss_bytes, self._retransmits)
            self.rows.add("tcp_info", **row)

    def _total(self, direction: str, what: str, one: _Sum) -> None:
        """Facts of what was sent, or received, in all."""
        # An interrupted iperf3 does not know what its peer received.
        if one and not (what == "received" and one.get("bytes") == 0):
            self.facts[f"{direction}{what}_bytes"] = whole(one.get("bytes"))
            self.facts[f"{direction}{what}_bps"] = number(one.get("bits_per_second"))
        if (retransmits := whole(one.get("retransmits"))) is not None:
            self.facts[f"{direction}retransmits"] = retransmits


class Iperf3Json(_Iperf3Parser):
    """Reads either form of JSON: lines are events until one of them is none, which begins a document."""

    def __init__(self, flow: int, *, sends: bool | None = True) -> None:
        super().__init__(flow, sends=sends)
        self._document: list[str] = []
        self._characters = 0
        self._arrived_ns = 0
        self._streamed = False
        self._stamped_ns: int | None = None

    def line(self, text: str, arrived_ns: int, /) -> None:
        """An event, or a line of the document."""
        if not self._document and text.startswith('{"event"'):
            self._streamed = True
            try:
                event = as_object(json.loads(text))
            except (ValueError, RecursionError):
                self.not_understood(text)
                return
            self._event(event.get("event"), event.get("data"), arrived_ns)
        elif self._streamed:
            if text.strip():
                self.not_understood(text)
        elif self._characters < _MOST_CHARACTERS:
            self._arrived_ns = arrived_ns
            self._characters += len(text)
            self._document.append(text)

    def end(self, _now_ns: int, /) -> None:
        """Read the document, if that is what it was."""
        if not self._document:
            return
        text = "\n".join(self._document)
        self._document = []
        try:
            document = as_object(json.loads(text))
        except (ValueError, RecursionError) as reason:
            if self.failure is None:
                self.failure = f"its output is no JSON ({reason})"
            self.not_understood(text.strip().partition("\n")[0])
            return
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
        ports = [whole(one.get("local_port")) for one in as_objects(start.get("connected"))]
        known = {
            "iperf3_version": start.get("version"),
            "mss_bytes": self._mss_bytes,
            "local_ports": [port for port in ports if port is not None],
        }
        self.facts |= {key: value for key, value in known.items() if value}

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
        sums = [one for key in ("sum", "sum_bidir_reverse") if (one := as_object(interval.get(key)))]
        bounds = [(number(one.get("start")), number(one.get("end"))) for one in sums]
        if not sums or any(start is None or end is None or end <= start for start, end in bounds):
            self.not_understood(json.dumps(data)[:500])
            return
        start_s, end_s = bounds[0][0] or 0.0, bounds[0][1] or 0.0
        sending = [one for one in as_objects(interval.get("streams")) if one.get("sender")]
        arrived = arrived_ns if arrived_ns is not None else ns(end_s)
        self._add(start_s, end_s, arrived, sums, sending[0] if len(sending) == 1 else {})

    def _server(self, output: object) -> None:
        """Read what the server counted of datagrams: in JSON where it runs with ``-J``, else in lines."""
        keys = ("start", "end", "packets", "lost_packets")
        if isinstance(output, str):
            counted = [_counted(line) for line in output.partition("- - - -")[0].splitlines()]
        else:
            sums = [as_object(one.get("sum")) for one in as_objects(as_object(output).get("intervals"))]
            counted = [[number(one.get(key)) for key in keys] for one in sums]
        whole_ones = [[value for value in one if value is not None] for one in counted]
        intervals = [
            [start, end, int(packets - lost)]
            for start, end, packets, lost in (one for one in whole_ones if len(one) == len(keys))
            if start < end
        ]
        if intervals:
            self.facts["server_intervals"] = intervals

    def _last(self, data: object) -> None:
        end = as_object(data)
        for section, direction in (("sum", ""), ("sum_bidir_reverse", "down_")):
            for what in ("sent", "received"):
                self._total(direction, what, as_object(end.get(f"{section}_{what}")))
        sending = [as_object(one.get("udp")) for one in as_objects(end.get("streams"))]
        datagrams = as_object(end.get("sum"))
        known: dict[str, Any] = {
            "sending_s": number(sending[0].get("seconds")) if len(sending) == 1 else None,
            "lost_packets": whole(datagrams.get("lost_packets")),
            "packets": whole(datagrams.get("packets")),
            "far_cpu_percent": number(as_object(end.get("cpu_utilization_percent")).get("remote_total")),
        }
        for side in ("sender", "receiver"):
            algorithm = end.get(f"{side}_tcp_congestion")
            known[f"{side}_congestion_control"] = algorithm if isinstance(algorithm, str) else None
        self.facts |= {key: value for key, value in known.items() if value is not None}


def _counted(line: str) -> list[float | None]:
    """Start and end, seconds, and packets sent and lost, of a server's line for people; empty for other lines.

    >>> _counted("[  5]   1.00-2.00   sec   476 KBytes  3.90 Mbits/sec  0.132 ms  350/681 (51%)  ")
    [1.0, 2.0, 681.0, 350.0]
    """
    match = _COUNTED_BY_SERVER.match(line)
    return [number(match[key]) for key in ("start", "end", "packets", "lost")] if match is not None else []


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


class Iperf3Text(_Iperf3Parser):
    """Reads lines for people (``-f k --forceflush``), which come while the test runs, in every version.

    Args:
        flow, sends: as of JSON.
        streams: how many connections were asked for (``-P``): of several, the line of their sum counts.
        udp: whether lines count lost datagrams.
    """

    def __init__(self, flow: int, *, streams: int = 1, sends: bool | None = True, udp: bool = False) -> None:
        super().__init__(flow, sends=sends)
        self._wanted = "SUM" if streams > 1 else None
        self._udp = udp
        self._half: tuple[str, _Sum] | None = None

    def line(self, text: str, arrived_ns: int, /) -> None:
        """Intervals become rows; the last lines and what was agreed become facts."""
        if text.lstrip().startswith("iperf3: "):
            self.error_line(text, arrived_ns)
        elif match := _INTERVAL.search(text):
            one = _sum_of(match, udp=self._udp)
            if one is None:
                self.not_understood(text)
            elif self._wanted in (None, match["stream"]):
                self._take(match["role"] or "", one, match["rest"].split()[-1:], arrived_ns)
        elif match := _CONNECTED.search(text):
            self.facts.setdefault("local_ports", []).append(int(match["port"]))
        elif match := _MSS.search(text):
            self._mss_bytes = self.facts["control_mss_bytes"] = whole(match[1])
        elif match := _ALGORITHM.search(text):
            side = "sender" if match[1] == "snd" else "receiver"
            self.facts[f"{side}_congestion_control"] = match[2]
        elif " sec " in text and "bits/sec" in text:
            self.not_understood(text)

    def _take(self, role: str, one: _Sum, last_word: list[str], arrived_ns: int) -> None:
        start_s, end_s = one["start"], one["end"]
        if last_word in (["sender"], ["receiver"]):
            self._summary(role, one, "sent" if last_word == ["sender"] else "received")
            return
        if end_s <= start_s:
            # A rest of less than a hundredth of a second: iperf3's own rate of it is one of noise.
            return
        # The rate has more digits than the amount.
        one["bytes"] = round(one["bits_per_second"] * (end_s - start_s) / 8)
        if self._sends is not None:
            self._add(start_s, end_s, arrived_ns, [{**one, "sender": "retransmits" in one}], one)
            return
        # One row for both directions once both are there.
        one["sender"] = role.startswith("TX")
        half, self._half = self._half, (role, one)
        if half is not None and half[0] != role and half[1]["start"] == start_s:
            self._half = None
            self._add(start_s, end_s, arrived_ns, [half[1], one], {})

    def _summary(self, role: str, one: _Sum, what: str) -> None:
        """The last lines: what was sent and what arrived in all (of ``--bidir``, for each direction)."""
        direction = {"T": "up_", "R": "down_"}.get(role[:1], "")
        self._total(direction, what, one)
        if what == "received" and one["bytes"] and "packets" in one:
            self.facts |= {f"{direction}lost_packets": one["lost_packets"], f"{direction}packets": one["packets"]}


def _sum_of(match: re.Match[str], *, udp: bool) -> _Sum | None:
    """The count in a line for people."""
    start_s, end_s, rate, transfer = (number(match[name]) for name in ("start", "end", "rate", "transfer"))
    if start_s is None or end_s is None or rate is None or transfer is None:
        return None
    found: _Sum = {
        "start": start_s,
        "end": end_s,
        "bits_per_second": rate * _THOUSANDS[match["rate_unit"]],
        "bytes": round(transfer * _BINARY[match["transfer_unit"]]),
    }
    rest = match["rest"].strip()
    if detail := _JITTER.match(rest):
        found |= {"lost_packets": int(detail["lost"][:18]), "packets": int(detail["total"][:18])}
        found["jitter_ms"] = number(detail["jitter"]) or 0
    elif not udp and (detail := _TCP.match(rest)):
        found["retransmits"] = whole(detail["retransmits"])
        if detail["window"] is not None:
            found["snd_cwnd"] = whole((number(detail["window"]) or 0) * _BINARY[detail["unit"]])
    return found
