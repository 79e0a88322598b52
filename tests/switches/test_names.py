"""A switch by a name that has several addresses."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest
from odd_agent import OddAgent, odd
from snmp_agents import COMMUNITY, IFX

from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Community, Switch
from whydrop.monitoring.switches.schema import PortEntry
from whydrop.monitoring.switches.secrets import Secret
from whydrop.monitoring.switches.sessions import AskingError, SwitchSession

OBJECTS = {f"{IFX}.6.1": 7}
SILENT = "127.0.0.99"  # an address of this machine without a listener


def named(port: int) -> Switch:
    account = Community(Secret(COMMUNITY))
    entry = PortEntry(all=True)
    return Switch("s1", "x", "x", "s1.example", port, account, 5.0, 0, (entry,), oids.DEFAULT)


@pytest.fixture
def addresses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The answers of the server of names."""
    found = [SILENT, "127.0.0.1"]

    async def look_up(_loop: Any, _host: str, port: int, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", (address, port)) for address in found]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    return found


async def polled(session: SwitchSession, times: int) -> list[bool]:
    """Of some polls, which were answered."""
    answered = []
    for _ in range(times):
        try:
            answered.append((await session.get(list(OBJECTS))).values == OBJECTS)
        except AskingError:
            answered.append(False)
    return answered


def test_an_address_that_does_not_answer_costs_a_poll_and_the_next_one_is_kept(addresses: list[str]) -> None:
    async def polls() -> list[bool]:
        session = SwitchSession(named(agent.port))
        answered = await polled(session, 3)
        # A session beside asks where this one is answered.
        answered += await polled(session.beside(), 1)
        # The next answer of the server of names has another order.
        addresses.reverse()
        session.close()
        session._resolved_at -= 3600
        answered += await polled(session, 2)
        session.close()
        return answered

    with odd(OddAgent(OBJECTS)) as agent:
        assert asyncio.run(polls()) == [False, *5 * [True]]


def test_a_switch_that_has_moved_is_found_where_it_is(addresses: list[str]) -> None:
    async def polls() -> list[bool]:
        addresses[:] = [SILENT]
        session = SwitchSession(replace(named(agent.port)))
        answered = await polled(session, 2)
        addresses[:] = ["127.0.0.1"]
        session._resolved_at -= 3600
        answered += await polled(session, 1)
        session.close()
        return answered

    with odd(OddAgent(OBJECTS)) as agent:
        assert asyncio.run(polls()) == [False, False, True]
