"""Probes to a STAMP or TWAMP-Light reflector, which routers have: RFC 8762, and RFC 5357 appendix I.

Packets are those of the unauthenticated mode, 44 bytes or more (RFC 8762, 4.2.1 and 4.3.1). The time that the reflector
kept a packet is taken off by its own two timestamps. A reflector that counts what it answers (stateful, RFC 8762, 4.3)
shows by its numbers in which direction packets were lost; one that copies the sender's numbers does not.
"""

from __future__ import annotations

import bisect
import contextlib
import errno
import logging
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

from whydrop.measure.engine import EngineError, looked_up
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Outcome, Rows, ThreadRunner
from whydrop.measure.runners.registry import SUPPORT

LEAST_BYTES = 44
_MOST_BYTES = 65_507
_TIMEOUT_S = 2.0
# From the Unix epoch back to that of NTP (RFC 5905).
_NTP_EPOCH_S = 2_208_988_800
_SENT = struct.Struct("!IQH")
_REFLECTED = struct.Struct("!IQHHQIQ")
# Error estimate: not synchronised, half a second (RFC 8762, 4.2.1).
_ERROR_ESTIMATE = 31 << 8 | 1
_IS_PTP = 0x4000
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("=qq")
# A kernel's stamp that is older than this when it is read is none: its clock was set meanwhile.
_LONGEST_READING_NS = 1_000_000_000
# As long as a probe of the engine waits for the exact time that it is due.
_EARLY_NS = 500_000

# Packets that overtook others in the reflector's count between two that did not.
_MOST_REORDERED = 64

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reflected:
    """The content of a reflector's packet.

    Attributes:
        number: the reflector's own; a stateless one copies ``sender_number``.
        kept_ns: how long it was in the reflector; ``None`` where its stamps make no sense.
        stamp: the sender's timestamp, as it was sent.
    """

    number: int
    sender_number: int
    kept_ns: int | None
    stamp: int


def packet(number: int, wall_ns: int, size_bytes: int) -> bytes:
    """A test packet of the unauthenticated mode."""
    return _SENT.pack(number, ntp(wall_ns), _ERROR_ESTIMATE).ljust(size_bytes, b"\0")


def ntp(wall_ns: int) -> int:
    """A time since the Unix epoch as NTP's 64 bits.

    >>> hex(ntp(1_500_000_000))
    '0x83aa7e8180000000'
    """
    seconds, rest_ns = divmod(wall_ns, 1_000_000_000)
    return (seconds + _NTP_EPOCH_S & 0xFFFF_FFFF) << 32 | (rest_ns << 32) // 1_000_000_000


def reflected(data: bytes) -> Reflected | None:
    """Read a reflector's packet; ``None`` if it is too short to be one."""
    if len(data) < _REFLECTED.size:
        return None
    number, sent, error, _, received, sender_number, stamp = _REFLECTED.unpack_from(data)
    kept_ns = _nanoseconds(sent, error) - _nanoseconds(received, error)
    return Reflected(number, sender_number, kept_ns if 0 <= kept_ns < 10**10 else None, stamp)


def _nanoseconds(stamp: int, error_estimate: int) -> int:
    seconds, rest = stamp >> 32, stamp & 0xFFFF_FFFF
    return seconds * 10**9 + (rest if error_estimate & _IS_PTP else rest * 10**9 >> 32)


class Fates:
    """In which direction packets were lost, by the numbers of a reflector that counts what it answers.

    >>> fates = Fates()
    >>> for sender, reflector in ((0, 0), (1, 1), (4, 2)):
    ...     fates.answered(sender, reflector)
    >>> fates.of(2), fates.of(3), fates.of(9)
    ('lost-up', 'lost-up', 'lost')
    """

    def __init__(self) -> None:
        self._sent: list[int] = []
        self._reflected: list[int] = []
        self._numbers: set[int] = set()
        self._counts = False

    def answered(self, sender_number: int, number: int) -> None:
        """Note an answer."""
        place = bisect.bisect(self._sent, sender_number)
        if place:
            # The difference changes by what did not get there; a copied number shows none.
            self._counts |= number - self._reflected[place - 1] < sender_number - self._sent[place - 1]
        self._sent.insert(place, sender_number)
        self._reflected.insert(place, number)
        self._numbers.add(number)

    def of(self, sender_number: int) -> str:
        """The fate of a packet without an answer: ``lost-up``, ``lost-down``, or ``lost`` in an unknown direction."""
        place = bisect.bisect(self._sent, sender_number)
        if not self._counts or not 0 < place < len(self._sent):
            return "lost"
        missing = self._sent[place] - self._sent[place - 1] - 1
        between = range(self._reflected[place - 1] + 1, self._reflected[place])
        if len(between) > missing + _MOST_REORDERED or self._reflected[place] < self._reflected[place - 1]:
            return "lost"
        # Numbers of packets that overtook others are among them, and known.
        came = sum(number not in self._numbers for number in between)
        return "lost-up" if came == 0 else "lost-down" if came == missing else "lost"


@dataclass
class _Waiting:
    """A probe without an answer yet; times of the monotonic clock."""

    scheduled_ns: int
    sent_ns: int
    stamp: int


class StampRunner(ThreadRunner):
    """One stream of probes, sent at even intervals."""

    name = "stamp"

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        super().__init__(flow, number)
        self._probes = Rows()
        self._waiting: dict[int, _Waiting] = {}
        self._fates = Fates()
        self._size_bytes = max(LEAST_BYTES, flow.packet_payload_bytes or 0)
        self._timeout_ns = round((flow.timeout_s or _TIMEOUT_S) * 1e9)
        self._answered = self._without_stamps = 0
        self._latest = -1
        self._refused = False
        # Recordings have times of one clock: what is measured by the monotonic one is written down by the wall's.
        self._to_wall_ns = time.time_ns() - time.monotonic_ns()

    def check(self) -> str | None:
        """Faults of the flow's settings."""
        if complaint := SUPPORT[self.name].complaint(self.flow):
            return complaint
        if (self.flow.packet_payload_bytes or 0) > _MOST_BYTES:
            return f"flow {self.flow.name!r}: packet_payload_bytes: expected {LEAST_BYTES} to {_MOST_BYTES}"
        return None

    def finish(self, timeout_s: float) -> Outcome:
        """Wait for the end; the last probes have their time to be answered."""
        return super().finish(max(timeout_s, self._timeout_ns / 1e9))

    def _told(self) -> dict[str, Any]:
        facts = {"answered": self._answered, "payload_bytes": self._size_bytes}
        if self._without_stamps:
            facts["answers_without_sensible_timestamps"] = self._without_stamps
        return facts

    def _result(self) -> tuple[str, str | None]:
        return ("complete", None) if self._answered else ("no-data", self._silence())

    def _silence(self) -> str:
        place = f"{self.flow.host} port {self._port} (UDP)"
        if self._refused:
            return f"{place}: port unreachable: no STAMP or TWAMP-Light reflector listens there"
        return f"{place}: no answer: start a STAMP or TWAMP-Light reflector there, or let the firewall pass the port"

    @property
    def _port(self) -> int:
        return self.flow.port or SUPPORT[self.name].port or 0

    def _rows(self) -> Rows:
        return self._probes

    # Its thread.

    def _supervise(self) -> None:
        try:
            with self._socket() as one:
                self._run(one)
        except (EngineError, OSError) as reason:
            self._broken = f"{self.flow.host} port {self._port}: {getattr(reason, 'strerror', None) or reason}"
        except Exception as reason:
            _log.exception("runner stamp of flow %s", self.flow.name)
            self._broken = f"probing failed: {reason!r}"
        self._expire(float("inf"))

    def _socket(self) -> socket.socket:
        flow = self.flow
        family, address = looked_up(flow.host or "", flow.ip_version, self._port)
        one = socket.socket(family, socket.SOCK_DGRAM)
        try:
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            if flow.interface is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, flow.interface.encode() + b"\0")
            if flow.local_address is not None:
                one.bind((flow.local_address, 0))
            level, option = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS), (socket.IPPROTO_IP, socket.IP_TOS)
            one.setsockopt(*(level if family == socket.AF_INET6 else option), flow.dscp << 2)
            one.connect(address)
        except BaseException:
            one.close()
            raise
        return one

    def _run(self, one: socket.socket) -> None:
        interval_ns = round(self.flow.interval_s * 1e9)
        count = None if self.flow.duration_s is None else max(1, round(self.flow.duration_s * 1e9) // interval_ns)
        number = 0
        while not self._stopping.is_set() and (count is None or number < count):
            due_ns = self._due_ns + number * interval_ns
            self._receive_until(one, due_ns - _EARLY_NS)
            while time.monotonic_ns() < due_ns and not self._stopping.is_set():
                time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
            self._send(one, number, due_ns)
            number += 1
            self._expire(time.monotonic_ns() - self._timeout_ns)
        end_ns = time.monotonic_ns() + self._timeout_ns
        while self._waiting and not self._stopping.is_set() and time.monotonic_ns() < end_ns:
            self._receive_until(one, min(end_ns, time.monotonic_ns() + 50_000_000))

    def _send(self, one: socket.socket, number: int, due_ns: int) -> None:
        sent_ns = time.monotonic_ns()
        data = packet(number, sent_ns + self._to_wall_ns, self._size_bytes)
        self._waiting[number] = _Waiting(due_ns, sent_ns, _SENT.unpack_from(data)[1])
        try:
            one.send(data)
        except ConnectionRefusedError:
            # Of an earlier packet; this one was not sent.
            self._refused = True
            with contextlib.suppress(OSError):
                one.send(data)
        except OSError as reason:
            if reason.errno in (errno.EMSGSIZE, errno.EINVAL):
                raise
            self._answer(number, self._waiting.pop(number), fate="not-sent")

    def _receive_until(self, one: socket.socket, until_ns: int) -> None:
        while not self._stopping.is_set():
            left_s = (until_ns - time.monotonic_ns()) / 1e9
            if not select.select([one], [], [], max(0.0, min(left_s, 0.1)))[0]:
                if left_s <= 0.1:
                    return
                continue
            try:
                data, ancillary, _, _ = one.recvmsg(2048, 128)
            except ConnectionRefusedError:
                self._refused = True
                continue
            except BlockingIOError:
                continue
            self._take(data, _received_ns(ancillary))

    def _take(self, data: bytes, received_ns: int) -> None:
        found = reflected(data)
        waiting = None if found is None else self._waiting.get(found.sender_number)
        # Only who saw the packet knows its stamp.
        if found is None or waiting is None or found.stamp != waiting.stamp:
            return
        del self._waiting[found.sender_number]
        self._fates.answered(found.sender_number, found.number)
        took_ns = received_ns - waiting.sent_ns
        kept_ns = found.kept_ns
        if kept_ns is None or kept_ns > took_ns:
            self._without_stamps += 1
            kept_ns = 0
        self._answered += 1
        self._answer(
            found.sender_number,
            waiting,
            fate="ok",
            received_ns=received_ns + self._to_wall_ns,
            rtt_ns=took_ns - kept_ns,
            reordered=found.sender_number < self._latest,
            duplicates=0,
        )
        self._latest = max(self._latest, found.sender_number)

    def _expire(self, before_ns: float) -> None:
        """Give up probes that were sent before a time."""
        for number in [one for one, waiting in self._waiting.items() if waiting.sent_ns < before_ns]:
            self._answer(number, self._waiting.pop(number), fate=self._fates.of(number))

    def _answer(self, number: int, waiting: _Waiting, **columns: object) -> None:
        with self._lock:
            self._probes.add(
                "probes",
                flow=self.number,
                sequence=number,
                scheduled_ns=waiting.scheduled_ns + self._to_wall_ns,
                sent_ns=None if columns["fate"] == "not-sent" else waiting.sent_ns + self._to_wall_ns,
                payload_bytes=self._size_bytes,
                **columns,
            )


def _received_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """When the kernel received a packet, by the monotonic clock; now, where it did not say so."""
    now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, rest = _TIMESPEC.unpack_from(data)
            reading_ns = wall_ns - (seconds * 1_000_000_000 + rest)
            if 0 <= reading_ns < _LONGEST_READING_NS:
                return int(now_ns - reading_ns)
    return now_ns
