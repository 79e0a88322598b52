"""`whydrop study discards flow-control`: slow ports behind faster ones, and what else a pause would stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import whydrop as api
from small_stores import BIN, Row, sample, series, write
from whydrop.cli.commands import whydrop
from whydrop.studies.discards import flow_control

PLACE = ["--set", 'metros=["dfw"]', "--set", "days.first=2018-02-11", "--set", "days.last=2018-02-12",
         "--set", "change=false"]  # fmt: skip
SPEEDS = ["--set", "watch.port_speed_bps.uplink=1e9", "--set", "watch.port_speed_bps.local=10e9"]
# Octets of 1 Gbit/s in one sample.
GIGABIT = 1e9 / 8 * 10
BINS = 12
DISCARDS = [200.0 if number % 4 == 0 else 0.0 for number in range(BINS)]


def port(name: str, machine: str, entered: float, left: float, **more: Any) -> list[Row]:
    """Samples of a port; ``entered`` and ``left`` in Gbit/s."""
    counters = {
        "octets.rx": [entered * GIGABIT] * BINS, "octets.tx": [left * GIGABIT] * BINS, "discards.tx": [0.0] * BINS,
        "discards.rx": [0.0] * BINS, "pause.tx": [0.0] * BINS, "pause.rx": [0.0] * BINS,
    }  # fmt: skip
    counters |= {key.replace("_", "."): value for key, value in more.items()}
    return [
        row
        for counter, values in counters.items()
        if values is not None
        for row in series(counter, values, port=name, machine=machine)
    ]


def uplink(**more: Any) -> list[Row]:
    return port("uplink", "mlab1", 0.01, 0.5, **({"discards_tx": DISCARDS} | more))


def found(folder: Path, rows: list[Row], settings: list[str] = SPEEDS) -> flow_control.FlowControl:
    return api.study_flow_control(write(folder / "store", rows), settings=[*PLACE, *settings][1::2])


def test_a_slow_port_that_one_fast_port_feeds_is_a_candidate_and_a_pause_stops_nothing_else(tmp_path: Path) -> None:
    result = found(tmp_path, uplink() + port("local", "mlab1", 0.5, 0.01))
    (slow,), (feeder,) = result.ports.to_dicts(), result.feeders.to_dicts()
    assert (slow["port"], slow["conclusion"], slow["discards"]) == ("uplink", "candidate", 600.0)
    assert (slow["samples"], slow["with_discards"], slow["used"]) == (BINS, 3, 3)
    assert slow["utilisation"] == pytest.approx(0.5)
    assert (feeder["from_port"], feeder["entered_share"], feeder["pause_tx"]) == ("local", 1.0, 0.0)
    assert feeder["entered_bps"] == pytest.approx(5e8)
    assert (feeder["blocking"], feeder["elsewhere_low"], feeder["elsewhere_high"]) == ("alone", 0.0, 0.0)


def test_where_what_entered_also_left_elsewhere_a_pause_would_stop_that_too(tmp_path: Path) -> None:
    rows = uplink() + port("local", "mlab1", 0.8, 0.01) + port("local", "mlab2", 0.05, 0.35)
    result = found(tmp_path, rows)
    first, second = result.feeders.to_dicts()
    # Of 0.8 Gbit/s no more than 0.5 left by the uplink, and no more than 0.35 elsewhere.
    assert (first["from_machine"], first["blocking"]) == ("mlab1", "shared")
    assert first["elsewhere_low"] == pytest.approx(0.3 / 0.8, abs=0.01)
    assert first["elsewhere_high"] == pytest.approx(0.35 / 0.8)
    assert (second["from_machine"], second["blocking"]) == ("mlab2", "unknown")
    shares = {one["to_machine"]: one["left_share"] for one in result.left.to_dicts()}
    assert shares["mlab2"] == pytest.approx(0.35 / 0.86)


@pytest.mark.parametrize(
    ("rows", "settings", "conclusion", "why"),
    [
        (uplink() + port("local", "mlab1", 0.5, 0.01), SPEEDS[:2], "unknown", "no speed of local"),
        (uplink() + port("local", "mlab1", 0.5, 0.01), [], "unknown", "watch.port_speed_bps.uplink"),
        (uplink(), SPEEDS, "unknown", "no other port"),
        (uplink() + port("local", "mlab1", 0.5, 0.01, pause_tx=None), SPEEDS, "unknown", "not counted"),
        (uplink() + port("local", "mlab1", 0.5, 0.01, pause_tx=[9.0] * BINS), SPEEDS, "paused already", ""),
        (
            uplink() + port("local", "mlab1", 0.3, 0.01) + port("local", "mlab2", 0.2, 0.0),
            [*SPEEDS[:2], "--set", "watch.port_speed_bps.local=1e9"], "no faster port", "",
        ),
    ],
)  # fmt: skip
def test_what_the_counters_do_not_show_is_unknown(
    tmp_path: Path, rows: list[Row], settings: list[str], conclusion: str, why: str
) -> None:
    (slow,) = found(tmp_path, rows, settings).ports.to_dicts()
    assert slow["conclusion"] == conclusion
    assert why in slow["why"]


def test_a_rate_above_the_slow_ports_speed_shows_a_faster_port(tmp_path: Path) -> None:
    result = found(tmp_path, uplink() + port("local", "mlab1", 1.4, 0.01), SPEEDS[:2])
    assert result.ports["conclusion"].to_list() == ["candidate"]
    assert result.feeders["is_faster"].to_list() == [True]


def test_ports_that_were_read_at_other_times_tell_nothing(tmp_path: Path) -> None:
    late = [row | {"end_ns": row["end_ns"] + BIN // 3} for row in port("local", "mlab1", 0.5, 0.01)]
    (slow,) = found(tmp_path, uplink() + late).ports.to_dicts()
    assert (slow["used"], slow["conclusion"]) == (0, "unknown")
    assert "same time" in slow["why"]


def test_where_octets_come_from_ports_that_the_store_lacks_nobody_is_said_to_be_alone(tmp_path: Path) -> None:
    result = found(tmp_path, uplink() + port("local", "mlab1", 0.3, 0.01))
    (feeder,) = result.feeders.to_dicts()
    assert feeder["blocking"] == "unknown"
    assert "the store lacks" in feeder["why"]


def test_of_an_uplink_that_several_machines_read_one_reading_counts(tmp_path: Path) -> None:
    again = [row | {"machine": "mlab2"} for row in uplink()[:-1]]
    result = found(tmp_path, uplink() + again + port("local", "mlab1", 0.5, 0.01))
    assert result.ports["machine"].to_list() == ["mlab1"]
    assert result.feeders["from_port"].to_list() == ["local"]


def test_the_bounds_hold_whatever_goes_where() -> None:
    for seed in range(100):
        check_bounds(np.random.default_rng(seed))


def check_bounds(chance: np.random.Generator) -> None:
    """Random traffic between the ports of a switch that the store has all of, with discards where packets leave."""
    count = int(chance.integers(2, 6))
    # Octets from each port (rows) to each other; a switch sends nothing back.
    matrix = chance.exponential(1e9, (count, count)) * (chance.random((count, count)) < 0.6)
    np.fill_diagonal(matrix, 0.0)
    packets = chance.integers(0, 2000, (count, count)) * (matrix > 0)
    bytes_each = chance.integers(64, 9217)
    discarded = np.minimum(packets * bytes_each, matrix)
    sums = flow_control.Sums(used=1, with_discards=1)
    sums.used_sent = float((matrix - discarded)[:, 0].sum())
    sums.used_received = float(matrix[0].sum())
    # Of less than a packet nothing is discarded alone: the number rounds up.
    numbers = np.ceil(discarded / bytes_each)
    sums.used_discards = float(numbers[:, 0].sum())
    for number in range(1, count):
        values = {"octets.rx": float(matrix[number].sum()), "discards.rx": 0.0, "pause.tx": 0.0, "pause.rx": 0.0,
                  "octets.tx": float((matrix - discarded)[:, number].sum()),
                  "discards.tx": float(numbers[:, number].sum())}  # fmt: skip
        sums.others["m", f"p{number}"] = values | {f"samples of {name}": 1.0 for name in values}
    assert flow_control.imbalance(sums) == 0.0
    for number in range(1, count):
        entered = matrix[number].sum()
        if entered:
            low, high = flow_control.elsewhere(sums, ("m", f"p{number}"))
            truth = 1 - matrix[number][0] / entered
            assert low - 1e-9 <= truth <= high + 1e-9
            assert 0 <= low <= high <= 1


def test_the_command_says_which_way_packets_go_and_what_to_check_first(tmp_path: Path) -> None:
    rows = uplink() + port("local", "mlab1", 0.8, 0.01) + port("local", "mlab2", 0.05, 0.35)
    store = str(write(tmp_path / "store", rows))
    command = ["study", "discards", "flow-control", store, *PLACE, *SPEEDS]
    done = CliRunner().invoke(whydrop, command)
    said = " ".join(done.output.replace("\N{NO-BREAK SPACE}", " ").split())
    assert done.exit_code == 0
    assert "out by uplink (mlab1): 600 packets discarded in 3 of 12 samples" in said
    assert "A pause of local (mlab1) would also hold up other traffic (head-of-line blocking)" in said
    assert "local (mlab2) 41 %" in said
    assert "Check first" in said
    shown = json.loads(CliRunner().invoke(whydrop, [*command, "--json"]).stdout)
    assert [one["conclusion"] for one in shown["ports"]] == ["candidate"]
    assert {one["blocking"] for one in shown["feeders"]} == {"shared", "unknown"}


@pytest.mark.parametrize(("value", "status", "words"), [(0.0, 0, "No port"), (None, 1, "unknown")])
def test_without_discards_there_is_nothing_to_prevent_and_without_counts_nothing_is_known(
    tmp_path: Path, value: float | None, status: int, words: str
) -> None:
    store = str(write(tmp_path / "store", [sample("discards.tx", value=value), sample("octets.tx", value=1.0)]))
    done = CliRunner().invoke(whydrop, ["study", "discards", "flow-control", store, *PLACE])
    assert done.exit_code == status
    assert words in done.output


def test_a_store_without_names_of_sites_is_read_too(tmp_path: Path) -> None:
    rows = [row | {"site": None} for row in uplink() + port("local", "mlab1", 0.5, 0.01)]
    assert found(tmp_path, rows).ports["conclusion"].to_list() == ["candidate"]


def test_without_counts_of_discards_on_arrival_nothing_is_known_to_have_gone_elsewhere(tmp_path: Path) -> None:
    rows = uplink() + port("local", "mlab1", 0.8, 0.01, discards_rx=None) + port("local", "mlab2", 0.05, 0.35)
    feeder = found(tmp_path, rows).feeders.to_dicts()[0]
    assert (feeder["elsewhere_low"], feeder["blocking"]) == (0.0, "unknown")
    assert "discards.rx" in feeder["why"]
