"""Flows of iperf3, for far ends that have nothing else.

One iperf3 server handles one test at a time: several flows at once need a server, and a port, each.

Versions from 3.17 print an event of JSON for each interval. Older ones print JSON only at the end, when a run that was
killed has lost everything; so of them we read the lines for people, which have all but the round-trip time. The option
``json`` prefers the round-trip time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from whydrop.measure.runners.parsing.base import Parser
from whydrop.measure.runners.parsing.iperf3_json import Iperf3Json
from whydrop.measure.runners.parsing.iperf3_text import Iperf3Text
from whydrop.measure.runners.program import ProgramRunner, version_of

DEFAULT_PORT = 5201
_STREAMS_JSON_SINCE = (3, 17)
# The bounds of iperf3's own option -i.
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 0.1, 60.0
_CONNECT_WITHIN_MS = 10_000

_ADVICE = {
    "server is busy": "one iperf3 server handles one test at a time: start one for each flow on a port of its own "
    "(iperf3 -s -p {next_port}) and give each flow its port",
    "connection refused": "start a server there (iperf3 -s -p {port}), or let the firewall pass it",
    "unable to receive control message": "the server ended the connection; it may be busy with another test",
    "algorithm not supported": "see net.ipv4.tcp_available_congestion_control, at the far end too for downloads; "
    "modprobe tcp_NAME loads one",
    "authentication failed": "set the options username, password and public_key as the server wants them",
}


class Iperf3Runner(ProgramRunner):
    """A TCP or UDP flow of iperf3: up, down (``-R``), or both at once (``--bidir``)."""

    name = "iperf3"

    def command(self) -> list[str]:
        """Its client."""
        flow = self.flow
        command = [
            "iperf3",
            "-c",
            flow.host or "",
            "-p",
            str(self._port()),
            "--forceflush",
            "-i",
            f"{flow.interval_s:g}",
        ]
        command += ["--connect-timeout", str(_CONNECT_WITHIN_MS)]
        command += self._output() + self._amount() + self._transport()
        if flow.ip_version is not None:
            command.append(f"-{flow.ip_version}")
        if flow.local_address is not None:
            command += ["-B", flow.local_address]
        if flow.interface is not None:
            command += ["--bind-dev", flow.interface]
        if flow.dscp:
            command += ["--dscp", str(flow.dscp)]
        return command + {"up": [], "down": ["-R"], "both": ["--bidir"]}[flow.direction]

    def _output(self) -> list[str]:
        if self._json():
            words = ["--json-stream"] if _streams_json(self.version()) else ["-J"]
            return [*words, "--get-server-output"] if self.flow.options.get("server_output") else words
        # -V prints the segment size, and the congestion control of both ends
        return ["-f", "k", "-V"]

    def _amount(self) -> list[str]:
        flow = self.flow
        if flow.payload_bytes is not None:
            return ["-n", str(flow.payload_bytes)]
        # It reads whole seconds: it takes 0.6 for 0, which means for ever. What is too much is cut off by the clock.
        return ["-t", str(math.ceil(flow.duration_s or 10))]

    def _transport(self) -> list[str]:
        flow, options = self.flow, self.flow.options
        words: list[str] = []
        if flow.kind == "udp":
            words += ["-u", "-b", f"{flow.rate_bps or 0:.0f}"]
        elif flow.rate_bps is not None:
            words += ["-b", f"{flow.rate_bps:.0f}"]
        if flow.packet_payload_bytes is not None:
            words += ["-l", str(flow.packet_payload_bytes)]
        if flow.congestion_control is not None:
            words += ["-C", flow.congestion_control]
        if flow.pacing_rate_bps is not None:
            words += ["--fq-rate", f"{flow.pacing_rate_bps:.0f}"]
        if (buffer_bytes := flow.send_buffer_bytes or flow.receive_buffer_bytes) is not None:
            words += ["-w", str(buffer_bytes)]
        for option, flag in (("parallel", "-P"), ("mss_bytes", "-M"), ("flow_label", "-L")):
            if option in options:
                words += [flag, str(options[option])]
        words += [flag for option, flag in (("no_delay", "-N"), ("zero_copy", "-Z")) if options.get(option)]
        if "username" in options:
            words += ["--username", str(options["username"])]
            words += ["--rsa-public-key-path", str(options.get("public_key", ""))]
        return words

    def parser(self) -> Parser:
        """For lines or for JSON."""
        sends = {"up": True, "down": False, "both": None}[self.flow.direction]
        if self._json():
            return Iperf3Json(self.number, sends=sends)
        return Iperf3Text(self.number, streams=self._streams(), sends=sends, udp=self.flow.kind == "udp")

    def ends_itself(self) -> bool:
        """True unless it would have to end within a second: it takes whole seconds only."""
        return self.flow.duration_s is None or float(self.flow.duration_s).is_integer()

    def version(self) -> str:
        """Such as ``iperf 3.12 (cJSON 1.7.15)``."""
        return version_of("iperf3", "--version")

    def secrets(self) -> Sequence[str]:
        """The password; it goes through the environment, where other users do not see it."""
        return [str(self.flow.options[key]) for key in ("password", "username") if key in self.flow.options]

    def environment(self) -> Mapping[str, str]:
        """Where iperf3 looks for the password."""
        return {"IPERF3_PASSWORD": str(self.flow.options["password"])} if "password" in self.flow.options else {}

    def complaint(self) -> str | None:
        """Limits of iperf3's own."""
        flow = self.flow
        if not _LEAST_INTERVAL_S <= flow.interval_s <= _MOST_INTERVAL_S:
            return f"iperf3 counts in intervals of 0.1 to 60 s, not {flow.interval_s} s"
        if flow.duration_s is not None and flow.payload_bytes is not None:
            return "iperf3 takes a duration or a number of bytes, not both"
        both = flow.send_buffer_bytes, flow.receive_buffer_bytes
        if None not in both and both[0] != both[1]:
            return "iperf3 has one size for send and receive buffers (-w); two were given"
        if not 1 <= self._streams() <= 128:
            return f"iperf3 runs 1 to 128 connections in parallel, not {flow.options.get('parallel')!r}"
        if flow.options.get("username") and not flow.options.get("public_key"):
            return "iperf3 needs the server's RSA key for a user name: set the option public_key to its file"
        return None

    def advice(self, message: str) -> str:
        """Complete iperf3's short message by what to do about it, where that is known."""
        for part, what_to_do in _ADVICE.items():
            if part in message.lower():
                hint = what_to_do.format(port=self._port(), next_port=self._port() + 1)
                return f"iperf3 to {self.flow.host} port {self._port()}: {message}: {hint}"
        return f"iperf3 to {self.flow.host} port {self._port()}: {message}"

    def _port(self) -> int:
        return self.flow.port or DEFAULT_PORT

    def _streams(self) -> int:
        parallel = self.flow.options.get("parallel", 1)
        return parallel if isinstance(parallel, int) and not isinstance(parallel, bool) else 0

    def _json(self) -> bool:
        return bool(self.flow.options.get("json")) or _streams_json(self.version())


def _streams_json(version: str) -> bool:
    """True if this version can print intervals as JSON while it runs.

    >>> _streams_json("iperf 3.12 (cJSON 1.7.15)"), _streams_json("iperf 3.17.1 (cJSON 1.7.15)"), _streams_json("")
    (False, True, False)
    """
    match = re.match(r"iperf (\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= _STREAMS_JSON_SINCE
