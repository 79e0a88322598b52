"""Switches that change the ports behind their indexes between two polls, without a restart and without notice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from odd_agent import OddAgent, odd
from snmp_agents import COMMUNITY, IF, IFX

from patience import PATIENCE_S
from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.config import Community, Switch
from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.schedule import SECOND_NS
from whydrop.monitoring.switches.schema import PortEntry
from whydrop.monitoring.switches.secrets import Secret
from whydrop.monitoring.switches.snmp import SnmpSource

MBITS = 10_000


@dataclass
class Interface:
    """A port as its hardware counts, wherever the switch's tables have it."""

    name: str
    octets: int
    discards: int
    octets_32: int | None = None

    def at(self, index: int) -> dict[str, int | str]:
        narrow = (self.octets if self.octets_32 is None else self.octets_32) % 2**32
        return {
            f"{IF}.10.{index}": narrow,
            f"{IF}.16.{index}": narrow,
            f"{IF}.13.{index}": self.discards,
            f"{IF}.19.{index}": self.discards,
            f"{IFX}.1.{index}": self.name,
            f"{IFX}.6.{index}": self.octets,
            f"{IFX}.10.{index}": self.octets,
            f"{IFX}.15.{index}": MBITS,
        }


@dataclass
class Polled:
    """A switch that is polled by hand."""

    agent: OddAgent
    entries: tuple[PortEntry, ...]
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        account = Community(Secret(COMMUNITY))
        switch = Switch(
            "s1", "x", "x", "127.0.0.1", self.agent.port, account, PATIENCE_S, 1, self.entries, oids.DEFAULT
        )
        self.loop = asyncio.new_event_loop()
        self.source = SnmpSource(switch, SECOND_NS, say=self.said.append)
        self.counting = Counting(SECOND_NS)

    def poll(self, *ports: tuple[int, Interface]) -> dict[tuple[str, str], Any]:
        """Growth by port and counter, of a switch that has these ports at these indexes."""
        objects = [(oid, value) for index, one in ports for oid, value in one.at(index).items()]
        # Columns in order, and in each the ports as they were given.
        self.agent.objects = dict(sorted(objects, key=lambda one: [int(arc) for arc in one[0].split(".")[:-1]]))
        reading = self.loop.run_until_complete(self.source.read(0))
        rows = self.counting.samples(reading).iter_rows(named=True)
        return {(row["port"], row["counter"]): row["value"] for row in rows}


@pytest.fixture
def polled() -> Iterator[Callable[..., Polled]]:
    made: list[Polled] = []
    with odd(OddAgent({})) as agent:

        def make(*entries: PortEntry) -> Polled:
            made.append(Polled(agent, entries or (PortEntry(all=True),)))
            return made[-1]

        yield make
        for one in made:
            one.source.close()
            one.loop.close()


def ports() -> tuple[Interface, Interface, Interface]:
    return (
        Interface("eth1", 5 * 10**9, 1_000),
        Interface("eth2", 9 * 10**12, 500_000),
        Interface("eth3", 7 * 10**11, 70),
    )


def grow(*of: Interface) -> None:
    for one in of:
        one.octets += 1_000
        one.discards += 1


def values(rows: dict[tuple[str, str], Any], counter: str = "discards.tx") -> dict[str, Any]:
    return {port: value for (port, of), value in rows.items() if of == counter}


def test_ports_that_exchange_their_indexes_discard_nothing_and_keep_their_names(polled: Callable[..., Polled]) -> None:
    switch, (a, b, _) = polled(), ports()
    switch.poll((1, a), (2, b))
    grow(a, b)
    assert values(switch.poll((1, a), (2, b))) == {"eth1": 1, "eth2": 1}
    grow(a, b)
    assert values(switch.poll((2, a), (1, b))) == {"eth1": None, "eth2": None}
    grow(a, b)
    assert values(switch.poll((2, a), (1, b))) == {"eth1": 1, "eth2": 1}
    assert any("changed their ifIndex: eth2 from 2 to 1, eth1 from 1 to 2" in line for line in switch.said)


def test_three_ports_that_rotate_are_followed(polled: Callable[..., Polled]) -> None:
    switch, (a, b, c) = polled(), ports()
    switch.poll((1, a), (2, b), (3, c))
    assert set(values(switch.poll((2, a), (3, b), (1, c))).values()) == {None}
    grow(a, b, c)
    assert values(switch.poll((2, a), (3, b), (1, c))) == {"eth1": 1, "eth2": 1, "eth3": 1}


def test_idle_ports_that_exchange_their_indexes_are_followed_too(polled: Callable[..., Polled]) -> None:
    switch, (a, b, _) = polled(), ports()
    b.octets, b.discards = a.octets + 10, a.discards + 3
    switch.poll((1, a), (2, b))
    assert values(switch.poll((2, a), (1, b))) == {"eth1": None, "eth2": None}


def test_a_port_chosen_by_its_index_has_no_growth_across_another_port_there(polled: Callable[..., Polled]) -> None:
    switch, (a, b, _) = polled(PortEntry(index=1, name="uplink")), ports()
    b.octets, b.discards = a.octets + 10, a.discards + 3
    switch.poll((1, a), (2, b))
    assert values(switch.poll((2, a), (1, b))) == {"uplink": None}
    grow(b)
    assert values(switch.poll((2, a), (1, b))) == {"uplink": 1}


def test_a_port_that_vanishes_costs_the_others_nothing(polled: Callable[..., Polled]) -> None:
    switch, (a, b, _) = polled(), ports()
    switch.poll((1, a), (2, b))
    grow(a, b)
    assert values(switch.poll((1, a))) == {"eth1": 1}
    grow(a, b)
    assert values(switch.poll((1, a), (2, b))) == {"eth1": 1}


def test_an_index_that_a_new_port_was_given_is_the_new_ports(polled: Callable[..., Polled]) -> None:
    switch, (a, b, c) = polled(), ports()
    switch.poll((1, a), (2, b))
    grow(a)
    assert values(switch.poll((1, a), (2, c))) == {"eth1": 1, "eth3": None}
    grow(a, c)
    assert values(switch.poll((1, a), (2, c))) == {"eth1": 1, "eth3": 1}


def test_counters_of_another_port_under_the_same_name_are_no_growth(polled: Callable[..., Polled]) -> None:
    switch, (a, b, _) = polled(), ports()
    switch.poll((1, a), (2, b))
    a.name, b.name = b.name, a.name
    assert values(switch.poll((2, a), (1, b))) == {"eth1": None, "eth2": None}


def test_a_port_that_rises_beyond_its_rate_is_looked_for_once_and_not_at_each_poll(
    polled: Callable[..., Polled],
) -> None:
    switch, (a, b, _) = polled(), ports()
    switch.poll((1, a), (2, b))
    asked = []
    for _ in range(4):
        a.octets += 10**13
        before = len(switch.agent.requests)
        assert values(switch.poll((1, a), (2, b)))["eth1"] is None
        asked.append(len(switch.agent.requests) - before)
    assert asked[0] > asked[1] == asked[3]


@pytest.mark.parametrize("stands_at", [0, 12_345])
def test_64_bits_that_stand_still_give_way_to_32_that_count_and_that_is_said_once(
    polled: Callable[..., Polled], stands_at: int
) -> None:
    switch, (a, b, _) = polled(), ports()
    a.octets, a.octets_32 = stands_at, 100
    growth = []
    for _ in range(9):
        a.octets_32 += 1_000
        grow(b)
        growth.append(values(switch.poll((1, a), (2, b)), "octets.tx"))
    assert growth[-1] == {"eth1": 1_000, "eth2": 1_000}
    assert sum("octets.tx of port eth1 has only 32 bits" in line for line in switch.said) == 1


def test_an_idle_port_keeps_its_64_bits(polled: Callable[..., Polled]) -> None:
    switch, (a, b, _) = polled(), ports()
    for _ in range(6):
        grow(b)
        rows = switch.poll((1, a), (2, b))
    assert values(rows, "octets.tx") == {"eth1": 0, "eth2": 1_000}
    assert not any("32 bits" in line for line in switch.said)


def test_an_agent_that_refuses_getbulk_is_asked_by_getnext(polled: Callable[..., Polled]) -> None:
    switch, (a, b, _) = polled(), ports()
    switch.agent.refuses_bulk = True
    switch.poll((1, a), (2, b))
    grow(a, b)
    assert values(switch.poll((1, a), (2, b))) == {"eth1": 1, "eth2": 1}


def test_rows_out_of_order_are_read(polled: Callable[..., Polled]) -> None:
    switch, (a, b, c) = polled(), ports()
    switch.agent.out_of_order = True
    switch.poll((3, a), (1, b), (2, c))
    assert {port.ifname for port in switch.source.found.ports} >= {"eth1", "eth2", "eth3"}  # type: ignore[union-attr]
