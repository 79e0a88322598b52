"""Flows of netperf, where it is installed: TCP in both directions, and round trips by UDP_RR."""

from __future__ import annotations

import math

from whydrop.measure.runners.parsing.base import Parser
from whydrop.measure.runners.parsing.netperf import NetperfParser
from whydrop.measure.runners.program import ProgramRunner, version_of

DEFAULT_PORT = 12865
# What it prints at the end (netperf manual, "Omni output selectors").
_TOTALS = (
    "THROUGHPUT,THROUGHPUT_UNITS,LOCAL_CONG_CONTROL,REMOTE_CONG_CONTROL,TRANSPORT_MSS,LOCAL_TRANSPORT_RETRANS,"
    "REMOTE_TRANSPORT_RETRANS,LOCAL_SOCKET_TOS,REMOTE_SOCKET_TOS,ELAPSED_TIME,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,"
    "REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD"
)
_ADVICE = {
    "connection refused": "start a server there (netserver -p {port}), or let the firewall pass it",
    "establish control": "start a server there (netserver -p {port}), or let the firewall pass it",
    "invalid option": "it was built without --enable-demo and prints no intervals: build it with that option",
}


class NetperfRunner(ProgramRunner):
    """TCP_STREAM, TCP_MAERTS (downwards), or UDP_RR, with mean round trips in ms as values."""

    name = "netperf"

    def command(self) -> list[str]:
        """With interim results, an exact clock of them (the minus), and key=value output."""
        flow = self.flow
        test = "UDP_RR" if flow.kind == "probe" else "TCP_STREAM" if flow.direction == "up" else "TCP_MAERTS"
        command = ["netperf", "-P", "0", "-v", "0", "-D", f"-{flow.interval_s:.3f}", "-t", test]
        command += [
            "-H",
            flow.host or "",
            "-p",
            str(flow.port or DEFAULT_PORT),
            "-l",
            str(math.ceil(flow.duration_s or 10)),
        ]
        if flow.ip_version is not None:
            command.append(f"-{flow.ip_version}")
        if flow.local_address is not None:
            command += ["-L", flow.local_address]
        if flow.dscp:
            command += ["-Y", f"0x{flow.dscp << 2:02x},0x{flow.dscp << 2:02x}"]
        if test != "UDP_RR":
            command += ["-f", "m"]
        return [*command, "--", *self._of_the_test()]

    def _of_the_test(self) -> list[str]:
        flow = self.flow
        words = ["-k", _TOTALS]
        if flow.local_address is not None:
            # of the data connection; the option of the same name before is the control connection's
            words += ["-L", flow.local_address]
        if flow.congestion_control is not None:
            words += ["-K", flow.congestion_control]
        if flow.send_buffer_bytes is not None or flow.receive_buffer_bytes is not None:
            # at either end: the sizes of its own send and receive buffer
            sizes = f"{flow.send_buffer_bytes or 0},{flow.receive_buffer_bytes or 0}"
            words += ["-s", sizes, "-S", sizes]
        if flow.packet_payload_bytes is not None:
            size = flow.packet_payload_bytes
            words += ["-r", f"{size},{size}"] if flow.kind == "probe" else ["-m", str(size), "-M", str(size)]
        if "data_port" in flow.options:
            words += ["-P", f",{flow.options['data_port']}"]
        return words

    def ends_itself(self) -> bool:
        """It takes whole seconds."""
        return self.flow.duration_s is None or float(self.flow.duration_s).is_integer()

    def parser(self) -> Parser:
        """Of interim results."""
        return NetperfParser(self.number, round_trips=self.flow.kind == "probe")

    def version(self) -> str:
        """Such as ``Netperf version 2.7.0``."""
        return version_of("netperf", "-V")

    def advice(self, message: str) -> str:
        """Advice on the usual complaints."""
        port = self.flow.port or DEFAULT_PORT
        for part, what_to_do in _ADVICE.items():
            if part in message.lower():
                return f"netperf to {self.flow.host} port {port}: {message}: {what_to_do.format(port=port)}"
        return f"netperf to {self.flow.host} port {port}: {message}"
