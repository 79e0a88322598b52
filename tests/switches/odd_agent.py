"""An SNMP agent that behaves as bad or small agents do: in a thread, on loopback, over v2c."""

from __future__ import annotations

import contextlib
import fcntl
import select
import socket
import sys
import termios
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pyasn1.codec.ber import decoder, encoder
from pysnmp.proto import rfc1905
from pysnmp.proto.api import v2c
from snmp_agents import UP_TIME

TOO_BIG, GENERAL_ERROR, AUTHORIZATION = 1, 5, 16


@dataclass
class OddAgent:
    """An SNMP agent: its objects, and how it is odd.

    Attributes:
        objects: 64-bit counters and texts, by identifier.
        refuses_bulk, ignores_bulk: GetBulk gets an error (genErr), or no answer.
        out_of_order: rows of tables come in the order of ``objects``.
        most: variables in a request; more are answered with tooBig.
        silent_above: variables; larger requests get no answer.
        poisoned: an object for which it refuses the whole request (genErr).
        blind: it shows nothing to this account (authorizationError).
        endless: each row of a table is followed by itself.
        garbage: sent instead of an answer.
        lost: so many requests get no answer first.
        silent_after: requests; later ones get no answer.
        late: answers are sent one request later, twice.
        requests: how many variables those that came had.
        answers: bytes of those that were made.
    """

    objects: Mapping[str, int | str]
    most: int = 10_000
    silent_above: int = 10_000
    poisoned: str = ""
    blind: bool = False
    endless: bool = False
    garbage: bytes = b""
    lost: int = 0
    silent_after: int = 1_000_000
    late: bool = False
    refuses_bulk: bool = False
    ignores_bulk: bool = False
    out_of_order: bool = False
    uptime: int = 4_000
    requests: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    port: int = 0
    held: bytes = b""
    socket: socket.socket | None = None
    working: bool = False

    def is_idle(self) -> bool:
        """True if it has answered all that came."""
        # Looked at in this order: while it takes a request there is one, or it is at work.
        assert self.socket is not None
        return not _waiting_bytes(self.socket) and not self.working and not _waiting_bytes(self.socket)

    def answer(self, request: bytes) -> list[bytes]:
        """The datagrams that answer one."""
        message, _ = decoder.decode(request, asn1Spec=v2c.Message())
        pdu = v2c.apiMessage.get_pdu(message)
        asked = [str(oid) for oid, _ in v2c.apiPDU.get_varbinds(pdu)]
        self.requests.append(len(asked))
        if self.lost or len(self.requests) > self.silent_after:
            self.lost = max(0, self.lost - 1)
            return []
        if self.garbage:
            return [self.garbage]
        if len(asked) > self.silent_above:
            return []
        reply = v2c.apiMessage.get_response(message)
        response = v2c.apiMessage.get_pdu(reply)
        bulk = pdu.isSameTypeWith(rfc1905.GetBulkRequestPDU())
        if bulk and self.ignores_bulk:
            return []
        error = GENERAL_ERROR if bulk and self.refuses_bulk else self._error(asked)
        if error:
            v2c.apiPDU.set_varbinds(response, [] if error == TOO_BIG else v2c.apiPDU.get_varbinds(pdu))
            v2c.apiPDU.set_error_status(response, error)
            v2c.apiPDU.set_error_index(response, 0 if error == TOO_BIG else 1)
        else:
            v2c.apiPDU.set_varbinds(response, self._answered(pdu, asked))
        whole = encoder.encode(reply)
        self.answers.append(len(whole))
        if not self.late:
            return [whole]
        before, self.held = self.held, whole
        return [before, before] if before else []

    def _answered(self, pdu: object, asked: list[str]) -> list[tuple[v2c.ObjectIdentifier, object]]:
        if pdu.isSameTypeWith(rfc1905.GetBulkRequestPDU()):  # type: ignore[attr-defined]
            return self._rows(asked[0])
        if pdu.isSameTypeWith(rfc1905.GetNextRequestPDU()):  # type: ignore[attr-defined]
            return self._rows(asked[0])[:1]
        return [self._variable(oid) for oid in asked]

    def _error(self, asked: list[str]) -> int:
        if len(asked) > self.most:
            return TOO_BIG
        if self.blind:
            return AUTHORIZATION
        return GENERAL_ERROR if self.poisoned in asked else 0

    def _variable(self, oid: str) -> tuple[v2c.ObjectIdentifier, object]:
        if oid == UP_TIME:
            return v2c.ObjectIdentifier(oid), v2c.TimeTicks(self.uptime)
        if oid in self.objects:
            value = self.objects[oid]
            return v2c.ObjectIdentifier(oid), v2c.OctetString(value) if isinstance(value, str) else v2c.Counter64(value)
        return v2c.ObjectIdentifier(oid), rfc1905.noSuchInstance

    def _rows(self, after: str) -> list[tuple[v2c.ObjectIdentifier, object]]:
        if self.endless:
            row = next(oid for oid in self.objects if oid.startswith(after) or after.startswith(oid))
            return [self._variable(row)]
        key = tuple(map(int, after.split(".")))
        known = [tuple(map(int, one.split("."))) for one in self.objects]
        if self.out_of_order:
            later = known[known.index(key) + 1 :] if key in known else [oid for oid in known if oid > key]
        else:
            later = sorted(oid for oid in known if oid > key)
        if not later:
            return [(v2c.ObjectIdentifier(after), rfc1905.endOfMibView)]
        return [self._variable(".".join(map(str, oid))) for oid in later[:20]]


def _waiting_bytes(of: socket.socket) -> int:
    """The length of the datagram that can be read next."""
    answer = fcntl.ioctl(of, termios.FIONREAD, bytes(4))
    return int.from_bytes(answer, sys.byteorder)


@contextlib.contextmanager
def odd(agent: OddAgent) -> Iterator[OddAgent]:
    """Let it answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind(("127.0.0.1", 0))
        agent.port, agent.socket = here.getsockname()[1], here
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                with contextlib.suppress(BlockingIOError):
                    # It is at work before a request is taken off the socket.
                    select.select([here], [], [], 0.05)
                    agent.working = True
                    request, peer = here.recvfrom(65536, socket.MSG_DONTWAIT)
                    for datagram in agent.answer(request):
                        here.sendto(datagram, peer)
                agent.working = False

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield agent
        finally:
            over.set()
            thread.join()
