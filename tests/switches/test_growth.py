"""Growth of counters: what is reported never exceeds what truly happened, and equals it where it can be known."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whydrop.monitoring.switches.growth import LEAST_FRAME_BITS, Counting
from whydrop.monitoring.switches.readings import Counter, Port, Reading
from whydrop.store import tables

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
INTERVAL = 10 * SECOND
UPTIME_WRAP = 2**32 * 10_000_000

OCTETS = Counter("octets.tx", "1.3.6.1.2.1.31.1.1.1.10", 64)
OCTETS_RX = Counter("octets.rx", "1.3.6.1.2.1.31.1.1.1.6", 64)
NARROW = Counter("octets.tx", "1.3.6.1.2.1.2.2.1.16", 32)
DISCARDS = Counter("discards.tx", "1.3.6.1.2.1.2.2.1.19", 32)
ERRORS = Counter("errors.rx", "1.3.6.1.2.1.2.2.1.14", 32)
CUSTOM = Counter("cells.tx", "1.3.6.1.4.1.9.1", 32)
UPLINK = Port("uplink", 1, None, 10_000_000_000)
DATA = Path(__file__).parents[2].parent / "shared" / "data" / "mlab"


@dataclass
class Polled:
    """Polls a synthetic switch by hand: what is read, when."""

    port: Port = UPLINK
    interval_ns: int = INTERVAL
    steady: bool = True

    def __post_init__(self) -> None:
        self.counting = Counting(self.interval_ns)
        self.tick = 0
        self.wall_ahead_ns = 0
        self.booted_ns = -1000 * SECOND  # on the scale of true time, which begins at the first poll

    def poll(self, totals: dict[Counter, int], ticks: int = 1, **changes: Any) -> dict[str, dict[str, Any]]:
        """Poll ``ticks`` intervals after the poll before; rows by counter."""
        self.tick += ticks
        true = self.tick * self.interval_ns
        wall = START + true + self.wall_ahead_ns
        reading = Reading(
            switch="s1.dfw07", site="dfw07", metro="dfw",
            due_ns=wall, start_ns=wall + 1_000_000, end_ns=wall + 5_000_000, status="ok",
            uptime_ns=(true - self.booted_ns) % UPTIME_WRAP // 10_000_000 * 10_000_000,
            values={(self.port, counter): total for counter, total in totals.items()},
            steady_ns=true + 5_000_000 if self.steady else None,
        )  # fmt: skip
        frame = self.counting.samples(replace(reading, **changes))
        assert frame.schema == pl.Schema(tables.COUNTERS)
        return {row["counter"]: row for row in frame.iter_rows(named=True)}

    def boot(self) -> None:
        """The switch restarts three seconds after the last poll."""
        self.booted_ns = self.tick * self.interval_ns + 3 * SECOND


def test_growth_is_the_difference_of_two_readings() -> None:
    switch = Polled()
    switch.poll({OCTETS: 1000, DISCARDS: 5})
    rows = switch.poll({OCTETS: 1700, DISCARDS: 5})
    octets, discards = rows["octets.tx"], rows["discards.tx"]
    assert (octets["value"], octets["total"], octets["span_ns"], octets["quality"]) == (700, 1700, INTERVAL, "ok")
    assert (discards["value"], discards["quality"]) == (0, "ok")
    # in the middle of the poll, from 1 to 5 ms behind the tick
    assert octets["end_ns"] == START + 2 * INTERVAL + 3_000_000
    assert octets["poll_end_ns"] - octets["poll_start_ns"] == 4_000_000


def test_a_first_reading_has_a_total_and_no_growth() -> None:
    (row,) = Polled().poll({OCTETS: 1000}).values()
    assert (row["total"], row["value"], row["span_ns"], row["quality"]) == (1000, None, None, "ok")


@pytest.mark.parametrize("status", ["timeout", "refused", "late", "error"])
def test_a_poll_that_failed_gives_no_row_and_the_next_one_a_longer_span(status: str) -> None:
    switch = Polled()
    switch.poll({OCTETS: 1000})
    assert switch.poll({}, status=status, start_ns=None, end_ns=None, uptime_ns=None, steady_ns=None) == {}
    (row,) = switch.poll({OCTETS: 1900}).values()
    assert (row["value"], row["span_ns"], row["quality"]) == (900, 2 * INTERVAL, "gap")


def test_a_counter_that_wrapped_gives_its_growth() -> None:
    switch = Polled()
    switch.poll({OCTETS: 10**12, DISCARDS: 2**32 - 3})
    rows = switch.poll({OCTETS: 10**12 + 10**9, DISCARDS: 4})
    assert (rows["discards.tx"]["value"], rows["discards.tx"]["quality"]) == (7, "wrap")
    assert rows["octets.tx"]["quality"] == "ok"


def test_64_bits_wrap_too() -> None:
    switch = Polled()
    switch.poll({OCTETS: 2**64 - 1})
    (row,) = switch.poll({OCTETS: 99}).values()
    assert (row["value"], row["total"], row["quality"]) == (100, 99, "wrap")


def test_a_total_beyond_63_bits_is_null_and_its_growth_known() -> None:
    switch = Polled()
    switch.poll({OCTETS: 2**63})
    (row,) = switch.poll({OCTETS: 2**63 + 5}).values()
    assert (row["value"], row["total"]) == (5, None)


def test_a_restart_leaves_every_counter_of_the_port_without_a_value() -> None:
    switch = Polled()
    switch.poll({OCTETS: 50, DISCARDS: 2**32 - 3, ERRORS: 0})
    switch.boot()
    rows = switch.poll({OCTETS: 900, DISCARDS: 4, ERRORS: 0})
    assert {(row["value"], row["quality"], row["span_ns"]) for row in rows.values()} == {(None, "reset", INTERVAL)}
    rows = switch.poll({OCTETS: 1000, DISCARDS: 4, ERRORS: 1})
    assert [row["value"] for row in rows.values()] == [100, 0, 1]


def test_a_restart_during_a_long_gap_is_found_by_an_uptime_that_is_larger_and_yet_too_small() -> None:
    switch = Polled()
    switch.booted_ns = 0
    switch.poll({OCTETS: 50})
    switch.boot()
    (row,) = switch.poll({OCTETS: 10**9}, ticks=100).values()
    assert (row["value"], row["quality"]) == (None, "gap+reset")


def test_uptime_that_wraps_after_497_days_is_no_restart() -> None:
    switch = Polled()
    switch.booted_ns = 15 * SECOND - UPTIME_WRAP
    switch.poll({OCTETS: 50})
    (row,) = switch.poll({OCTETS: 60}).values()
    assert (row["value"], row["quality"]) == (10, "ok")


def test_an_agent_that_restarted_alone_loses_nothing_where_octets_prove_that_the_port_went_on() -> None:
    switch = Polled()
    # in 8 s not even a port of 10 Gbit/s can count so many
    switch.poll({OCTETS: 10**15, DISCARDS: 70})
    switch.boot()
    rows = switch.poll({OCTETS: 10**15 + 10**6, DISCARDS: 75})
    assert [(row["value"], row["quality"]) for row in rows.values()] == [(10**6, "ok"), (5, "ok")]


def test_a_fall_that_would_take_more_than_the_ports_speed_is_a_reset_of_the_whole_port() -> None:
    switch = Polled()
    switch.poll({OCTETS: 50, DISCARDS: 100})
    rows = switch.poll({OCTETS: 60, DISCARDS: 3})
    assert {(row["value"], row["quality"]) for row in rows.values()} == {(None, "reset")}


@pytest.mark.parametrize("leap", [2**64 - 1, 2**63, 10**15])
def test_a_total_that_no_port_can_have_counted_is_no_growth_and_neither_is_the_way_back(leap: int) -> None:
    switch = Polled()
    switch.poll({OCTETS: 1000, OCTETS_RX: 5_000})
    rows = switch.poll({OCTETS: leap, OCTETS_RX: 6_000})
    assert (rows["octets.tx"]["value"], rows["octets.tx"]["quality"]) == (None, "reset")
    assert rows["octets.rx"]["value"] == 1_000
    rows = switch.poll({OCTETS: 1200, OCTETS_RX: 7_000})
    assert (rows["octets.tx"]["value"], rows["octets.tx"]["quality"]) == (None, "reset")
    assert rows["octets.rx"]["value"] == 1_000
    assert switch.poll({OCTETS: 1300})["octets.tx"]["value"] == 100


def test_a_total_that_was_set_far_ahead_counts_on_from_there() -> None:
    switch = Polled()
    switch.poll({OCTETS: 1000})
    switch.poll({OCTETS: 10**18})
    assert switch.poll({OCTETS: 10**18 + 70})["octets.tx"]["value"] == 70


def test_a_port_that_became_a_thousand_times_as_fast_since_it_was_found_loses_nothing() -> None:
    switch = Polled(replace(UPLINK, speed_bps=10_000_000))
    switch.poll({OCTETS: 0})
    ten_seconds = 10 * 10_000_000_000 // 8
    assert switch.poll({OCTETS: ten_seconds})["octets.tx"]["value"] == ten_seconds


def test_a_counter_that_was_cleared_alone_is_the_only_one_without_a_value() -> None:
    switch = Polled()
    switch.poll({OCTETS: 10**15, DISCARDS: 100})
    rows = switch.poll({OCTETS: 10**15 + 9, DISCARDS: 3})
    assert rows["octets.tx"]["value"] == 9
    assert (rows["discards.tx"]["value"], rows["discards.tx"]["quality"]) == (None, "reset")


@pytest.mark.parametrize("fell", [1, 1500])
@pytest.mark.parametrize("speed_bps", [10**10, None])
def test_a_counter_that_goes_back_a_little_costs_a_row_and_no_growth(fell: int, speed_bps: int | None) -> None:
    switch = Polled(replace(UPLINK, speed_bps=speed_bps))
    switch.poll({OCTETS: 10**15, OCTETS_RX: 500, DISCARDS: 7})
    rows = switch.poll({OCTETS: 10**15 - fell, OCTETS_RX: 500, DISCARDS: 9})
    assert {name: (row["value"], row["quality"]) for name, row in rows.items()} == {
        "octets.rx": (0, "ok"), "discards.tx": (2, "ok"),
    }  # fmt: skip
    rows = switch.poll({OCTETS: 10**15 + 4000, OCTETS_RX: 501, DISCARDS: 9})
    octets = rows["octets.tx"]
    assert (octets["value"], octets["span_ns"], octets["quality"]) == (4000, 2 * INTERVAL, "gap")
    assert (rows["octets.rx"]["value"], rows["octets.rx"]["span_ns"]) == (1, INTERVAL)


def test_a_counter_that_stays_where_it_fell_to_grows_on_from_there() -> None:
    switch = Polled()
    switch.poll({OCTETS: 10**15})
    assert switch.poll({OCTETS: 10**15 - 1500}) == {}
    (row,) = switch.poll({OCTETS: 10**15 - 1400}).values()
    assert (row["value"], row["span_ns"], row["quality"]) == (100, INTERVAL, "ok")
    assert switch.poll({OCTETS: 10**15 + 5})["octets.tx"]["value"] == 1405


def test_a_counter_that_falls_again_and_again_has_no_growth_and_rows_that_say_so() -> None:
    switch = Polled()
    switch.poll({OCTETS: 10**15})
    switch.poll({OCTETS: 10**15 - 1})
    (row,) = switch.poll({OCTETS: 10**15 - 2}).values()
    assert (row["value"], row["quality"]) == (None, "reset")


@pytest.mark.parametrize(("before", "now"), [(10**6, 10**6 - 1), (10**15, 9 * 10**14), (10**15, 7)])
def test_a_fall_that_may_be_a_new_beginning_or_is_large_leaves_the_port_without_values(before: int, now: int) -> None:
    switch = Polled()
    switch.poll({OCTETS: before, DISCARDS: 1})
    rows = switch.poll({OCTETS: now, DISCARDS: 2})
    assert {(row["value"], row["quality"]) for row in rows.values()} == {(None, "reset")}


def test_a_custom_counter_that_falls_says_nothing_of_the_others_for_it_may_be_a_gauge() -> None:
    switch = Polled()
    switch.poll({OCTETS: 50, CUSTOM: 100})
    rows = switch.poll({OCTETS: 60, CUSTOM: 3})
    assert [(row["value"], row["quality"]) for row in rows.values()] == [(10, "ok"), (None, "reset")]


def test_ports_are_judged_apart() -> None:
    switch = Polled()
    other = replace(UPLINK, name="local", index=2)
    values = {(UPLINK, OCTETS): 50, (other, OCTETS): 50}
    switch.poll({}, values=values)
    frame = switch.counting.samples(
        Reading(
            "s1.dfw07",
            "dfw07",
            "dfw",
            0,
            START + 2 * INTERVAL,
            START + 2 * INTERVAL,
            "ok",
            values={(UPLINK, OCTETS): 20, (other, OCTETS): 55},
            steady_ns=2 * INTERVAL,
            uptime_ns=1020 * SECOND,
        )
    )
    assert dict(frame.select("port", "quality").iter_rows()) == {"uplink": "reset", "local": "ok"}


def test_32_bits_that_may_have_been_full_more_than_once_have_no_value() -> None:
    switch = Polled()
    switch.poll({NARROW: 100})
    # 10 Gbit/s fill them in 3.4 s
    (row,) = switch.poll({NARROW: 200}).values()
    assert (row["value"], row["quality"], row["total"]) == (None, "wrap", 200)
    slow = Polled(port=replace(UPLINK, speed_bps=100_000_000))
    slow.poll({NARROW: 2**32 - 100})
    (row,) = slow.poll({NARROW: 200}).values()
    assert (row["value"], row["quality"]) == (300, "wrap")
    # 100 Mbit/s fill them in 344 s
    (row,) = slow.poll({NARROW: 300}, ticks=35).values()
    assert (row["value"], row["quality"]) == (None, "gap+wrap")


@pytest.mark.parametrize("speed_bps", [None, 0])
def test_a_fall_at_a_port_of_unknown_speed_is_never_taken_for_a_wrap(speed_bps: int | None) -> None:
    switch = Polled(port=replace(UPLINK, speed_bps=speed_bps))
    switch.poll({OCTETS: 10, DISCARDS: 2**32 - 1})
    rows = switch.poll({OCTETS: 20, DISCARDS: 4})
    assert (rows["octets.tx"]["value"], rows["discards.tx"]["value"]) == (10, None)
    assert switch.poll({OCTETS: 30, DISCARDS: 9})["discards.tx"]["value"] == 5


def test_a_counter_of_unknown_pace_is_believed_in_a_regular_span_only() -> None:
    switch = Polled()
    switch.poll({CUSTOM: 10})
    assert switch.poll({CUSTOM: 20})["cells.tx"]["value"] == 10
    assert switch.poll({CUSTOM: 30}, ticks=2)["cells.tx"]["value"] is None


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("step_s", [3600, -3600, 4, -4, -20])
def test_a_wall_clock_that_is_set_invents_no_growth_and_no_gap(steady: bool, step_s: int) -> None:
    switch = Polled(steady=steady)
    switch.booted_ns = -10_000 * SECOND
    switch.poll({OCTETS: 10**12})
    switch.wall_ahead_ns = step_s * SECOND
    (row,) = switch.poll({OCTETS: 10**12 + 70}).values()
    assert (row["value"], row["quality"]) == (70, "ok")
    # the steady clock knows how long it was; without one the span is not known
    assert row["span_ns"] == (INTERVAL if steady else None)


def test_an_early_restart_is_not_distinguished_from_a_clock_that_was_set_without_a_steady_clock() -> None:
    switch = Polled(steady=False)
    switch.booted_ns = 0
    switch.poll({OCTETS: 50})
    switch.wall_ahead_ns = 3600 * SECOND
    (row,) = switch.poll({OCTETS: 70}).values()
    assert (row["value"], row["quality"]) == (None, "gap+reset")


def test_a_wall_clock_that_is_slewed_leaves_windows_without_seams() -> None:
    switch = Polled()
    ends = []
    for tick in range(4):
        switch.wall_ahead_ns = tick * 50_000_000
        (row,) = switch.poll({OCTETS: 10**12}).values()
        ends.append((row["end_ns"], row["span_ns"]))
    assert all(end - span == before for (before, _), (end, span) in pairwise(ends))


def test_a_counter_that_was_not_answered_for_has_a_gap_of_its_own() -> None:
    switch = Polled()
    switch.poll({OCTETS: 10, ERRORS: 1})
    assert set(switch.poll({OCTETS: 20})) == {"octets.tx"}
    rows = switch.poll({OCTETS: 30, ERRORS: 4})
    assert (rows["errors.rx"]["value"], rows["errors.rx"]["span_ns"], rows["errors.rx"]["quality"]) == (
        3, 2 * INTERVAL, "gap",
    )  # fmt: skip
    assert rows["octets.tx"]["quality"] == "ok"


def test_a_port_that_moved_to_another_index_is_another_counter() -> None:
    switch = Polled()
    switch.poll({OCTETS: 10})
    switch.port = replace(UPLINK, index=7)
    (row,) = switch.poll({OCTETS: 500}).values()
    assert (row["value"], row["quality"]) == (None, "reset")
    assert switch.poll({OCTETS: 600})["octets.tx"]["value"] == 100


@pytest.mark.parametrize("uptime_s", [0, 50_000])
def test_an_uptime_that_stands_still_proves_nothing(uptime_s: int) -> None:
    switch = Polled()
    for total in (10**9, 10**9 + 5, 10**9 + 10):
        rows = switch.poll({OCTETS: total}, uptime_ns=uptime_s * SECOND)
    assert (rows["octets.tx"]["value"], rows["octets.tx"]["quality"]) == (5, "ok")
    assert switch.poll({OCTETS: 3}, uptime_ns=uptime_s * SECOND)["octets.tx"]["quality"] == "reset"


def test_an_uptime_that_is_by_chance_the_same_as_before_a_restart_is_a_restart() -> None:
    switch = Polled()
    switch.booted_ns = 3 * SECOND
    switch.poll({OCTETS: 100})
    switch.boot()
    assert switch.poll({OCTETS: 100})["octets.tx"]["quality"] == "reset"


def test_a_fall_is_no_wrap_where_nothing_says_that_the_switch_went_on() -> None:
    # 300 bytes short of full, and a port of 100 Mbit/s: it might be a wrap
    switch = Polled(port=replace(UPLINK, speed_bps=100_000_000))
    switch.poll({NARROW: 2**32 - 100}, uptime_ns=None)
    (row,) = switch.poll({NARROW: 200}, uptime_ns=None).values()
    assert (row["value"], row["quality"]) == (None, "reset")
    # octets of the other direction that cannot have come from zero in ten seconds say so
    switch.poll({NARROW: 2**32 - 100, OCTETS_RX: 10**12}, uptime_ns=None)
    rows = switch.poll({NARROW: 200, OCTETS_RX: 10**12}, uptime_ns=None)
    assert (rows["octets.tx"]["value"], rows["octets.tx"]["quality"]) == (300, "wrap")


@pytest.mark.parametrize("step_s", [-8, -10, -3600])
def test_without_uptime_and_a_steady_clock_a_wall_clock_set_back_leaves_the_span_unknown(step_s: int) -> None:
    switch = Polled(steady=False)
    switch.poll({OCTETS: 10}, uptime_ns=None)
    switch.wall_ahead_ns = step_s * SECOND
    (row,) = switch.poll({OCTETS: 20}, uptime_ns=None).values()
    assert (row["value"], row["span_ns"], row["quality"]) == (10, None, "ok")


def test_answers_that_no_counter_can_give_are_no_rows() -> None:
    switch = Polled()
    assert set(switch.poll({OCTETS: -1, DISCARDS: 2**64, ERRORS: 3})) == {"errors.rx"}


def test_an_interval_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive, not 0 ns"):
        Counting(0)


COUNTERS = (OCTETS, OCTETS_RX, DISCARDS, ERRORS, replace(NARROW, name="octets.rx32"), CUSTOM)
FRACTIONS = st.lists(st.floats(0, 1) | st.just(0.0) | st.just(1.0), min_size=len(COUNTERS), max_size=len(COUNTERS))


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what a switch does from tick to tick, and what becomes of the polls."""
    step = st.fixed_dictionaries(
        {
            "grows": FRACTIONS,
            "polled": st.sampled_from([True, True, True, False]),
            "restart": st.none() | st.none() | st.floats(0, 0.99),
            "wall_step_s": st.just(0) | st.just(0) | st.sampled_from([-86_400, -10, -5, 5, 10, 3600]),
        }
    )
    totals = [
        draw(
            st.integers(0, 2**counter.bits - 1) | st.integers(2**counter.bits - 1000, 2**counter.bits - 1) | st.just(0)
        )
        for counter in COUNTERS
    ]
    return {
        "steps": draw(st.lists(step, min_size=2, max_size=14)),
        "totals": totals,
        "speed_bps": draw(st.none() | st.sampled_from([10**6, 10**9, 10**10, 10**11, 4 * 10**11])),
        "interval_s": draw(st.sampled_from([1, 10, 60])),
        "uptime_s": draw(st.integers(10, 10**6) | st.just(2**32 // 100 - 30)),
        "steady": draw(st.booleans()),
    }


@pytest.mark.slow
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_sums_never_exceed_the_truth_and_equal_it_where_they_can_be_known(history: dict[str, Any]) -> None:
    switch = Polled(replace(UPLINK, speed_bps=history["speed_bps"]), history["interval_s"] * SECOND, history["steady"])
    switch.booted_ns = -history["uptime_s"] * SECOND
    pace = _paces(history["speed_bps"])
    totals = list(history["totals"])
    # since the last poll: true growth, intervals, whether the switch restarted, whether the wall clock was set
    grown, ticks, restarted, was_set, first = [0] * len(COUNTERS), 0, False, False, True
    for step in history["steps"]:
        seconds = history["interval_s"]
        true_ns = (switch.tick + ticks) * switch.interval_ns
        shares = [1.0]
        # No switch restarts twice within seconds; without a steady clock a clock that was set hides it; and one that
        # restarts within a minute of the moment at which its uptime wraps looks as if that had wrapped.
        from_wrap_ns = (true_ns - switch.booted_ns + UPTIME_WRAP // 2) % UPTIME_WRAP - UPTIME_WRAP // 2
        just_booted = true_ns - switch.booted_ns <= 5 * SECOND
        wraps = true_ns - switch.booted_ns > UPTIME_WRAP // 2 and abs(from_wrap_ns) < 60 * SECOND + seconds * SECOND
        anew = step["restart"] is not None and not just_booted and not wraps
        if anew and (history["steady"] or not (was_set or step["wall_step_s"])):
            shares = [step["restart"], 1 - step["restart"]]
            switch.booted_ns = true_ns + int(step["restart"] * switch.interval_ns)
            restarted = True
        for part, share in enumerate(shares):
            for place, fraction in enumerate(step["grows"]):
                growth = int(fraction * pace[place] * share * seconds)
                totals[place] = growth if part else totals[place] + growth
                grown[place] += growth
        ticks += 1
        if step["wall_step_s"] and (history["steady"] or not restarted):
            switch.wall_ahead_ns += step["wall_step_s"] * SECOND
            was_set = True
        if not step["polled"]:
            continue
        rows = switch.poll({c: total % 2**c.bits for c, total in zip(COUNTERS, totals, strict=True)}, ticks)
        for place, counter in enumerate(COUNTERS):
            row = rows[counter.name]
            if first or restarted:
                assert row["value"] is None or (not first and row["value"] == grown[place])
            else:
                _check_growth(row, counter, grown[place], pace[place], history, ticks)
            assert row["span_ns"] is None or row["span_ns"] > 0
            if history["steady"] and not first:
                assert row["span_ns"] == pytest.approx(ticks * switch.interval_ns, rel=0.02)
                assert ("gap" in row["quality"]) == (ticks > 1)
        grown, ticks, restarted, was_set, first = [0] * len(COUNTERS), 0, False, False, False


def _paces(speed_bps: int | None) -> list[float]:
    """The most that each counter grows in a second; modest for ports that do not report a speed."""
    speed = speed_bps or 10**9
    return [speed / 8 if "octets" in counter.name else speed / LEAST_FRAME_BITS for counter in COUNTERS]


def _check_growth(
    row: dict[str, Any], counter: Counter, grown: int, pace: float, history: dict[str, Any], ticks: int
) -> None:
    seconds = ticks * history["interval_s"]
    if row["value"] is not None:
        assert row["value"] <= grown
    speed = history["speed_bps"]
    if speed is None or counter is CUSTOM or not history["steady"]:
        return
    if counter.bits == 32 and pace * seconds > 2**32:
        assert row["value"] is None
    else:
        assert row["value"] == float(grown)


@pytest.mark.parametrize("name", ["disco/discov2-switch.jsonl"])
def test_growth_of_real_counters_is_what_their_collector_took_down(name: str) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the files of M-Lab are not beside this checkout (../shared/data/mlab/{name})")
    polls: dict[int, dict[tuple[Port, Counter], int]] = defaultdict(dict)
    truth: dict[tuple[str, int], int] = {}
    times: dict[int, tuple[int, int]] = {}
    for line, text in enumerate(path.read_text().splitlines()):
        series = json.loads(text)
        # two series of one metric are in the file: their lines distinguish them
        counter = Counter(f"{series['metric']}#{line}", str(line), 64)
        for sample in series["sample"]:
            polls[sample["timestamp"]][UPLINK, counter] = sample["counter"]
            truth[counter.name, sample["timestamp"]] = sample["value"]
            times[sample["timestamp"]] = sample["collectstart"], sample["collectend"]
    counting = Counting(10 * SECOND)
    compared = 0
    for number, (stamp, values) in enumerate(sorted(polls.items())):
        start, end = times[stamp]
        reading = Reading("s1.dfw07", "dfw07", "dfw", stamp * SECOND, start, end, "ok", values=values)
        for row in counting.samples(reading).iter_rows(named=True):
            expected = truth[row["counter"], stamp] if number else None
            assert (row["value"], row["quality"]) == (expected, "ok")
            compared += expected is not None
    assert compared == 16 * 29
