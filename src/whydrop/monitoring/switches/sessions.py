"""Asks one switch by SNMP: as many objects in one message as the switch takes, with retries.

Measured on gufo-snmp 0.13, which sends and reads the messages: it reports neither a value's type nor a response's error
status (RFC 3416, section 3). A response with an error (tooBig, genErr; all but authorizationError) arrives as one
without values, and so does one in which nothing exists. Hence every message asks for sysUpTime too, which every agent
has: a response without it is an error. sysUpTime also dates the poll by the switch's own clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Community, Switch, User
from whydrop.runtime import extras

extras.need("switches")

import gufo.snmp  # noqa: E402
from gufo.snmp import SnmpAuthError, SnmpDecodeError  # noqa: E402
from gufo.snmp.aio import SnmpSession  # noqa: E402
from gufo.snmp.user import BaseAuthKey, BasePrivKey, KeyType  # noqa: E402

# A response of this size needs no IP fragments, which many switches and filters drop: 1500 bytes less IPv6, UDP, and
# an SNMP v3 header with its signature.
LARGEST_BYTES = 1500 - 40 - 8 - 160
# RFC 3417, section 3.2: every agent takes messages of 484 bytes. Header of v3 deducted.
SMALLEST_BYTES = 484 - 160
_ROWS_AT_ONCE = 20
_PAUSE_S = 0.2
# RFC 3414, 2.2.3: an agent refuses messages with a time of its clock that is off by more than 150 s.
_FRESH_S = 100.0
_NAME_FRESH_S = 60.0
_SHARE_OF_NAMES = 0.6
# More rows than a table of a switch has: some agents repeat rows without end.
MOST_ROWS = 200_000

Value = int | bytes | str | float | None
T = TypeVar("T")

_AUTH: dict[str, type[BaseAuthKey]] = {
    "MD5": gufo.snmp.Md5Key,
    "SHA-1": gufo.snmp.Sha1Key,
    "SHA-224": gufo.snmp.Sha224Key,
    "SHA-256": gufo.snmp.Sha256Key,
    "SHA-384": gufo.snmp.Sha384Key,
    "SHA-512": gufo.snmp.Sha512Key,
}
_PRIV: dict[str, type[BasePrivKey]] = {
    "DES": gufo.snmp.DesKey,
    "AES-128": gufo.snmp.Aes128Key,
    "AES-192": gufo.snmp.Aes192Key,
    "AES-256": gufo.snmp.Aes256Key,
}


class AskingError(Exception):
    """A switch that did not answer as it should; ``status`` is that of the table ``polls``."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


class _EndlessError(AskingError):
    """A table with rows without end."""


class _NameError(Exception):
    """A name for which there is no address."""


@dataclass
class Answer:
    """The answer of a switch.

    Attributes:
        values: by object identifier; what does not exist on the switch is not in it.
        uptime_ns: sysUpTime in the first message.
        unanswered: identifiers in messages without an answer, where other messages had one.
    """

    values: dict[str, Value] = field(default_factory=dict)
    uptime_ns: int | None = None
    unanswered: list[str] = field(default_factory=list)


class SwitchSession:
    """One switch, asked by one message after the other, by one task at a time.

    Args:
        switch: which one.
        community_suffix: appended to the community: ``@7`` asks a Cisco switch for its VLAN 7.
        user: of v3, with keys; by default made from the switch's account.
    """

    def __init__(self, switch: Switch, community_suffix: str = "", *, user: gufo.snmp.User | None = None) -> None:
        self._switch = switch
        self._suffix = community_suffix
        self._user = _user(switch.account) if user is None and isinstance(switch.account, User) else user
        self._client: SnmpSession | None = None
        self._resolved_to: list[str] = []
        self._turn = 0  # which of these is asked
        self._resolved_at = 0.0
        self._last_answer = time.monotonic()
        self._greeted = False  # v3: the agent sent its engine's name, as it does to every client
        self._takes_bulk: bool | None = None  # whether it answers GetBulk; None before it gave rows
        self.largest_bytes = LARGEST_BYTES

    def beside(self, community_suffix: str = "") -> SwitchSession:
        """Another session with the same switch, with this suffix to the community."""
        other = SwitchSession(self._switch, community_suffix, user=self._user)
        other.largest_bytes, other._takes_bulk = self.largest_bytes, self._takes_bulk
        other._resolved_to, other._resolved_at, other._turn = self._resolved_to, self._resolved_at, self._turn
        return other

    def close(self) -> None:
        """Close the socket. The next request opens another and looks the name up again."""
        self._client = None
        self._greeted = False

    async def get(self, wanted: Sequence[str]) -> Answer:
        """Ask for objects, in as many messages as needed; with no objects, check that the switch answers.

        Raises:
            AskingError: there was no answer at all.
        """
        answer = Answer()
        rest = list(wanted)
        while rest or answer.uptime_ns is None:
            part = self._fitting(rest)
            try:
                values, _ = await self._part(part)
            except AskingError:
                if answer.uptime_ns is None:
                    raise
                answer.unanswered = rest
                return answer
            if answer.uptime_ns is None:
                answer.uptime_ns = _uptime_ns(values, self._where)
            values.pop(oids.SYS_UP_TIME, None)
            answer.values.update(values)
            del rest[: len(part)]
        return answer

    async def walk(self, root: str) -> list[tuple[str, Value]]:
        """A table's column: the part of each identifier behind ``root``, and the value.

        Raises:
            AskingError: there was no answer, or rows without end.
        """
        try:
            return await self._walked(root)
        except AskingError as reason:
            if self._user is None or reason.status != "timeout":
                raise
            # An SNMP v3 engine that restarted answers only after a new discovery.
            self.close()
            return await self._walked(root)

    async def learn_size(self, wanted: Sequence[str]) -> None:
        """Find the largest message that the switch answers: some silently drop larger ones.

        Raises:
            AskingError: it does not answer at all.
        """
        await self.get([])
        while len(part := self._fitting(wanted)) > 1:
            try:
                await self._part(part)
                return
            except AskingError as reason:
                if reason.status != "timeout" or self.largest_bytes <= SMALLEST_BYTES:
                    raise
                self.largest_bytes = max(SMALLEST_BYTES, self.largest_bytes // 2)

    @property
    def _where(self) -> str:
        address = self._switch.address
        return f"[{address}]:{self._switch.port}" if ":" in address else f"{address}:{self._switch.port}"

    def _fitting(self, wanted: Sequence[str]) -> list[str]:
        """The first objects, as many as fit into one response."""
        count = size = 0
        for oid in wanted:
            size += _variable_bytes(oid)
            if count and size > self.largest_bytes:
                break
            count += 1
        return list(wanted[:count])

    async def _part(self, part: Sequence[str]) -> tuple[dict[str, Value], bool]:
        """Values of one message's objects, and whether each part of it had a response with values.

        After an empty response the halves are asked for separately: either the response was too big, which is
        remembered, or the agent refuses all objects because of one (genErr), which is found.
        """
        values = await self._message(part)
        if values:
            return values, True
        if len(part) <= 1:
            # Check that it refuses only this object.
            return (await self._message([]) if part else values), False
        half = len(part) // 2
        first, first_whole = await self._part(part[:half])
        second, second_whole = await self._part(part[half:])
        if first_whole and second_whole:
            self.largest_bytes = min(self.largest_bytes, sum(map(_variable_bytes, part[half:])))
        return first | second, first_whole and second_whole

    async def _message(self, part: Sequence[str]) -> dict[str, Value]:
        """One request, with retries.

        Raises:
            AskingError: there was no answer.
        """
        asked = [oids.SYS_UP_TIME, *(oid for oid in part if oid != oids.SYS_UP_TIME)]

        async def ask() -> dict[str, Value]:
            client = await self._connected()
            return dict(await client.get_many(asked))

        return await self._patiently(ask, reconnect=self._user is not None)

    async def _walked(self, root: str) -> list[tuple[str, Value]]:
        """Rows by GetBulk; by GetNext where the agent refuses GetBulk or never answers it, as some small agents do."""
        if self._takes_bulk is not False:
            try:
                rows = await self._rows(root, bulk=True)
            except _EndlessError:
                raise
            except AskingError as reason:
                if self._takes_bulk or reason.status == "refused":
                    raise
                rows = []
            if rows or self._takes_bulk:
                self._takes_bulk = True
                return rows
        rows = await self._rows(root, bulk=False)
        if rows:
            self._takes_bulk = False
        return rows

    async def _rows(self, root: str, *, bulk: bool) -> list[tuple[str, Value]]:
        rows: list[tuple[str, Value]] = []
        client = await self._patiently(self._connected, reconnect=True)
        iterator = client.getbulk(root, _ROWS_AT_ONCE) if bulk else client.getnext(root)
        seen: set[str] = set()
        while True:
            try:
                oid, value = await self._patiently(iterator.__anext__, reconnect=False)
            except StopAsyncIteration:
                return rows
            # Some agents send rows out of order, which is harmless. An agent that repeats a row does so without end.
            if oid in seen or len(rows) >= MOST_ROWS:
                why = f"the table {root} has rows without end (row {len(rows)} is {oid})"
                raise _EndlessError("error", f"{self._where}: {why}")
            seen.add(oid)
            rows.append((oid[len(root) + 1 :], value))

    async def _patiently(self, ask: Callable[[], Awaitable[T]], *, reconnect: bool) -> T:
        """Ask up to ``1 + retries`` times.

        Args:
            ask: sends a request and waits for its answer.
            reconnect: open a new socket (with v3's discovery) after a failure.

        Raises:
            AskingError: no try had an answer.
        """
        problem = AskingError("error", "not asked")
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        for left in reversed(range(1 + self._switch.retries)):
            try:
                async with asyncio.timeout(self._switch.timeout_s):
                    answer = await ask()
            except (Exception, asyncio.CancelledError) as reason:
                if isinstance(reason, StopAsyncIteration | AskingError | asyncio.CancelledError):
                    raise
                problem = self._problem(reason)
            except BaseException as reason:
                # PyO3 raises these for panics of the decoder: the answer was no SNMP message.
                if type(reason).__name__ != "PanicException":
                    raise
                problem = AskingError("error", f"{self._where}: the answer is damaged")
            else:
                if task and task.cancelling() > cancelled:
                    # Up to Python 3.11, asyncio.wait_for (used by gufo) drops a cancellation that arrives together with
                    # an answer: walking a long table would go on past every deadline.
                    raise asyncio.CancelledError
                self._last_answer = time.monotonic()
                return answer
            if reconnect:
                self.close()
            if problem.status == "refused" and left:
                # The kernel refuses at once; an agent that is just being restarted needs some time.
                await asyncio.sleep(min(_PAUSE_S, self._switch.timeout_s))
        self.close()
        self._turn += 1
        raise problem

    def _problem(self, reason: Exception) -> AskingError:
        tries, user = self._switch.retries + 1, self._account_name
        often = f"in {tries} tries of {self._switch.timeout_s:g} s" if tries > 1 else f"in {self._switch.timeout_s:g} s"
        match reason:
            case TimeoutError() if "refused" in str(reason.__cause__ or reason):
                status, why = "refused", "no SNMP agent listens there (connection refused)"
            case TimeoutError() if self._user is None:
                status = "timeout"
                why = f"no answer {often}; the switch is down, the community is wrong, or a firewall drops SNMP"
            case TimeoutError() if self._greeted:
                status = "timeout"
                why = (
                    f"the agent is there, but does not answer user {user} {often}; "
                    "check the passphrase and protocol for privacy (priv)"
                )
            case TimeoutError():
                status, why = "timeout", f"no answer {often}; the switch is down or a firewall drops SNMP"
            case SnmpAuthError() if self._user is None:
                status, why = "refused", "the switch does not allow this community to read (authorizationError)"
            case SnmpAuthError():
                status, why = "refused", f"refuses user {user}: check the name, passphrase and protocol (auth)"
            case _NameError():
                status, why = "error", f"the name cannot be resolved: {reason}"
            case SnmpDecodeError():
                status, why = "error", f"the answer is damaged: {reason}"
            case _:
                status, why = "error", str(reason)
        return AskingError(status, f"{self._where}: {why}")

    @property
    def _account_name(self) -> str:
        account = self._switch.account
        return repr(account.name) if isinstance(account, User) else ""

    async def _connected(self) -> SnmpSession:
        """The open socket, after v3's discovery and no older than v3 allows."""
        if self._user is not None and time.monotonic() - self._last_answer > _FRESH_S:
            self.close()
        if self._client is not None:
            return self._client
        account, address = self._switch.account, await self._resolved()
        # gufo's own timeout comes after ours, which is for the whole of a try.
        patience = 2 * self._switch.timeout_s + 1
        if isinstance(account, Community):
            community = account.community.reveal() + self._suffix
            client = SnmpSession(address, self._switch.port, community=community, timeout=patience)
        else:
            client = SnmpSession(address, self._switch.port, user=self._user, timeout=patience)
            try:
                await client.refresh()
            finally:
                self._greeted = bool(client.get_engine_id())
            self._last_answer = time.monotonic()
        self._client = client
        return client

    async def _resolved(self) -> str:
        """The switch's address in numbers, which gufo wants. Names are looked up again after a minute.

        A name may have several addresses (of both versions, of two management ports), not all of which answer.
        """
        text, now = self._switch.address.strip("[]"), time.monotonic()
        with contextlib.suppress(ValueError):
            if "%" not in text:
                return str(ipaddress.ip_address(text))
        if self._resolved_to and now - self._resolved_at < _NAME_FRESH_S:
            return self._resolved_to[self._turn % len(self._resolved_to)]
        try:
            # The rest of a try is for the switch.
            async with asyncio.timeout(self._switch.timeout_s * _SHARE_OF_NAMES):
                found = await asyncio.get_running_loop().getaddrinfo(text, self._switch.port, type=socket.SOCK_DGRAM)
        except (TimeoutError, OSError) as reason:
            # A switch must not fall silent because the names' server does.
            if not self._resolved_to:
                raise _NameError(getattr(reason, "strerror", None) or "no server of names answers") from None
        else:
            asked = self._resolved_to[self._turn % len(self._resolved_to)] if self._resolved_to else None
            self._resolved_to = list(dict.fromkeys(_in_numbers(place) for *_, place in found))
            # Servers of names change the order from answer to answer: it stays where it was answered.
            self._turn = self._resolved_to.index(asked) if asked in self._resolved_to else 0
        self._resolved_at = now
        return self._resolved_to[self._turn % len(self._resolved_to)]


def _in_numbers(place: Sequence[object]) -> str:
    """An address as getaddrinfo gives it, with the scope of link-local ones."""
    scope = f"%{place[3]}" if len(place) == 4 and place[3] else ""
    return str(place[0]).partition("%")[0] + scope


@functools.lru_cache(maxsize=1 << 18)
def _variable_bytes(oid: str) -> int:
    """The most bytes of an object in a response: three headers, its identifier, and the longest counter (BER)."""
    arcs = list(map(int, oid.split(".")))
    return 6 + 9 + 1 + sum(max(1, -(-arc.bit_length() // 7)) for arc in arcs[2:])


def _uptime_ns(values: dict[str, Value], where: str) -> int:
    ticks = values.get(oids.SYS_UP_TIME)
    if not isinstance(ticks, int) or not 0 <= ticks < 2**32:
        raise AskingError(
            "refused",
            f"{where}: answers, but without sysUpTime; allow the account to read it (its view)",
        )
    return ticks * 10_000_000


def _user(account: User) -> gufo.snmp.User:
    """The account with keys instead of passphrases: hashing a megabyte at each discovery would delay other polls."""
    auth = _AUTH[account.auth]
    auth_key = auth(auth.get_master_key(account.auth_passphrase.reveal().encode()), key_type=KeyType.Master)
    if account.priv is None or account.priv_passphrase is None:
        return gufo.snmp.User(account.name, auth_key=auth_key)
    cisco = account.priv.endswith("-Cisco")
    priv = _PRIV[account.priv.removesuffix("-Cisco")]
    # RFC 3414, 2.6: the key for privacy is made by the hash of authentication.
    priv_key = priv(auth.get_master_key(account.priv_passphrase.reveal().encode()), key_type=KeyType.Master)
    expansion = gufo.snmp.KeyExpansion.Cisco if cisco else gufo.snmp.KeyExpansion.Blumenthal
    return gufo.snmp.User(account.name, auth_key=auth_key, priv_key=priv_key, key_expansion=expansion)
