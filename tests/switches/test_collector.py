"""The collector: a reading for every tick of every switch, in order, whatever happens to switches and clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from odd_agent import OddAgent, odd
from snmp_agents import COMMUNITY, IFX, Agent, simulated, switch_records
from virtual_time import START_NS, VirtualClock, run

from patience import PATIENCE_S
from whydrop.monitoring.switches import oids
from whydrop.monitoring.switches.collector import Collector
from whydrop.monitoring.switches.config import Community, Switch
from whydrop.monitoring.switches.delivery import Delivery
from whydrop.monitoring.switches.readings import Counter, Port, Reading
from whydrop.monitoring.switches.schedule import SECOND_NS, Clock
from whydrop.monitoring.switches.schema import PortEntry
from whydrop.monitoring.switches.secrets import Secret
from whydrop.monitoring.switches.snmp import FIND_SOON_NS, SnmpSource
from whydrop.monitoring.switches.standings import MOST_LINES, Standings

PORT, OCTETS = Port("uplink", 7, speed_bps=10**9), Counter("octets.rx", f"{IFX}.6", 64)


@dataclass(eq=False)
class Kept:
    """An output that remembers, and fails on request."""

    readings: list[Reading] = field(default_factory=list)
    samples: list[pl.DataFrame] = field(default_factory=list)
    fails: bool = False
    closed: bool = False

    def take(self, reading: Reading, samples: pl.DataFrame) -> None:
        if self.fails:
            raise OSError("no space")
        self.readings.append(reading)
        self.samples.append(samples)

    def close(self) -> None:
        self.closed = True


# Between two ticks.
BEGIN_NS = START_NS + SECOND_NS // 20


def clock_of_tests() -> VirtualClock:
    return VirtualClock(begin_ns=BEGIN_NS)


@dataclass
class Scripted:
    """A source with polls of given durations."""

    takes_s: list[float]
    clock: Clock = field(default_factory=clock_of_tests)
    name: str = "s1"
    polls: int = 0
    wrong: bool = False

    async def prepare(self) -> None:
        pass

    async def read(self, due_ns: int) -> Reading:
        start = self.clock.wall_ns()
        number, self.polls = self.polls, self.polls + 1
        if self.wrong:
            raise ZeroDivisionError("a fault of the source")
        await asyncio.sleep(self.takes_s[number] if number < len(self.takes_s) else 0)
        values = {(PORT, OCTETS): 1_000_000 + self.clock.steady_ns() // 1_000_000}
        steady = self.clock.steady_ns()
        return Reading(
            self.name,
            "x",
            "x",
            due_ns,
            start,
            self.clock.wall_ns(),
            "ok",
            uptime_ns=steady,
            steady_ns=steady,
            values=values,
        )

    def missed(self, due_ns: int, why: str) -> Reading:
        return Reading(self.name, "x", "x", due_ns, None, None, "late", why)

    async def settle(self) -> None:
        pass

    def close(self) -> None:
        pass


def collect(
    sources: list[Any], duration_s: float, interval_ns: int = SECOND_NS // 5, **more: Any
) -> tuple[Kept, list[str]]:
    """Run a collector for a time, while ``meanwhile`` acts on it; the time is virtual."""
    kept, said = Kept(), []
    meanwhile = more.pop("meanwhile", None)
    clock = more.pop("clock", None) or clock_of_tests()
    delivery = more.pop("delivery", Delivery)(interval_ns, [kept], say=said.append)

    async def collected() -> None:
        collector = Collector(sources, interval_ns, delivery, said.append, clock, **more)
        task = asyncio.create_task(collector.run(asyncio.Event(), duration_s))
        if meanwhile is not None:
            await meanwhile()
        await task

    try:
        run(collected())
    finally:
        delivery.close()
    return kept, said


def at(*tenths: int) -> list[int]:
    """Times so many tenths of a second behind the start."""
    return [START_NS + tenth * SECOND_NS // 10 for tenth in tenths]


def test_every_tick_of_every_switch_has_one_reading_in_order():
    kept, said = collect([Scripted([], name="s1"), Scripted([], name="s2")], 1.1)
    for name in ("s1", "s2"):
        assert [reading.due_ns for reading in kept.readings if reading.switch == name] == at(2, 4, 6, 8, 10)
    assert {reading.status for reading in kept.readings} == {"ok"}
    assert sorted(said) == ["s1: answers with 1 counter", "s2: answers with 1 counter"]
    assert kept.closed


def test_ticks_at_which_a_poll_is_still_going_on_are_late_and_come_after_it():
    kept, _ = collect([Scripted([0, 0.5])], 1.0)
    assert [reading.due_ns for reading in kept.readings] == at(2, 4, 6, 8, 10)
    late = [reading for reading in kept.readings if "still running" in str(reading.message)]
    assert [reading.due_ns for reading in late] == at(6, 8)
    assert all((reading.status, reading.start_ns, reading.values) == ("late", None, {}) for reading in late)


def test_a_switch_with_slow_ports_is_reported_as_late_at_once_and_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
):
    class Slow(Scripted):
        async def prepare(self) -> None:
            await asyncio.sleep(3600)

    monkeypatch.setattr("whydrop.monitoring.switches.collector._PATIENCE_S", 0.1)
    clock, told_ns = clock_of_tests(), {}

    class Timed(Delivery):
        def take(self, reading: Reading) -> None:
            told_ns[reading.switch, reading.due_ns] = clock.wall_ns()
            super().take(reading)

    sources = [Slow([], name="slow"), Scripted([], name="quick", clock=clock)]
    kept, said = collect(sources, 0.7, SECOND_NS // 10, clock=clock, delivery=Timed)
    assert {reading.status for reading in kept.readings if reading.switch == "quick"} == {"ok"}
    late = [reading for reading in kept.readings if reading.switch == "slow"]
    assert len(late) == 7
    assert {reading.status for reading in late} == {"late"}
    # Each at its tick, and not all of them in the end.
    assert all(told_ns["slow", reading.due_ns] == reading.due_ns for reading in late)
    assert sum(line.startswith("slow: late: skipped") for line in said) == 1


def test_an_agent_whose_tables_take_too_long_is_given_up_and_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("whydrop.monitoring.switches.snmp._FIND_WITHIN_S", 0.2)
    with odd(OddAgent({f"{IFX}.1.{index}": index for index in range(1, 30_000)})) as agent:
        account = Community(Secret(COMMUNITY))
        switch = Switch("s1", "x", "x", "127.0.0.1", agent.port, account, 2.0, 1, (PortEntry(all=True),), oids.DEFAULT)
        reading = asyncio.run(SnmpSource(switch, SECOND_NS).read(0))
    assert reading.status == "timeout"
    assert reading.message == "127.0.0.1: the switch answers, but its ports could not be found within 0.2 s"


def test_a_fault_in_one_source_costs_the_others_nothing():
    kept, said = collect([Scripted([], name="good"), Scripted([], name="bad", wrong=True)], 0.45)
    assert "error" not in {reading.status for reading in kept.readings if reading.switch == "good"}
    assert {reading.status for reading in kept.readings if reading.switch == "bad"} == {"error"}
    assert "bad: error: ZeroDivisionError: a fault of the source" in said


def test_an_output_that_could_not_keep_everything_is_reported_in_the_end():
    class Lossy(Kept):
        def close(self) -> None:
            raise OSError("3 samples are lost")

    said: list[str] = []
    assert Delivery(SECOND_NS, [Kept()], say=said.append).close()
    assert not Delivery(SECOND_NS, [Lossy(), Kept()], say=said.append).close()
    assert said == ["3 samples are lost"]


def test_an_output_that_fails_costs_the_others_nothing_and_is_named_once():
    good, bad, said = Kept(), Kept(fails=True), []
    delivery = Delivery(SECOND_NS, [bad, good], said.append)
    for number in range(3):
        delivery.take(Reading("s1", "x", "x", number * SECOND_NS, None, None, "timeout"))
    delivery.close()
    assert len(good.readings) == 3
    assert said == ["Kept: OSError: no space"]
    assert good.closed
    assert bad.closed


def test_a_poll_that_is_going_on_when_the_collector_stops_is_kept():
    kept, _ = collect([Scripted([0, 0.3])], 0.45)
    assert [(reading.due_ns, reading.status) for reading in kept.readings] == [(due, "ok") for due in at(2, 4)]
    assert kept.readings[1].end_ns == START_NS + 7 * SECOND_NS // 10


@pytest.mark.parametrize("seconds", [-0.3, 0.5, 3600, -86400])
def test_a_clock_that_is_set_gives_no_tick_twice_and_no_growth_that_was_not(seconds: float):
    clock = clock_of_tests()

    async def set_clock() -> None:
        await asyncio.sleep(0.37)
        clock.ahead_ns = round(seconds * SECOND_NS)

    # Set back by three ticks, it takes as long until there is a tick that was not polled.
    kept, said = collect([Scripted([], clock=clock)], 1.1, SECOND_NS // 10, clock=clock, meanwhile=set_clock)
    dues = [reading.due_ns for reading in kept.readings]
    assert len(dues) == len(set(dues))
    assert len(dues) >= 6
    assert any(f"clock was set {'back' if seconds < 0 else 'forward'} by" in line for line in said)
    rows = pl.concat(kept.samples).filter(pl.col("value").is_not_null())
    # The source counts one each millisecond.
    rate = rows["value"] / (rows["span_ns"] / 1_000_000)
    assert rows.height >= 4
    assert rate.is_between(0.999, 1.001).all()


def _switch(agent: Agent, *entries: PortEntry, **more: Any) -> Switch:
    account = Community(Secret(COMMUNITY))
    return Switch("s1", "dfw07", "dfw", agent.address, agent.port, account, 0.45, 1, entries, oids.DEFAULT)


def collect_until(source: SnmpSource, done: Callable[[Kept], Awaitable[None]]) -> tuple[Kept, list[str]]:
    """Run a collector on an agent that is there, each second until ``done`` is."""
    kept, said = Kept(), []
    delivery = Delivery(SECOND_NS, [kept], say=said.append)

    async def collected() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(Collector([source], SECOND_NS, delivery, said.append).run(stop))
        async with asyncio.timeout(PATIENCE_S):
            await done(kept)
        stop.set()
        await task

    try:
        asyncio.run(collected())
    finally:
        delivery.close()
    return kept, said


async def seen(kept: Kept, *statuses: str, count: int = 1) -> None:
    """Wait until from now on there were so many readings of one of these statuses."""
    before = len(kept.samples)
    while sum(reading.status in statuses for reading in kept.readings[before : len(kept.samples)]) < count:
        await asyncio.sleep(0.01)


@pytest.mark.slow
def test_a_switch_of_48_ports_is_polled_each_second_and_grows_as_it_should(switch: Agent):
    kept, _ = collect_until(
        SnmpSource(_switch(switch, PortEntry(all=True)), SECOND_NS), lambda kept: seen(kept, "ok", count=3)
    )
    polled = [
        (reading, rows) for reading, rows in zip(kept.readings, kept.samples, strict=True) if reading.status == "ok"
    ]
    assert all(len(reading.values) == 48 * 14 for reading, _ in polled)
    assert all(reading.due_ns % SECOND_NS == 0 for reading, _ in polled)
    for (before, _), (after, grown) in pairwise(polled):
        assert grown.height == 48 * 14
        first = grown.filter((pl.col("port") == "ge-0/0/0") & (pl.col("counter") == "octets.rx")).row(0, named=True)
        # It counts 1000 a second, at some moment between the beginning and the end of each poll.
        least_s, most_s = (after.start_ns - before.end_ns) / SECOND_NS, (after.end_ns - before.start_ns) / SECOND_NS
        assert 1000 * least_s - 20 <= first["value"] <= 1000 * most_s + 20


@pytest.mark.slow
def test_an_agent_that_dies_leaves_gaps_and_one_that_restarts_resets_and_neither_invents_growth(tmp_path):
    with simulated(tmp_path, {COMMUNITY: switch_records(4)}) as agent:

        async def power_failure(kept: Kept) -> None:
            await seen(kept, "ok", count=3)
            await asyncio.to_thread(agent.kill)
            await seen(kept, "refused", "timeout", count=2)
            await asyncio.to_thread(agent.start)
            await seen(kept, "ok", count=3)

        kept, said = collect_until(SnmpSource(_switch(agent, PortEntry(all=True)), SECOND_NS), power_failure)
    assert {reading.status for reading in kept.readings} <= {"ok", "refused", "timeout", "late"}
    rows = pl.concat(kept.samples)
    resets = rows.filter(pl.col("quality").str.contains("reset"))
    assert set(resets["quality"]) == {"gap+reset"}
    assert resets["value"].null_count() == resets.height == 4 * 14
    grown = rows.filter(pl.col("value").is_not_null())
    assert grown.height >= 3 * 4 * 14
    assert (grown["value"] >= 0).all()
    # No counter grows faster than 5000 in a second, and each is read at some moment of its poll.
    longest_ns = max(reading.end_ns - reading.start_ns for reading in kept.readings if reading.status == "ok")
    assert (grown["value"] <= 5000 * (grown["span_ns"] + 2 * longest_ns) / SECOND_NS).all()
    changes = [line for line in said if line.startswith("s1: ") and "no port" not in line]
    assert sum(line.startswith("s1: answers again") for line in changes) >= 1
    assert all(one != other for one, other in pairwise(changes))


@pytest.mark.slow
def test_ports_that_have_other_indexes_after_a_restart_are_found_by_their_names_again(tmp_path):
    with simulated(tmp_path, {COMMUNITY: switch_records(4)}) as agent:
        source = SnmpSource(_switch(agent, PortEntry(alias="uplink*", name="uplink")), SECOND_NS)

        async def across() -> tuple[Reading, Reading]:
            before = await source.read(0)
            await asyncio.to_thread(agent.kill)
            path = tmp_path / "data" / f"{COMMUNITY}.snmprec"
            objects = switch_records(4, first_index=9001)
            ordered = sorted(objects, key=lambda oid: tuple(map(int, oid.split("."))))
            path.write_text("".join(f"{oid}|{objects[oid]}\n" for oid in ordered))
            await asyncio.to_thread(agent.start)
            return before, await source.read(SECOND_NS)

        before, after = asyncio.run(across())
    assert {port.index for port, _ in before.values} == {504}
    assert {port.index for port, _ in after.values} == {9004}
    assert len(after.values) == 14


@dataclass
class FastClock(Clock):
    """A clock on which an hour can pass at once."""

    more_ns: int = 0

    def steady_ns(self) -> int:
        return super().steady_ns() + self.more_ns


def test_ports_of_a_switch_that_runs_are_found_again_when_their_time_has_come(switch: Agent):
    clock = FastClock()
    source = SnmpSource(_switch(switch, PortEntry(index=501)), SECOND_NS, clock)

    async def run() -> tuple[bool, bool]:
        await source.prepare()
        first = source.found
        await source.settle()
        kept = source.found is first
        clock.more_ns += FIND_SOON_NS + SECOND_NS
        await source.settle()
        return kept, source.found is not first

    # It has been up for less than ten minutes: its tables may not be full yet.
    assert asyncio.run(run()) == (True, True)


def test_a_switch_that_has_nothing_to_poll_says_why_at_each_poll(switch: Agent):
    source = SnmpSource(_switch(switch, PortEntry(alias="nothing")), SECOND_NS)
    reading = asyncio.run(source.read(0))
    assert reading.status == "error"
    assert "no port has an alias (ifAlias) that matches 'nothing'" in str(reading.message)


def _reading(status: str, due_s: int = 10, message: str | None = None, late_ns: int = 0) -> Reading:
    start = due_s * SECOND_NS + late_ns if status == "ok" else None
    return Reading("s1", "x", "x", due_s * SECOND_NS, start, start, status, message)


def test_a_state_is_reported_when_it_changes_and_not_at_each_poll():
    standings = Standings()
    standings.expect(["s1", "s2"])
    history = ["ok", "ok", "timeout", "timeout", "timeout", "ok", "ok"]
    said = [standings.take(_reading(status, place * 10)) for place, status in enumerate(history)]
    assert said == [
        "s1: answers with 0 counters",
        None,
        "s1: timeout",
        None,
        None,
        "s1: answers again; 3 polls failed",
        None,
    ]
    assert (standings.answering, standings.failing) == (1, [])
    assert standings.counts == {"ok": 4, "timeout": 3}


def test_a_switch_that_answers_now_and_then_does_not_fill_the_journal():
    standings = Standings()
    # Three hours, every ten seconds.
    said = [standings.take(_reading("timeout" if tick % 3 else "ok", tick * 10)) for tick in range(1080)]
    lines = [line for line in said if line is not None]
    assert len(lines) < 18 * MOST_LINES + MOST_LINES
    assert lines[0] == "s1: answers with 0 counters"
    assert lines[MOST_LINES - 1].endswith("; it changes often: its next line comes within 10 min")
    assert lines[MOST_LINES] == "s1: changed 32 more times, 40 of 60 polls failed; now ok"
    # When it has calmed down, one line says so, and no more follow.
    after = [standings.take(_reading("ok", tick * 10)) for tick in range(1080, 1300)]
    assert [line for line in after if line is not None][-1].endswith("polls failed; now ok")
    assert after[-120:] == [None] * 120


def test_the_worst_lateness_is_that_of_the_last_tick():
    standings = Standings()
    for late_ns in (5, 80, 20):
        standings.take(_reading("ok", 10, late_ns=late_ns))
    assert standings.worst_lateness_ns() == 80
    standings.take(_reading("ok", 20, late_ns=7))
    assert standings.worst_lateness_ns() == 7
    assert standings.quantile_ns(1.0) == 80
    assert standings.quantile_ns(0.5) == 20
