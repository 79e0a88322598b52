"""Asking agents by SNMP: good ones, small ones, broken ones and hostile ones."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from odd_agent import OddAgent, odd
from snmp_agents import AUTH_PASSPHRASE, COMMUNITY, IFX, PRIV_PASSPHRASE, PROTOCOLS, USER, Agent, free_port
from virtual_time import run

from patience import PATIENCE_S
from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Community, Switch, User
from whydrop.monitoring.switches.schema import PortEntry
from whydrop.monitoring.switches.secrets import Secret
from whydrop.monitoring.switches.sessions import LARGEST_BYTES, SMALLEST_BYTES, AskingError, SwitchSession

OBJECTS = {f"{IFX}.{column}.{index}": column * 1000 + index for column in range(6, 14) for index in range(1, 31)}
KEY = Secret(AUTH_PASSPHRASE)
LOCK = Secret(PRIV_PASSPHRASE)


def switch_at(
    port: int, account: Community | User | None = None, *, timeout_s: float = PATIENCE_S, retries: int = 1
) -> Switch:
    account = account or Community(Secret(COMMUNITY))
    return Switch(
        "s1", "dfw07", "dfw", "127.0.0.1", port, account, timeout_s, retries, (PortEntry(all=True),), oids.DEFAULT
    )


async def asked(switch: Switch, question: Callable[[SwitchSession], Awaitable[Any]]) -> Any:
    session = SwitchSession(switch)
    try:
        return await question(session)
    finally:
        session.close()


def ask(switch: Switch, question: Callable[[SwitchSession], Awaitable[Any]]) -> Any:
    """Ask another process, or an address without one."""
    return asyncio.run(asked(switch, question))


def ask_odd(agent: OddAgent, question: Callable[[SwitchSession], Awaitable[Any]], **more: Any) -> Any:
    """Ask an agent of this process; what it does not answer is waited for in virtual time."""
    return run(asked(switch_at(agent.port, **more), question), agent.is_idle)


def get(agent: OddAgent, wanted: list[str] | None = None, **more: Any) -> Any:
    return ask_odd(agent, lambda session: session.get(wanted or list(OBJECTS)), **more)


def test_all_counters_of_many_ports_are_had_by_a_few_messages_that_need_no_fragments():
    with odd(OddAgent(OBJECTS)) as agent:
        answer = get(agent)
    assert answer.values == OBJECTS
    assert answer.uptime_ns == 40 * 10**9
    assert answer.unanswered == []
    assert len(agent.requests) == 5
    assert max(agent.answers) <= LARGEST_BYTES


def test_the_largest_counters_of_the_longest_identifiers_need_no_fragments_either():
    longest = f"1.3.6.1.4.1.{2**32 - 1}.{2**32 - 1}.3.15.4.1.53"
    objects = {f"{longest}.{2**31 - 1 - number}.7": 2**64 - 1 - number for number in range(100)}
    with odd(OddAgent(objects)) as agent:
        assert get(agent, list(objects)).values == objects
    assert max(agent.answers) <= LARGEST_BYTES + 60 < 1472


def test_what_one_object_lacks_the_others_do_not():
    with odd(OddAgent(OBJECTS)) as agent:
        answer = get(agent, [f"{IFX}.6.1", f"{IFX}.6.999", f"{IFX}.6.2"])
    assert answer.values == {f"{IFX}.6.1": 6001, f"{IFX}.6.2": 6002}


def test_a_counter_of_64_bits_arrives_whole():
    with odd(OddAgent({f"{IFX}.6.1": 2**64 - 1})) as agent:
        assert get(agent, [f"{IFX}.6.1"]).values == {f"{IFX}.6.1": 2**64 - 1}


@pytest.mark.slow
@pytest.mark.parametrize("most", [2, 5, 20])
def test_a_switch_that_takes_few_objects_at_once_is_asked_for_few_and_asked_so_from_then_on(most: int):
    async def twice(session: SwitchSession) -> tuple[Any, int, Any, int]:
        first = await session.get(list(OBJECTS))
        asked = len(agent.requests)
        return first, asked, await session.get(list(OBJECTS)), len(agent.requests) - asked

    with odd(OddAgent(OBJECTS, most=most)) as agent:
        first, messages, second, later = ask_odd(agent, twice)
    assert first.values == second.values == OBJECTS
    assert later <= messages
    assert max(agent.requests[-later:]) <= most


def test_an_object_that_breaks_its_whole_message_costs_only_itself():
    with odd(OddAgent(OBJECTS, poisoned=f"{IFX}.8.17")) as agent:
        answer = get(agent)
    assert answer.values == {oid: value for oid, value in OBJECTS.items() if oid != f"{IFX}.8.17"}


def test_a_switch_that_drops_large_messages_silently_is_found_out():
    async def learn(session: SwitchSession) -> Any:
        await session.learn_size(list(OBJECTS))
        return await session.get(list(OBJECTS)), session.largest_bytes

    with odd(OddAgent(OBJECTS, silent_above=25)) as agent:
        answer, size = ask_odd(agent, learn, retries=0)
    assert answer.values == OBJECTS
    assert SMALLEST_BYTES <= size < LARGEST_BYTES


def test_a_lost_request_is_asked_again():
    with odd(OddAgent(OBJECTS, lost=1)) as agent:
        assert get(agent).values == OBJECTS


def test_what_was_answered_before_the_switch_fell_silent_is_kept():
    with odd(OddAgent(OBJECTS, silent_after=3)) as agent:
        answer = get(agent)
    assert len(answer.values) + len(answer.unanswered) == len(OBJECTS)
    assert answer.unanswered
    assert all(OBJECTS[oid] == value for oid, value in answer.values.items())
    assert len(answer.values) >= 3 * 38


def test_an_answer_that_comes_late_is_not_taken_for_that_of_the_next_question():
    with odd(OddAgent(OBJECTS, late=True)) as agent, pytest.raises(AskingError) as caught:
        get(agent, [f"{IFX}.6.1"])
    assert caught.value.status == "timeout"


def test_an_account_that_may_see_nothing_is_named():
    with (
        odd(OddAgent(OBJECTS, blind=True)) as agent,
        pytest.raises(AskingError, match="does not allow this community to read") as caught,
    ):
        get(agent)
    assert caught.value.status == "refused"


def test_a_table_whose_rows_do_not_end_is_left():
    with odd(OddAgent(OBJECTS, endless=True)) as agent, pytest.raises(AskingError, match="rows without end"):
        ask_odd(agent, lambda session: session.walk(f"{IFX}.6"))


def test_a_deadline_holds_though_the_library_swallows_the_cancellation_that_it_brings(monkeypatch: pytest.MonkeyPatch):
    async def as_if_the_answer_came_in_that_moment(future: asyncio.Future[None], _: float) -> None:
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({future})

    monkeypatch.setattr("gufo.snmp.aio.client.wait_for", as_if_the_answer_came_in_that_moment)

    async def walk(session: SwitchSession) -> None:
        async with asyncio.timeout(0.1):
            await session.walk(f"{IFX}.1")

    with odd(OddAgent({f"{IFX}.1.{index}": index for index in range(1, 4000)})) as agent, pytest.raises(TimeoutError):
        ask(switch_at(agent.port), walk)


def test_a_tables_column_is_read_to_its_end():
    with odd(OddAgent(OBJECTS)) as agent:
        rows = ask_odd(agent, lambda session: session.walk(f"{IFX}.7"))
        last = ask_odd(agent, lambda session: session.walk(f"{IFX}.13"))
    assert rows == [(str(index), 7000 + index) for index in range(1, 31)]
    assert len(last) == 30


@pytest.mark.parametrize("seed", range(30))
def test_damaged_answers_are_an_error_of_that_switch_and_nothing_else(seed: int):
    chance = random.Random(seed)
    whole = bytes.fromhex("302902010104067075626c6963a21c020400000001020100020100300e300c06082b060102010103004300")
    damaged = bytearray(whole)
    for _ in range(chance.randint(1, 6)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    garbage = bytes(damaged[: chance.randint(1, len(damaged))])
    with odd(OddAgent(OBJECTS, garbage=garbage)) as agent, pytest.raises(AskingError) as caught:
        get(agent)
    assert caught.value.status in ("error", "timeout", "refused")


@pytest.mark.parametrize("garbage", [b"\x30\x82", b"\x30\x84\xff"])
def test_an_answer_on_which_the_decoder_panics_is_a_damaged_answer(garbage: bytes):
    with odd(OddAgent(OBJECTS, garbage=garbage)) as agent, pytest.raises(AskingError, match="the answer is damaged"):
        get(agent)


def test_an_address_where_nothing_listens_refuses_at_once():
    with pytest.raises(AskingError, match="no SNMP agent listens there") as caught:
        ask(switch_at(free_port()), lambda session: session.get([]))
    assert caught.value.status == "refused"


def test_a_name_that_does_not_exist_is_named():
    switch = replace(switch_at(161), address="no-such-switch.invalid")
    with pytest.raises(AskingError, match=r"no-such-switch\.invalid:161: the name cannot be resolved") as caught:
        ask(switch, lambda session: session.get([]))
    assert caught.value.status == "error"


def test_a_switch_whose_names_server_falls_silent_is_asked_where_it_was(monkeypatch: pytest.MonkeyPatch):
    names: list[str] = []

    async def look_up(_loop: Any, host: str, port: int, **_: Any) -> Any:
        names.append(host)
        if len(names) > 1:
            await asyncio.sleep(3600)
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", port))]

    async def again(session: SwitchSession) -> Any:
        await session.get([])
        session.close()
        session._resolved_at -= 3600
        return await session.get([])

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    with odd(OddAgent(OBJECTS)) as agent:
        answer = run(asked(replace(switch_at(agent.port), address="s1.example"), again), agent.is_idle)
    assert answer.uptime_ns is not None
    assert names == ["s1.example", "s1.example"]


def test_a_names_server_that_never_answered_is_not_taken_for_a_switch_that_does_not(monkeypatch: pytest.MonkeyPatch):
    async def look_up(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(3600)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", look_up)
    switch = replace(switch_at(161), address="s1.example")
    with pytest.raises(AskingError, match="the name cannot be resolved: no server of names answers") as caught:
        run(asked(switch, lambda session: session.get([])))
    assert caught.value.status == "error"


def test_a_wrong_community_is_a_timeout_that_says_so_and_does_not_show_it(net_snmp_agent: Agent):
    wrong = switch_at(net_snmp_agent.port, Community(Secret("hush-hush")), timeout_s=0.05)
    with pytest.raises(AskingError, match="the community is wrong") as caught:
        ask(wrong, lambda session: session.get([]))
    assert caught.value.status == "timeout"
    assert "hush" not in str(caught.value)


def test_an_agent_that_was_frozen_answers_again_and_its_old_answers_are_not_taken_for_new_ones(agent: Agent):
    async def across(session: SwitchSession) -> Any:
        wanted = [f"{IFX}.{column}.1" for column in range(6, 14)]
        before = await session.get(wanted)
        agent.freeze()
        patient, session._switch = session._switch, replace(session._switch, timeout_s=0.2)
        with pytest.raises(AskingError, match="no answer"):
            await session.get([oids.IF_TABLE_LAST_CHANGE])
        session._switch = patient
        agent.thaw()
        return before, await session.get(wanted)

    before, after = ask(switch_at(agent.port), across)
    assert set(after.values) == set(before.values)
    assert after.uptime_ns > before.uptime_ns


V3_USER = User(USER, "SHA-256", KEY, "AES-128", LOCK)


def test_version_3_is_signed_and_encrypted(net_snmp_agent: Agent):
    answer = ask(switch_at(net_snmp_agent.port, V3_USER), lambda session: session.get([f"{IFX}.6.1"]))
    assert isinstance(answer.values[f"{IFX}.6.1"], int)


@pytest.mark.parametrize(
    ("account", "status", "said"),
    [
        (replace(V3_USER, auth_passphrase=Secret("hush-hush")), "refused", "refuses user 'watcher'"),
        (replace(V3_USER, auth="SHA-512"), "refused", "refuses user 'watcher'"),
        (replace(V3_USER, name="stranger"), "refused", "refuses user 'stranger'"),
        pytest.param(
            replace(V3_USER, priv_passphrase=Secret("hush-hush")),
            "timeout",
            r"check the passphrase and protocol for privacy \(priv\)",
            marks=pytest.mark.slow,
        ),
        (replace(V3_USER, priv=None, priv_passphrase=None), "refused", "sysUpTime|refuses user"),
    ],
)
def test_a_wrong_key_of_version_3_says_which(net_snmp_agent: Agent, account: User, status: str, said: str):
    # An agent that is silent must have the time to greet before.
    patience = {"timeout_s": 3.0, "retries": 0} if status == "timeout" else {}
    with pytest.raises(AskingError, match=said) as caught:
        ask(switch_at(net_snmp_agent.port, account, **patience), lambda session: session.get([]))
    assert caught.value.status == status
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_net_snmp_takes_every_pair_of_protocols(net_snmp_agent: Agent, name: str):
    auth, priv, *_ = PROTOCOLS[name]
    ask(switch_at(net_snmp_agent.port, User(name, auth, KEY, priv, LOCK)), lambda session: session.get([]))


@pytest.mark.slow
def test_version_3_goes_on_after_the_agents_engine_was_restarted(agent: Agent):
    async def across(session: SwitchSession) -> tuple[Any, Any]:
        before = await session.get([f"{IFX}.6.1"])
        await asyncio.to_thread(agent.restart)
        return before, await session.get([f"{IFX}.6.1"])

    before, after = ask(switch_at(agent.port, V3_USER, timeout_s=5.0), across)
    assert f"{IFX}.6.1" in after.values
    assert after.uptime_ns < before.uptime_ns + 60 * 10**9
