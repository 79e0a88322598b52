"""Finding ports by alias, name, index and MAC address, and the counters that they have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from snmp_agents import IF, IFX, Agent, simulated, switch_records

from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Community, Switch, User
from whydrop.monitoring.switches.ports import Found, Interface, chosen, find, indexes, text
from whydrop.monitoring.switches.schema import PortEntry
from whydrop.monitoring.switches.secrets import Secret
from whydrop.monitoring.switches.sessions import SwitchSession

MAC = "00:1b:21:3c:9d:f8"
DECIMAL = "0.27.33.60.157.248"
BRIDGE = "1.3.6.1.2.1.17"
VLANS = "1.3.6.1.4.1.9.9.46.1.3.1.1.18"
TABLE = {
    index: Interface(index, name, alias, 10**9)
    for index, name, alias in (
        (3, "ge-0/0/1", "mlab1"),
        (4, "ge-0/0/2", "mlab2"),
        (7, "xe-0/0/0", "uplink: transit A"),
        (8, "xe-0/0/1", "uplink: transit B"),
        (9, "Gi1/0/[1]", ""),
    )
}


def pick(*entries: PortEntry, places: dict[str, int | str] | None = None) -> tuple[list[tuple[Any, ...]], Any, Any]:
    ports, missing, notes = chosen(entries, TABLE, places or {})
    return [(port.name, port.machine, port.index) for port in ports], missing, notes


def test_an_alias_fits_as_it_is_written():
    assert pick(PortEntry(alias="mlab1", name="local")) == ([("local", None, 3)], (), ())


def test_an_alias_with_a_star_fits_what_begins_so_and_names_can_give_the_machines():
    ports, missing, _ = pick(PortEntry(alias="mlab*", name="local", machine="{alias}"))
    assert ports == [("local", "mlab1", 3), ("local", "mlab2", 4)]
    assert missing == ()


def test_a_name_with_brackets_fits_as_it_is_written():
    assert pick(PortEntry(ifname="Gi1/0/[1]"))[0] == [("Gi1/0/[1]", None, 9)]


def test_an_index_is_taken_as_it_is():
    assert pick(PortEntry(index=8, name="{alias}"))[0] == [("uplink: transit B", None, 8)]


def test_all_takes_what_entries_before_it_left():
    ports, missing, _ = pick(PortEntry(ifname="xe-0/0/0", name="uplink"), PortEntry(all=True))
    assert ports == [
        ("ge-0/0/1", None, 3),
        ("ge-0/0/2", None, 4),
        ("uplink", None, 7),
        ("xe-0/0/1", None, 8),
        ("Gi1/0/[1]", None, 9),
    ]
    assert missing == ()


def test_two_ports_of_one_name_are_both_kept_and_distinguished():
    ports, _, notes = pick(PortEntry(alias="uplink*", name="uplink"))
    assert ports == [("uplink", None, 7), ("uplink:xe-0/0/1", None, 8)]
    assert "ports 7 and 8 are both named 'uplink'" in notes[0]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            PortEntry(alias="mlab9"),
            "no port has an alias (ifAlias) that matches 'mlab9'; there are mlab1, mlab2, uplink",
        ),
        (PortEntry(ifname="et-*"), "no port has a name (ifName) that matches 'et-*'; there are ge-0/0/1"),
        (PortEntry(index=5), "no port has index = 5; there are 3, 4, 7, 8, 9"),
        (PortEntry(mac=MAC), f"no port for mac = {MAC}: it is not in the bridge table"),
    ],
)
def test_an_entry_that_no_port_fits_says_what_there_is(entry: PortEntry, said: str):
    ports, missing, _ = pick(entry, places={"001b213c9df8": "it is not in the bridge table"})
    assert ports == []
    assert missing[0].startswith(said)


def test_names_from_a_switch_are_text_whatever_bytes_they_are():
    assert text(b"uplink\x00\x00") == "uplink"
    assert text(b"\xff\xfe") == "\N{REPLACEMENT CHARACTER}" * 2
    assert len(text(b"x" * 70_000)) == 255


def _small(**more: str) -> dict[str, str]:
    """A switch with four ports (501 to 504) and a system's objects."""
    return {**switch_records(4), **more}


def _without(objects: dict[str, str], *roots: str) -> dict[str, str]:
    return {oid: value for oid, value in objects.items() if not oid.startswith(tuple(f"{root}." for root in roots))}


def _records() -> dict[str, dict[str, str]]:
    """Switches of different makes, by community."""
    base_port = {f"{BRIDGE}.1.4.1.2.{port}": f"2|{500 + port}" for port in range(1, 5)}
    narrow = _without(_small(), *(f"{IFX}.{column}" for column in (*range(6, 14), 15)))
    narrow |= {f"{IF}.{column}.{index}": f"65|{column}" for column in (10, 11, 16, 17) for index in range(501, 505)}
    narrow |= {f"{IFX}.{column}.{index}": f"65|{column}" for column in (2, 3, 4, 5) for index in range(501, 505)}
    narrow |= {f"{IF}.5.{index}": "66|1000000000" for index in range(501, 505)}
    return {
        "databases": _small(**base_port, **{f"{BRIDGE}.7.1.2.1.1.2.{fdb}": "65|3" for fdb in (1, 40)},
                            **{f"{BRIDGE}.7.1.2.2.1.2.40.{DECIMAL}": "2|3"}),
        "unlisted": _small(**base_port, **{f"{BRIDGE}.7.1.2.2.1.2.7.{DECIMAL}": "2|2"}),
        "plain": _small(**base_port, **{f"{BRIDGE}.4.3.1.2.{DECIMAL}": "2|4"}),
        "cisco": _small(**{f"{VLANS}.1.{vlan}": "2|9" for vlan in (1, 7, 9, 1002)}),
        "cisco@1": _small(),
        "cisco@7": _small(**{f"{BRIDGE}.4.3.1.2.{DECIMAL}": "2|11", f"{BRIDGE}.1.4.1.2.11": "2|502"}),
        "narrow": narrow,
        "nameless": {
            **_without(_small(), IFX),
            **{f"{IF}.2.{index}": f"4|port {index}" for index in range(501, 505)},
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def makes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with simulated(tmp_path_factory.mktemp("makes"), _records()) as running:
        yield running


def look(agent: Agent, community: str, *entries: PortEntry, before: Found | None = None) -> Found:
    account = Community(Secret(community))
    switch = Switch("s1", "dfw07", "dfw", "127.0.0.1", agent.port, account, 1.0, 1, entries, oids.DEFAULT)

    async def run() -> Found:
        return await find(switch, SwitchSession(switch), 10.0, before)

    return asyncio.run(run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("community", "index"), [("databases", 503), ("unlisted", 502), ("plain", 504), ("cisco", 502)]
)
def test_a_mac_address_leads_to_its_port_on_switches_of_every_make(makes: Agent, community: str, index: int):
    found = look(makes, community, PortEntry(mac=MAC, name="local", machine="mlab1"))
    assert [(port.name, port.machine, port.index) for port in found.ports] == [("local", "mlab1", index)]
    assert found.missing == ()


def test_a_mac_address_that_fell_silent_keeps_the_port_that_it_had(makes: Agent):
    entry = PortEntry(mac=MAC, name="local")
    before = look(makes, "plain", entry)
    assert indexes(look(makes, "narrow", entry, before=before)) == indexes(before)
    (why,) = look(makes, "narrow", entry).missing
    assert "not in the bridge table" in why


def test_a_port_without_wide_counters_is_counted_in_32_bits_and_that_is_said(makes: Agent):
    found = look(makes, "narrow", PortEntry(all=True))
    octets = [(oid, counter.bits) for oid, (port, counter) in found.asked.items() if counter.name == "octets.rx"]
    assert octets == [(f"{IF}.10.{index}", 32) for index in range(501, 505)]
    assert len(found.asked) == 4 * 14
    assert found.ports[0].speed_bps == 10**9
    assert any(note.startswith("octets.rx of 4 ports") and "has only 32 bits" in note for note in found.notes)


def test_counters_that_wrap_faster_than_they_are_polled_are_warned_of(makes: Agent):
    fast = look(makes, "narrow", PortEntry(all=True))
    assert not any("wraps after" in note for note in fast.notes)  # 34 s at 1 Gbit/s, polled every 10 s
    account = Community(Secret("narrow"))
    switch = Switch("s", "x", "x", "127.0.0.1", makes.port, account, 1.0, 1, (PortEntry(index=501),), oids.DEFAULT)

    async def run() -> Found:
        return await find(switch, SwitchSession(switch), 60.0)

    assert any("at 1.00\xa0Gbit/s it wraps after 34.4\xa0s" in note for note in asyncio.run(run()).notes)


def test_a_switch_without_names_of_ports_is_known_by_their_descriptions(makes: Agent):
    found = look(makes, "nameless", PortEntry(ifname="port 502"))
    assert [port.index for port in found.ports] == [502]
    counted = {counter.name for _, counter in found.asked.values()}
    assert counted == {"discards.rx", "discards.tx", "errors.rx", "errors.tx", "pause.rx", "pause.tx"}
    assert any("octets.rx" in note for note in found.notes)


def test_all_ports_of_a_switch_have_all_their_counters(switch: Agent):
    found = look(switch, "public", PortEntry(alias="uplink*", name="uplink"), PortEntry(all=True))
    assert len(found.ports) == 48
    assert len(found.asked) == 48 * 14
    assert found.notes == ()
    uplink = next(port for port in found.ports if port.name == "uplink")
    assert (uplink.index, uplink.speed_bps, uplink.alias) == (548, 10 * 10**9, "uplink to the world")
    # One port's counters are next to each other, so that they are read by one message, or two.
    order = [port.index for port, _ in found.asked.values()]
    assert order == sorted(order)


def test_a_switch_with_a_table_for_each_vlan_says_that_version_3_cannot_read_them():
    from whydrop.monitoring.switches import bridge_tables

    class Cisco:
        async def walk(self, root: str) -> list[tuple[str, int]]:
            return [("1.7", 9)] if root == oids.CISCO_VLANS else []

        async def get(self, wanted: list[str]) -> Any:
            from whydrop.monitoring.switches.sessions import Answer

            return Answer(uptime_ns=1)

    account = User("u", "SHA-256", Secret("long enough"))
    switch = Switch("s1", "dfw07", "dfw", "192.0.2.7", 161, account, 1.0, 1, (), oids.DEFAULT)
    places = asyncio.run(bridge_tables.locate(switch, Cisco(), ["001b213c9df8"]))  # type: ignore[arg-type]
    assert "use v2c" in str(places["001b213c9df8"])
