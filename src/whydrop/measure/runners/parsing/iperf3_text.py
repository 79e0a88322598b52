"""iperf3's lines for people (``-f k --forceflush``), which come while the test runs, in every version."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whydrop.measure.runners.parsing.base import Parser, number, whole
from whydrop.measure.runners.parsing.intervals import Timeline

_INTERVAL = re.compile(
    r"""\[\s*(?P<stream>\d+|SUM)\](?:\[(?P<role>[TR]X-[CS])\])?\s+
        (?P<start>\d+\.\d+)-\s*(?P<end>\d+\.\d+)\s+sec\s+
        (?P<transfer>[\d.]+)\s(?P<transfer_unit>[KMGTP]?)Bytes\s+
        (?P<rate>[\d.]+)\s(?P<rate_unit>[KMGT]?)bits/sec\s*
        (?P<rest>.*)""",
    re.VERBOSE,
)
_JITTER = re.compile(
    r"(?P<jitter>[\d.]+)\sms\s+(?P<lost>-?\d+)/(?P<total>\d+)\s+\([^)]*\)\s*(?P<role>sender|receiver)?"
)
_TCP = re.compile(r"(?P<retransmits>\d+)(?:\s+(?P<window>[\d.]+)\s(?P<unit>[KMGT]?)Bytes)?\s*(?P<role>sender)?$")
_CONNECTED = re.compile(r"\[\s*\d+\] local (?P<local>\S+) port (?P<port>\d+) connected to (?P<remote>\S+) port \d+")
_MSS = re.compile(r"Control connection MSS (\d+)")
_ALGORITHM = re.compile(r"(snd|rcv)_tcp_congestion (\S+)")
# Rates count in thousands, sizes in 1024s.
_THOUSANDS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


@dataclass
class _Line:
    start_s: float
    end_s: float
    rate_bps: float
    payload_bytes: int
    packets: int | None = None
    lost: int | None = None
    jitter_ns: int | None = None
    retransmits: int | None = None
    window_bytes: int | None = None
    of: str | None = None  # of a last line: sender or receiver


class Iperf3Text(Parser):
    """Reads intervals as they come.

    Args:
        flow: number of the flow.
        streams: how many connections were asked for (``-P``): of several, the line of their sum counts.
        sends: whether this end sends; ``None`` where both do (``--bidir``), which makes one total of both.
        udp: whether lines count lost datagrams.
    """

    def __init__(self, flow: int, *, streams: int = 1, sends: bool | None = True, udp: bool = False) -> None:
        super().__init__(flow)
        self._wanted = "SUM" if streams > 1 else None
        self._sends = sends
        self._udp = udp
        self._timeline = Timeline()
        self._half: tuple[str, _Line] | None = None
        self._retransmits = 0
        self._mss_bytes: int | None = None
        if sends:
            self.facts["measured_at"] = "sender"

    def line(self, text: str, arrived_ns: int, /) -> None:
        """Intervals become rows; the last lines and what was agreed become facts."""
        if text.lstrip().startswith("iperf3: "):
            self.error_line(text, arrived_ns)
        elif match := _INTERVAL.search(text):
            read = _read_interval(match, udp=self._udp)
            if read is None:
                self.not_understood(text)
            elif self._wanted in (None, match["stream"]):
                self._take(match["role"] or "", read, arrived_ns)
        elif match := _CONNECTED.search(text):
            self.facts.setdefault("local_ports", []).append(int(match["port"]))
        elif match := _MSS.search(text):
            self._mss_bytes = self.facts["control_mss_bytes"] = whole(match[1])
        elif match := _ALGORITHM.search(text):
            side = "sender" if match[1] == "snd" else "receiver"
            self.facts[f"{side}_congestion_control"] = match[2]
        elif " sec " in text and "bits/sec" in text:
            self.not_understood(text)

    def error_line(self, text: str, _arrived_ns: int, /) -> None:
        """Keep a line that iperf3 itself calls an error."""
        for prefix in ("iperf3: error - ", "iperf3: parameter error - "):
            if text.startswith(prefix):
                self.failure = text.removeprefix(prefix).strip()

    def _take(self, role: str, read: _Line, arrived_ns: int) -> None:
        if read.of is not None:
            self._summary(role, read)
            return
        if read.end_s <= read.start_s:
            # A rest of less than a hundredth of a second: iperf3's own rate of it is one of noise.
            return
        if self._sends is None:
            self._both(role, read, arrived_ns)
            return
        start_ns, end_ns = self._timeline.place(read.start_s, read.end_s, arrived_ns=arrived_ns)
        self._add(start_ns, end_ns, read)

    def _both(self, role: str, read: _Line, arrived_ns: int) -> None:
        """One row for both directions once both are there, and each of them as a value of its own."""
        half, self._half = self._half, (role, read)
        if half is None or half[0] == role or half[1].start_s != read.start_s:
            return
        self._half = None
        start_ns, end_ns = self._timeline.place(read.start_s, read.end_s, arrived_ns=arrived_ns)
        for direction_role, one in (half, (role, read)):
            key = "up" if direction_role.startswith("TX") else "down"
            self.rows.add("values", flow=self.flow, time_ns=end_ns, key=f"{key}_bps", value=one.rate_bps)
        both = _Line(
            read.start_s,
            read.end_s,
            read.rate_bps + half[1].rate_bps,
            read.payload_bytes + half[1].payload_bytes,
            retransmits=half[1].retransmits if half[1].retransmits is not None else read.retransmits,
        )
        self._add(start_ns, end_ns, both)

    def _add(self, start_ns: int, end_ns: int, read: _Line) -> None:
        # the rate has more digits than the amount
        payload_bytes = round(read.rate_bps * (read.end_s - read.start_s) / 8)
        self.rows.add(
            "intervals",
            flow=self.flow,
            start_ns=start_ns,
            end_ns=end_ns,
            payload_bytes=payload_bytes,
            goodput_bps=read.rate_bps,
            packets=read.packets,
            lost=read.lost,
            jitter_ns=read.jitter_ns,
        )
        if read.retransmits is None:
            return
        self._retransmits += read.retransmits
        window_packets = None
        if read.window_bytes is not None and self._mss_bytes:
            window_packets = round(read.window_bytes / self._mss_bytes)
        self.rows.add(
            "tcp_info",
            flow=self.flow,
            time_ns=end_ns,
            mss_bytes=self._mss_bytes,
            congestion_window_packets=window_packets,
            retransmitted_packets=self._retransmits,
        )

    def _summary(self, role: str, read: _Line) -> None:
        """The last lines: what was sent and what arrived in all (of ``--bidir``, for each direction)."""
        direction = {"T": "up_", "R": "down_"}.get(role[:1], "")
        what = "sent" if read.of == "sender" else "received"
        if read.of == "receiver" and read.payload_bytes == 0 and read.rate_bps == 0:
            # iperf3 was interrupted and does not know what its peer received
            return
        self.facts[f"{direction}{what}_bps"] = read.rate_bps
        self.facts[f"{direction}{what}_bytes"] = read.payload_bytes
        if read.retransmits is not None:
            self.facts[f"{direction}retransmits"] = read.retransmits
        if read.lost is not None and read.of == "receiver":
            self.facts[f"{direction}lost_packets"] = read.lost
            self.facts[f"{direction}packets"] = (read.packets or 0) + read.lost


def _read_interval(match: re.Match[str], *, udp: bool) -> _Line | None:
    start_s, end_s, rate, transfer = (number(match[name]) for name in ("start", "end", "rate", "transfer"))
    if start_s is None or end_s is None or rate is None or transfer is None:
        return None
    rate_bps = rate * _THOUSANDS[match["rate_unit"]]
    read = _Line(start_s, end_s, rate_bps, round(transfer * _BINARY[match["transfer_unit"]]))
    rest = match["rest"].strip()
    if rest.endswith(("sender", "receiver")):
        read.of = rest.split()[-1]
    if detail := _JITTER.match(rest):
        lost, total = int(detail["lost"][:18]), int(detail["total"][:18])
        read.lost, read.packets = lost, total - lost
        read.jitter_ns = whole((number(detail["jitter"]) or 0) * 1e6)
    elif not udp and (detail := _TCP.match(rest)):
        read.retransmits = whole(detail["retransmits"])
        if detail["window"] is not None:
            read.window_bytes = whole((number(detail["window"]) or 0) * _BINARY[detail["unit"]])
    return read
