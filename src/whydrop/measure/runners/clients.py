"""The command lines of iperf3, nuttcp, netperf, irtt, ping and fping, and the limits of each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.parsing.base import Parser, ns
from whydrop.measure.runners.parsing.echoes import FpingParser, PingParser
from whydrop.measure.runners.parsing.iperf3 import Iperf3Json, Iperf3Text
from whydrop.measure.runners.parsing.irtt import IrttParser
from whydrop.measure.runners.parsing.netperf import FACTS, NetperfParser
from whydrop.measure.runners.parsing.nuttcp import NuttcpParser
from whydrop.measure.runners.process import End
from whydrop.measure.runners.program import ProgramRunner
from whydrop.measure.runners.registry import bracketed
from whydrop.runtime.temporary_folders import TemporaryFolder

# ICMP echo: an answer that took longer is late; a queue of seconds is found where it matters.
_PING_TIMEOUT_S = 5.0
# Of both pings, without ICMP's header.
_PING_PAYLOAD_BYTES, _MOST_PING_PAYLOAD_BYTES = 56, 65_507
# Without a duration they run until the end of the test stops them.
_FOREVER = 100_000_000
_IPERF3_STREAMS_JSON_SINCE = (3, 17)
_IPERF3_CONNECTS_WITHIN_MS = 10_000
_NETPERF_TOTALS = ",".join(name for name in FACTS if not name.endswith("LATENCY"))

_IRTT_TIMEOUT_S = 5.0
# Without a duration it runs until the end of the test stops it.
_IRTT_FOREVER_S = 100 * 3600
# How long it waits for the server's answer to each attempt to begin.
_IRTT_CONNECTS = "500ms,1s,2s,4s"
# Of each probe, as irtt indents it.
_IRTT_BYTES_PER_PROBE = 1500
_IRTT_MOST_BYTES = 1 << 30
_IRTT_TIMERS = ("simple", "comp", "busy")


def given(*options: tuple[str, object]) -> list[str]:
    """The words of the options that have a value, which stands for ``{}``; neither ``None`` nor ``False`` is one.

    >>> given(("-p {}", 5201), ("-R", True), ("-B {}", None), ("--key {}", "my key"))
    ['-p', '5201', '-R', '--key', 'my key']
    """
    return [
        word.format(value)
        for template, value in options
        if value is not None and value is not False
        for word in template.split()
    ]


class _Throughput(ProgramRunner):
    """Programs that send as fast as they can."""

    def complaint(self) -> str | None:
        """The limits that iperf3 and nuttcp share."""
        flow = self.flow
        if flow.duration_s is not None and flow.payload_bytes is not None:
            return f"{self.name} takes a duration or a number of bytes, not both"
        both = flow.send_buffer_bytes, flow.receive_buffer_bytes
        if None not in both and both[0] != both[1]:
            return f"{self.name} has one size for send and receive buffers (-w); two were given"
        return None


class Iperf3Runner(_Throughput):
    """A TCP or UDP flow of iperf3: up, down (``-R``), or both at once (``--bidir``).

    One iperf3 server handles one test at a time: several flows at once need a server, and a port, each.

    Versions from 3.17 print an event of JSON for each interval. Older ones print JSON only at the end, when a run that
    was killed has lost everything; so of them we read the lines for people, which have all but the round-trip time. The
    option ``json`` prefers the round-trip time.
    """

    name = "iperf3"
    takes_whole_seconds = True

    def command(self) -> list[str]:
        """Its client."""
        flow, options = self.flow, self.flow.options
        is_udp, is_json = flow.kind == "udp", self._json()
        return given(
            ("iperf3 -c {}", flow.host or ""),
            ("-p {}", self.port),
            ("--forceflush -i {:g}", flow.interval_s),
            ("--connect-timeout {}", _IPERF3_CONNECTS_WITHIN_MS),
            ("--json-stream" if streams_json(self.version()) else "-J", is_json),
            ("--get-server-output", is_json and bool(options.get("server_output"))),
            # -V prints the segment size, and the congestion control of both ends
            ("-f k -V", not is_json),
            ("-n {}", flow.payload_bytes),
            # It reads whole seconds: it takes 0.6 for 0, which means for ever. The clock cuts off what is too much.
            ("-t {}", math.ceil(flow.duration_s or 10) if flow.payload_bytes is None else None),
            ("-u", is_udp),
            ("-b {:.0f}", flow.rate_bps or 0 if is_udp else flow.rate_bps),
            ("-l {}", flow.packet_payload_bytes),
            ("-C {}", flow.congestion_control),
            ("--fq-rate {:.0f}", flow.pacing_rate_bps),
            ("-w {}", flow.send_buffer_bytes or flow.receive_buffer_bytes),
            ("-P {}", options.get("parallel")),
            ("-M {}", options.get("mss_bytes")),
            ("-L {}", options.get("flow_label")),
            ("-N", bool(options.get("no_delay"))),
            ("-Z", bool(options.get("zero_copy"))),
            ("--username {}", options.get("username")),
            ("--rsa-public-key-path {}", options.get("public_key", "") if "username" in options else None),
            ("-{}", flow.ip_version),
            ("-B {}", flow.local_address),
            ("--bind-dev {}", flow.interface),
            ("--dscp {}", flow.dscp or None),
            ("-R", flow.direction == "down"),
            ("--bidir", flow.direction == "both"),
        )

    def parser(self) -> Parser:
        """For lines or for JSON."""
        sends = {"up": True, "down": False, "both": None}[self.flow.direction]
        if self._json():
            return Iperf3Json(self.number, sends=sends)
        return Iperf3Text(self.number, streams=self._streams(), sends=sends, udp=self.flow.kind == "udp")

    def secrets(self) -> Sequence[str]:
        """The password; it goes through the environment, where other users do not see it."""
        return [str(self.flow.options[key]) for key in ("password", "username") if key in self.flow.options]

    def environment(self) -> Mapping[str, str]:
        """Where iperf3 looks for the password."""
        return {"IPERF3_PASSWORD": str(self.flow.options["password"])} if "password" in self.flow.options else {}

    def complaint(self) -> str | None:
        """Limits of iperf3's own."""
        flow = self.flow
        # The bounds of its own option -i.
        if not 0.1 <= flow.interval_s <= 60.0:
            return f"iperf3 counts in intervals of 0.1 to 60 s, not {flow.interval_s} s"
        if complaint := super().complaint():
            return complaint
        if not 1 <= self._streams() <= 128:
            return f"iperf3 runs 1 to 128 connections in parallel, not {flow.options.get('parallel')!r}"
        if flow.options.get("username") and not flow.options.get("public_key"):
            return "iperf3 needs the server's RSA key for a user name: set the option public_key to its file"
        return None

    def _streams(self) -> int:
        parallel = self.flow.options.get("parallel", 1)
        return parallel if isinstance(parallel, int) and not isinstance(parallel, bool) else 0

    def _json(self) -> bool:
        return bool(self.flow.options.get("json")) or streams_json(self.version())


def streams_json(version: str) -> bool:
    """True if this version of iperf3 can print intervals as JSON while it runs.

    >>> streams_json("iperf 3.12 (cJSON 1.7.15)"), streams_json("iperf 3.17.1 (cJSON 1.7.15)"), streams_json("")
    (False, True, False)
    """
    match = re.match(r"iperf (\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= _IPERF3_STREAMS_JSON_SINCE


class NuttcpRunner(_Throughput):
    """A TCP or UDP flow of nuttcp, up (``-t``) or down (``-r``); of UDP downwards it reports the total only.

    It counts at the receiver, whichever end that is.
    """

    name = "nuttcp"

    def command(self) -> list[str]:
        """Its client."""
        flow, is_udp, is_up = self.flow, self.flow.kind == "udp", self.flow.direction == "up"
        length_bytes = flow.packet_payload_bytes
        if flow.payload_bytes is not None:
            length_bytes = length_bytes or (1024 if is_udp else 65_536)
        buffer_bytes = flow.send_buffer_bytes or flow.receive_buffer_bytes
        return given(
            ("nuttcp -{} -fparse", "t" if is_up else "r"),
            # Asked for intervals of UDP downwards, version 6.1.2 ends in an error and takes its server along.
            ("-i{:g}", flow.interval_s if is_up or not is_udp else None),
            ("-P{}", self.port),
            ("-p{}", flow.options.get("data_port", 5001)),
            ("-u", is_udp),
            ("-fxmitstats", is_udp and is_up),
            # It counts in buffers.
            ("-n{}", -(-flow.payload_bytes // length_bytes) if flow.payload_bytes and length_bytes else None),
            ("-T{:g}", (flow.duration_s or 10) if flow.payload_bytes is None else None),
            ("-l{}", length_bytes),
            # In kbit/s, and in KiB.
            ("-R{}", None if flow.rate_bps is None else max(1, round(flow.rate_bps / 1000))),
            ("-w{}", None if buffer_bytes is None else max(1, buffer_bytes // 1024)),
            ("-M{}", flow.options.get("mss_bytes")),
            ("-c{}", flow.dscp or None),
            ("-{}", flow.ip_version),
            ("{}", flow.host or ""),
        )

    def parser(self) -> Parser:
        """Of its lines for programs."""
        return NuttcpParser(self.number)


class NetperfRunner(_Throughput):
    """TCP_STREAM, TCP_MAERTS (downwards), or UDP_RR, with mean round trips in ms as values."""

    name = "netperf"
    takes_whole_seconds = True

    def command(self) -> list[str]:
        """With interim results, an exact clock of them (the minus), and key=value output."""
        flow, is_probe = self.flow, self.flow.kind == "probe"
        payload_bytes, buffers = flow.packet_payload_bytes, (flow.send_buffer_bytes, flow.receive_buffer_bytes)
        return given(
            ("netperf -P 0 -v 0 -D -{:.3f}", flow.interval_s),
            ("-t {}", "UDP_RR" if is_probe else "TCP_STREAM" if flow.direction == "up" else "TCP_MAERTS"),
            ("-H {}", flow.host or ""),
            ("-p {}", self.port),
            ("-l {}", math.ceil(flow.duration_s or 10)),
            ("-{}", flow.ip_version),
            ("-L {}", flow.local_address),
            ("-Y 0x{0:02x},0x{0:02x}", flow.dscp << 2 or None),
            ("-f m", not is_probe),
            # The options above are of the control connection, those below of the data connection.
            ("-- -k {}", _NETPERF_TOTALS),
            ("-L {}", flow.local_address),
            ("-K {}", flow.congestion_control),
            # At either end: the sizes of its own send and receive buffer.
            ("-s {0} -S {0}", None if buffers == (None, None) else ",".join(str(size or 0) for size in buffers)),
            ("-r {0},{0}" if is_probe else "-m {0} -M {0}", payload_bytes),
            ("-P ,{}", flow.options.get("data_port")),
        )

    def complaint(self) -> str | None:
        """It takes what it is asked for."""
        return None

    def parser(self) -> Parser:
        """Of interim results."""
        return NetperfParser(self.number, round_trips=self.flow.kind == "probe")


class IrttRunner(ProgramRunner):
    """Isochronous UDP probes by irtt; its server shows in which direction a probe was lost.

    Its JSON comes at the end, after the last answers were waited for.
    """

    name = "irtt"
    # it waits three times the longest round trip for the last answers
    grace_s = 30.0

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        self._folder: TemporaryFolder | None = None
        super().__init__(flow, number)

    def command(self) -> list[str]:
        """Its client; it prints each answer as it comes, and writes the JSON into a file of ours."""
        flow = self.flow
        if self._folder is None:
            self._folder = TemporaryFolder()
        return given(
            ("irtt client -i {}ns", ns(flow.interval_s)),
            ("-d {}ns", ns(self._duration_s())),
            ("-o {}", self._result()),
            ("--wait=3x{}ns", ns(self._timeout_s())),
            ("--timeouts={}", _IRTT_CONNECTS),
            ("-l {}", flow.packet_payload_bytes),
            # The whole byte, of which DSCP is the upper six bits.
            ("--dscp=0x{:02x}", flow.dscp << 2 or None),
            ("--hmac={}", flow.options.get("hmac")),
            ("--timer={}", flow.options.get("timer")),
            ("-{}", flow.ip_version),
            ("--local={}", None if flow.local_address is None else bracketed(flow.local_address)),
            ("{}", f"{bracketed(flow.host or '')}:{self.port}"),
        )

    def parser(self) -> Parser:
        """Of its lines, and of its document."""
        self._document = IrttParser(
            self.number,
            host=self.flow.host or "",
            interval_ns=ns(self.flow.interval_s),
            timeout_ns=ns(self._timeout_s()),
        )
        return self._document

    def ended(self, end: End) -> None:
        """Read what it wrote."""
        try:
            path = self._result()
            size = path.stat().st_size if path.exists() else 0
            if size > min(self._most_bytes(), _IRTT_MOST_BYTES):
                self._document.failure = f"irtt's result has {size} bytes, far more than its probes can take"
            elif size:
                self._document.document(path.read_text("utf-8", errors="replace"))
            elif end.status == 0:
                self._document.failure = "irtt ended without writing its result"
        except OSError as reason:
            self._document.failure = f"irtt's result could not be read: {reason}"
        finally:
            if self._folder is not None:
                self._folder.remove()

    def secrets(self) -> Sequence[str]:
        """The key: it stands in the command line, since irtt takes it nowhere else."""
        return [str(self.flow.options["hmac"])] if "hmac" in self.flow.options else []

    def complaint(self) -> str | None:
        """Limits of its own."""
        timer = self.flow.options.get("timer")
        if timer is not None and timer not in _IRTT_TIMERS and not str(timer).startswith("hybrid:"):
            return f"irtt has no timer {timer!r}: {', '.join(_IRTT_TIMERS)} or hybrid:0.95"
        return None

    def _timeout_s(self) -> float:
        return self.flow.timeout_s or _IRTT_TIMEOUT_S

    def _result(self) -> Path:
        assert self._folder is not None
        return self._folder.path / "result.json"

    def _duration_s(self) -> float:
        return _IRTT_FOREVER_S if self.flow.duration_s is None else self.flow.duration_s

    def _most_bytes(self) -> int:
        return 1_000_000 + round(self._duration_s() / self.flow.interval_s * _IRTT_BYTES_PER_PROBE)


class _Pings(ProgramRunner):
    """ICMP echo by programs that may send it without our being root."""

    # 1 says that no answer came, which is a result
    good_statuses = frozenset({0, 1})

    def complaint(self) -> str | None:
        """Limits that both have."""
        size = self.flow.packet_payload_bytes
        if size is not None and not 0 <= size <= _MOST_PING_PAYLOAD_BYTES:
            return f"{self.name} sends 0 to {_MOST_PING_PAYLOAD_BYTES} payload bytes, not {size}"
        if self.flow.interval_s < 0.001:
            return f"{self.name} sends at most one probe a millisecond, not one each {self.flow.interval_s} s"
        return None

    def _count(self) -> int:
        if self.flow.duration_s is None:
            return _FOREVER
        return max(1, math.ceil(self.flow.duration_s / self.flow.interval_s - 1e-9))

    def _timeout_s(self) -> float:
        return self.flow.timeout_s or _PING_TIMEOUT_S


class PingRunner(_Pings):
    """``ping`` of iputils (BSD's is understood, but has other options)."""

    name = "ping"

    def command(self) -> list[str]:
        """With stamps, and with a line for what is not answered yet."""
        flow = self.flow
        return given(
            ("ping -n -D -O -i {:g}", flow.interval_s),
            ("-c {}", self._count()),
            ("-s {}", flow.packet_payload_bytes),
            # The whole byte, of which DSCP is the upper six bits.
            ("-Q {}", flow.dscp << 2 or None),
            ("-{}", flow.ip_version),
            ("-I {}", flow.local_address),
            ("-I {}", flow.interface),
            ("-W {:g}", self._timeout_s()),
            ("{}", flow.host or ""),
        )

    def parser(self) -> Parser:
        """Of all pings."""
        return PingParser(self.number, interval_ns=ns(self.flow.interval_s), timeout_ns=ns(self._timeout_s()))


class FpingRunner(_Pings):
    """``fping``, which takes a time-out, and prints when it has passed."""

    name = "fping"

    def command(self) -> list[str]:
        """In count mode, with stamps."""
        flow, period_ms = self.flow, self.flow.interval_s * 1000
        return given(
            ("fping -D -c {}", self._count()),
            ("-p {:g}", period_ms),
            ("-t {:g}", self._timeout_s() * 1000),
            # From one packet to any other it waits 10 ms if nothing is said.
            ("-i {:g}", period_ms if period_ms < 10 else None),
            ("-b {}", self._payload_bytes()),
            ("-O {}", flow.dscp << 2 or None),
            ("-{}", flow.ip_version),
            ("-S {}", flow.local_address),
            ("-I {}", flow.interface),
            ("{}", flow.host or ""),
        )

    def parser(self) -> Parser:
        """Of versions 3 to 5."""
        return FpingParser(
            self.number,
            interval_ns=ns(self.flow.interval_s),
            timeout_ns=ns(self._timeout_s()),
            payload_bytes=self._payload_bytes(),
        )

    def _payload_bytes(self) -> int:
        size = self.flow.packet_payload_bytes
        return _PING_PAYLOAD_BYTES if size is None else size
