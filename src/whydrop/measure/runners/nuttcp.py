"""Flows of nuttcp, which counts at the receiver, whichever end that is."""

from __future__ import annotations

from whydrop.measure.runners.parsing.base import Parser
from whydrop.measure.runners.parsing.nuttcp import NuttcpParser
from whydrop.measure.runners.program import ProgramRunner, version_of

DEFAULT_CONTROL_PORT = 5000
DEFAULT_DATA_PORT = 5001
_ADVICE = {
    "connection refused": "start a server there (nuttcp -S -P {port}), or let the firewall pass it",
    "not receiving data": "the server did not send: if it has ended, start it again (nuttcp -S -P {port}); otherwise "
    "look whether a firewall passes the data port",
    "in use": "another flow uses the data port: give each flow an option data_port of its own",
}


class NuttcpRunner(ProgramRunner):
    """A TCP or UDP flow of nuttcp, up (``-t``) or down (``-r``); of UDP downwards it reports the total only."""

    name = "nuttcp"

    def command(self) -> list[str]:
        """Its client."""
        flow = self.flow
        command = ["nuttcp", "-t" if flow.direction == "up" else "-r", "-fparse"]
        if not (flow.kind == "udp" and flow.direction == "down"):
            # Asked for intervals of UDP downwards, version 6.1.2 ends in an error and takes its server along.
            command.append(f"-i{flow.interval_s:g}")
        command += [f"-P{self._port()}", f"-p{flow.options.get('data_port', DEFAULT_DATA_PORT)}"]
        if flow.kind == "udp":
            command.append("-u")
            if flow.direction == "up":
                command.append("-fxmitstats")
        if flow.payload_bytes is not None:
            length_bytes = flow.packet_payload_bytes or (1024 if flow.kind == "udp" else 65_536)
            # it counts in buffers
            command += [f"-n{-(-flow.payload_bytes // length_bytes)}", f"-l{length_bytes}"]
        else:
            command.append(f"-T{flow.duration_s or 10:g}")
            if flow.packet_payload_bytes is not None:
                command.append(f"-l{flow.packet_payload_bytes}")
        if flow.rate_bps is not None:
            # in kbit/s
            command.append(f"-R{max(1, round(flow.rate_bps / 1000))}")
        if (buffer_bytes := flow.send_buffer_bytes or flow.receive_buffer_bytes) is not None:
            command.append(f"-w{max(1, buffer_bytes // 1024)}")
        if "mss_bytes" in flow.options:
            command.append(f"-M{flow.options['mss_bytes']}")
        if flow.dscp:
            command.append(f"-c{flow.dscp}")
        if flow.ip_version is not None:
            command.append(f"-{flow.ip_version}")
        return [*command, flow.host or ""]

    def parser(self) -> Parser:
        """Of its lines for programs."""
        return NuttcpParser(self.number)

    def version(self) -> str:
        """Such as ``nuttcp-6.1.2``."""
        return version_of("nuttcp", "-V")

    def complaint(self) -> str | None:
        """Limits of its own."""
        flow = self.flow
        if flow.duration_s is not None and flow.payload_bytes is not None:
            return "nuttcp takes a duration or a number of bytes, not both"
        both = flow.send_buffer_bytes, flow.receive_buffer_bytes
        if None not in both and both[0] != both[1]:
            return "nuttcp has one size for send and receive buffers (-w); two were given"
        return None

    def advice(self, message: str) -> str:
        """Advice on the usual complaints."""
        for part, what_to_do in _ADVICE.items():
            if part in message.lower():
                return (
                    f"nuttcp to {self.flow.host} port {self._port()}: {message}: {what_to_do.format(port=self._port())}"
                )
        return f"nuttcp to {self.flow.host} port {self._port()}: {message}"

    def _port(self) -> int:
        return self.flow.port or DEFAULT_CONTROL_PORT
