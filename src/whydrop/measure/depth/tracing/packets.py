"""UDP packets with a chosen time to live, and the ICMP errors that answer them, read without any privilege.

``IP_RECVERR`` (ip(7)) makes the kernel queue each ICMP error at the socket that sent the packet. All packets have one
5-tuple, so that routers that balance load by flow send all of them along one path.
"""

from __future__ import annotations

import ctypes
import errno
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whydrop.measure.engine import EngineError

PORT = 33434
"""The first port of traceroute: no program listens there, and firewalls know it."""

# linux/errqueue.h, linux/in.h, linux/in6.h, linux/net_tstamp.h: Python has no names for most of these.
_RECVERR = {4: (socket.IPPROTO_IP, 11), 6: (socket.IPPROTO_IPV6, 25)}
_TTL = {4: (socket.IPPROTO_IP, socket.IP_TTL), 6: (socket.IPPROTO_IPV6, 52)}
_MSG_ERRQUEUE = 0x2000
_SO_TIMESTAMPING = 37
_TX_SOFTWARE, _RX_SOFTWARE, _SOFTWARE = 1 << 1, 1 << 3, 1 << 4
_FROM_ICMP = (2, 3)
_FROM_STAMPING = 4
_EXTENDED_ERROR = struct.Struct("=IBBBBII")
_TIMESPEC = struct.Struct("=qq")
# Type and code of ICMP and ICMPv6: the time to live ended, and the host has no such port.
_TIME_EXCEEDED = {4: (11, 0), 6: (3, 0)}
_NO_PORT = {4: (3, 3), 6: (1, 4)}
# Types of an echo request and of its reply.
_ECHO = {4: (8, 0), 6: (128, 129)}

# An answer to an earlier packet makes the next call fail; the packet itself was not sent then.
_ANSWERED = (errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.ENETUNREACH, errno.ENOPROTOOPT, errno.EPROTO, errno.EACCES)
_BATCH = 64
# Packets of so much time are sent at once where the rate is limited; waits shorter than the second do not sleep.
_PACED_S, _SPIN_S = 200e-6, 100e-6
_RECEIVE_BYTES = 8 << 20
_HEAD = struct.Struct("!4s8sI")
_MAGIC = b"whyd"


@dataclass(frozen=True)
class Answer:
    """An ICMP error, or the reply to an echo request.

    Attributes:
        marker: the number of the packet that it answers; ``None``: the router quotes too little of it.
        address: of the host that answers.
        kind: ``time-exceeded``, ``no-port``, ``echo`` or ``other``.
        time_ns: when the kernel received it, clock ``CLOCK_REALTIME``.
    """

    marker: int | None
    address: str
    kind: str
    time_ns: int


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    # struct msghdr of sendmsg(2).
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_IoVector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Message(ctypes.Structure):
    # struct mmsghdr of sendmmsg(2).
    _fields_ = (("header", _Header), ("sent", ctypes.c_uint))


@dataclass(frozen=True)
class Packet:
    """A packet to send.

    Attributes:
        marker: its number; ``None``: it fills the queue only, and nothing is to be known of it.
        hops: its time to live; ``None``: as far as the host.
    """

    marker: int | None = None
    hops: int | None = None


class Markers:
    """A UDP socket for packets of one size to one host."""

    def __init__(self, family: int, address: Any, payload_bytes: int, token: bytes) -> None:
        self.version = 6 if family == socket.AF_INET6 else 4
        self._token, self._payload_bytes = token, payload_bytes
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(*_RECVERR[self.version], 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _RX_SOFTWARE | _SOFTWARE)
            self._socket.connect((address[0], PORT, *address[2:]))
        except OSError as reason:
            self._socket.close()
            raise EngineError(f"packets with a short time to live cannot be sent: {reason.strerror}") from None
        self._host = address[0]
        # The structures keep addresses only: these keep the memory.
        self._filler = self._vector(0xFFFFFFFF)
        self._fillers = (_Message * _BATCH)()
        for message in self._fillers:
            _point(message, self._filler)
        self._sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
        # The mean time between packets that is kept; 0: as fast as the line.
        self.gap_s = 0.0
        self._due_s = 0.0
        # When each marker left, by number.
        self.left_ns: dict[int, int] = {}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def fill(self, packets: int, until_s: float) -> int:
        """Send so many packets to the host, as fast as the line; how many were sent until then."""
        sent = 0
        while sent < packets and time.monotonic() < until_s:
            sent += self._give(self._fillers, 0, min(_BATCH, packets - sent))
        return sent

    def send(self, packets: Sequence[Packet], until_s: float) -> int:
        """Send these as fast as the line; how many were sent until then."""
        messages = (_Message * len(packets))()
        memory = [self._prepare(message, packet) for message, packet in zip(messages, packets, strict=True)]
        sent = 0
        while sent < len(packets) and time.monotonic() < until_s:
            sent += self._give(messages, sent, len(packets) - sent)
        del memory
        return sent

    def _prepare(self, message: _Message, packet: Packet) -> Any:
        """Fill in a message; the memory that it points to."""
        if packet.marker is None:
            _point(message, self._filler)
            return None
        control = _control(socket.SOL_SOCKET, _SO_TIMESTAMPING, struct.pack("=I", _TX_SOFTWARE))
        if packet.hops is not None:
            control += _control(*_TTL[self.version], struct.pack("=i", packet.hops))
        vector, options = self._vector(packet.marker), ctypes.create_string_buffer(control, len(control))
        _point(message, vector)
        message.header.control, message.header.control_length = ctypes.addressof(options), len(control)
        return vector, options

    def _vector(self, marker: int) -> Any:
        """A payload with this number, and what points to it."""
        payload = ctypes.create_string_buffer(_HEAD.pack(_MAGIC, self._token, marker), self._payload_bytes)
        return payload, _IoVector(ctypes.addressof(payload), self._payload_bytes)

    def _give(self, messages: Any, first: int, count: int) -> int:
        """Hand messages to the kernel; how many it took."""
        if self.gap_s:
            count = min(count, max(1, int(_PACED_S / self.gap_s)))
            while (left_s := self._due_s - time.monotonic()) > 0:
                time.sleep(left_s if left_s > _SPIN_S else 0)
            self._due_s = max(self._due_s, time.monotonic() - _PACED_S) + count * self.gap_s
        at = ctypes.byref(messages, first * ctypes.sizeof(_Message))
        sent = self._sendmmsg(self._socket.fileno(), at, min(count, 1024), 0)
        if sent >= 0:
            return int(sent)
        reason = ctypes.get_errno()
        if reason == errno.ENOBUFS:
            # The queue of this host's own interface is full.
            time.sleep(50e-6)
        elif reason not in (*_ANSWERED, errno.EINTR, errno.EAGAIN):
            raise EngineError(f"{self._host}: cannot send packets: {errno.errorcode.get(reason, reason)}")
        return 0

    def answers(self, wait_s: float) -> Iterator[Answer]:
        """Answers as they come, for so long."""
        poll = select.poll()
        poll.register(self._socket, select.POLLERR)
        until_s = time.monotonic() + wait_s
        while True:
            yield from self._queued()
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            poll.poll(1e3 * left_s)

    def _queued(self) -> Iterator[Answer]:
        for data, control in _waiting(self._socket, _MSG_ERRQUEUE):
            error, time_ns = _told(control, self.version)
            if error is None:
                continue
            head, offender = error
            _, origin, kind, code, *_ = head
            if origin == _FROM_STAMPING:
                self._left(data, time_ns)
            elif origin in _FROM_ICMP:
                known = {_TIME_EXCEEDED[self.version]: "time-exceeded", _NO_PORT[self.version]: "no-port"}
                yield Answer(_number_in(data, self._token), offender, known.get((kind, code), "other"), time_ns)

    def _left(self, frame: bytes, time_ns: int) -> None:
        number = _number_in(frame, self._token)
        if number is not None:
            self.left_ns.setdefault(number, time_ns)


class Echoes:
    """Echo requests (ping) of the same size: the host's own answers, which its limit of ICMP errors does not count."""

    def __init__(self, family: int, address: Any, payload_bytes: int, token: bytes) -> None:
        self.version = 6 if family == socket.AF_INET6 else 4
        self._token, self._payload_bytes = token, payload_bytes
        protocol = socket.IPPROTO_ICMPV6 if family == socket.AF_INET6 else socket.IPPROTO_ICMP
        self._socket = socket.socket(family, socket.SOCK_DGRAM, protocol)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, _RX_SOFTWARE | _SOFTWARE | _TX_SOFTWARE)
        self._socket.connect((address[0], 0, *address[2:]))
        self._host = address[0]
        self.left_ns: dict[int, int] = {}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, marker: int, hops: int | None = None) -> None:
        """Send one with this number."""
        head = struct.pack("!BBHHH", _ECHO[self.version][0], 0, 0, 0, marker & 0xFFFF)
        request = head + _HEAD.pack(_MAGIC, self._token, marker).ljust(self._payload_bytes, b"\0")
        level, name = _TTL[self.version]
        control = [] if hops is None else [(level, name, struct.pack("=i", hops))]
        try:
            self._socket.sendmsg([request], control)
        except OSError:
            # The queue of this host's own interface is full, or an answer to an earlier one came.
            return

    def answers(self) -> Iterator[Answer]:
        """Replies that have come."""
        self._read_stamps()
        for data, control in _waiting(self._socket):
            number = _number_in(data, self._token)
            if number is not None and data[0] == _ECHO[self.version][1]:
                yield Answer(number, self._host, "echo", _told(control, self.version)[1])

    def _read_stamps(self) -> None:
        for data, control in _waiting(self._socket, _MSG_ERRQUEUE):
            error, time_ns = _told(control, self.version)
            number = _number_in(data, self._token)
            if error is not None and error[0][1] == _FROM_STAMPING and number is not None:
                self.left_ns.setdefault(number, time_ns)


def _waiting(one: socket.socket, flags: int = 0) -> Iterator[tuple[bytes, list[tuple[int, int, bytes]]]]:
    """The packets that wait in a socket's queue, with their control messages."""
    while True:
        try:
            data, control, _, _ = one.recvmsg(512, 512, flags | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            # The error of an answer, which is also in the queue of errors.
            continue
        yield data, control


def _number_in(data: bytes, token: bytes) -> int | None:
    """The number of a marker, wherever its payload begins in a packet."""
    at = data.find(_MAGIC + token)
    return None if at < 0 or len(data) < at + _HEAD.size else int(_HEAD.unpack_from(data, at)[2])


def _point(message: _Message, vector: Any) -> None:
    message.header.vectors, message.header.vector_count = ctypes.pointer(vector[1]), 1


def _control(level: int, name: int, data: bytes) -> bytes:
    """A control message, as sendmsg(2) has it."""
    head = struct.pack("@Nii", ctypes.sizeof(ctypes.c_size_t) + 8 + len(data), level, name)
    return (head + data).ljust((len(head) + len(data) + 7) // 8 * 8, b"\0")


def _told(control: Sequence[tuple[int, int, bytes]], version: int) -> tuple[tuple[Any, str] | None, int]:
    """The extended error with the address of its sender, and the kernel's time stamp."""
    error, time_ns = None, 0
    for level, name, data in control:
        if (level, name) == _RECVERR[version] and len(data) >= _EXTENDED_ERROR.size:
            error = _EXTENDED_ERROR.unpack_from(data), _offender(data[_EXTENDED_ERROR.size :])
        elif (level, name) == (socket.SOL_SOCKET, _SO_TIMESTAMPING) and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            time_ns = seconds * 1_000_000_000 + nanoseconds
    return error, time_ns or time.time_ns()


def _offender(data: bytes) -> str:
    """The address in a ``sockaddr``; empty where there is none."""
    family = struct.unpack_from("=H", data)[0] if len(data) >= 2 else 0
    if family == socket.AF_INET and len(data) >= 8:
        return socket.inet_ntop(socket.AF_INET, data[4:8])
    if family == socket.AF_INET6 and len(data) >= 24:
        return socket.inet_ntop(socket.AF_INET6, data[8:24])
    return ""
