"""ICMP echo by the system's own ``ping`` and by ``fping``, both of which may send it without our being root."""

from __future__ import annotations

import math

from whydrop.measure.runners.parsing.base import Parser, ns
from whydrop.measure.runners.parsing.fping import FpingParser
from whydrop.measure.runners.parsing.ping import PingParser
from whydrop.measure.runners.program import ProgramRunner, version_of

# An answer that took longer is late; a queue of seconds is found where it matters.
DEFAULT_TIMEOUT_S = 5.0
# Of both programs, without ICMP's header.
_DEFAULT_PAYLOAD_BYTES = 56
_MOST_PAYLOAD_BYTES = 65_507
# Without a duration it runs until the end of the test stops it.
_FOREVER = 100_000_000

_ADVICE = {
    "minimal interval": "only root may ping more often with this version: choose a longer interval, or the engine",
    "operation not permitted": "ping lacks the right to send ICMP: sysctl net.ipv4.ping_group_range='0 2147483647', "
    "or setcap cap_net_raw+ep on it",
    "name or service not known": "there is no such host: check its name",
    "network is unreachable": "this host has no route there: see ip route get",
}


class _Pings(ProgramRunner):
    # 1 says that no answer came, which is a result
    good_statuses = frozenset({0, 1})

    def complaint(self) -> str | None:
        """Limits that both have."""
        size = self.flow.packet_payload_bytes
        if size is not None and not 0 <= size <= _MOST_PAYLOAD_BYTES:
            return f"{self.name} sends 0 to {_MOST_PAYLOAD_BYTES} payload bytes, not {size}"
        if self.flow.interval_s < 0.001:
            return f"{self.name} sends at most one probe a millisecond, not one each {self.flow.interval_s} s"
        return None

    def advice(self, message: str) -> str:
        """Advice on the usual complaints."""
        for part, what_to_do in _ADVICE.items():
            if part in message.lower():
                return f"{self.name} to {self.flow.host}: {message}: {what_to_do}"
        return f"{self.name} to {self.flow.host}: {message}"

    def _count(self) -> int:
        if self.flow.duration_s is None:
            return _FOREVER
        return max(1, math.ceil(self.flow.duration_s / self.flow.interval_s - 1e-9))

    def _timeout_s(self) -> float:
        return self.flow.timeout_s or DEFAULT_TIMEOUT_S


class PingRunner(_Pings):
    """``ping`` of iputils (BSD's is understood, but has other options)."""

    name = "ping"

    def command(self) -> list[str]:
        """With stamps, and with a line for what is not answered yet."""
        flow = self.flow
        command = ["ping", "-n", "-D", "-O", "-i", f"{flow.interval_s:g}", "-c", str(self._count())]
        if flow.packet_payload_bytes is not None:
            command += ["-s", str(flow.packet_payload_bytes)]
        if flow.dscp:
            # the whole byte, of which DSCP is the upper six bits
            command += ["-Q", str(flow.dscp << 2)]
        if flow.ip_version is not None:
            command.append(f"-{flow.ip_version}")
        for place in (flow.local_address, flow.interface):
            # Both print their version with the same option.
            command += ["-I", place] if place is not None else []
        return [*command, "-W", f"{self._timeout_s():g}", flow.host or ""]

    def parser(self) -> Parser:
        """Of all pings."""
        return PingParser(
            self.number, interval_ns=ns(self.flow.interval_s), timeout_ns=ns(self._timeout_s()), header_bytes=8
        )

    def version(self) -> str:
        """Such as ``ping from iputils 20221126``."""
        return version_of("ping", "-V")


class FpingRunner(_Pings):
    """``fping``, which takes a time-out, and prints when it has passed."""

    name = "fping"

    def command(self) -> list[str]:
        """In count mode, with stamps."""
        flow = self.flow
        period_ms = flow.interval_s * 1000
        command = [
            "fping",
            "-D",
            "-c",
            str(self._count()),
            "-p",
            f"{period_ms:g}",
            "-t",
            f"{self._timeout_s() * 1000:g}",
        ]
        if period_ms < 10:
            # from one packet to any other it waits 10 ms if nothing is said
            command += ["-i", f"{period_ms:g}"]
        command += ["-b", str(self._payload_bytes())]
        if flow.dscp:
            command += ["-O", str(flow.dscp << 2)]
        if flow.ip_version is not None:
            command.append(f"-{flow.ip_version}")
        if flow.local_address is not None:
            command += ["-S", flow.local_address]
        if flow.interface is not None:
            command += ["-I", flow.interface]
        return [*command, flow.host or ""]

    def parser(self) -> Parser:
        """Of versions 3 to 5."""
        return FpingParser(
            self.number,
            interval_ns=ns(self.flow.interval_s),
            timeout_ns=ns(self._timeout_s()),
            payload_bytes=self._payload_bytes(),
        )

    def version(self) -> str:
        """Such as ``fping: Version 5.1``."""
        return version_of("fping", "-v")

    def _payload_bytes(self) -> int:
        size = self.flow.packet_payload_bytes
        return _DEFAULT_PAYLOAD_BYTES if size is None else size
