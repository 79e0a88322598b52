"""Tests of the states of ports: what a store and the database of a running collector say of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from keeper_child import START as FIRST
from keeper_child import reading

import small_stores
import whydrop
from small_stores import BIN, SECOND, START, series
from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.keeper import MINUTE_NS, Keeper
from whydrop.store.store import Store
from whydrop.store.tables import POLLS


def polls(folder: Path, statuses: list[str], switch: str = "s1.dfw01") -> None:
    """Polls every ten seconds from the beginning on, the last of which have these results."""
    rows: list[dict[str, Any]] = [
        {
            "due_ns": START + (number + 1) * BIN,
            "switch": switch,
            "status": status,
            "message": None if status == "ok" else "no reply",
        }
        for number, status in enumerate(statuses)
    ]
    Store.open(folder).write_part("polls", "2018-02-11", f"polls-{switch}", pl.DataFrame(rows, schema=POLLS))


def states(folder: Path, **options: Any) -> dict[str, str]:
    found = whydrop.port_states(folder, **options).ports
    return dict(found.select(pl.col("port"), pl.col("state")).iter_rows())


def test_discards_now_before_and_never_are_told_apart(tmp_path: Path):
    rows = [
        *series("discards.tx", [0.0] * 9 + [3.0], port="now"),
        *series("discards.tx", [3.0] + [0.0] * 9, port="before"),
        *series("discards.rx", [0.0] * 10, port="never"),
        *series("octets.tx", [1000.0] * 10, port="uncounted"),
        *series("discards.tx", [5.0] * 9 + [None], port="restarted", quality="reset"),
    ]
    folder = small_stores.write(tmp_path / "store", rows)
    assert states(folder) == {
        "now": "discarding", "before": "discarded before", "never": "no discards", "uncounted": "unknown",
        "restarted": "counters restarted",
    }  # fmt: skip
    # Of a shorter time, the discards of before are not among those counted.
    assert states(folder, window_s=50)["before"] == "no discards"


def test_rates_and_sums_are_those_of_the_samples_and_what_is_not_counted_is_null(tmp_path: Path):
    folder = small_stores.write(
        tmp_path / "store",
        [
            *series("octets.tx", [1000.0, 2500.0]),
            *series("discards.tx", [2.0, 5.0]),
            *series("discards.rx", [None, None]),
        ],
    )
    row = whydrop.port_states(folder).ports.row(0, named=True)
    assert (row["sent_bps"], row["received_bps"]) == (2000.0, None)
    assert (row["discards_tx"], row["discards_rx"], row["errors_tx"]) == (7.0, None, None)
    assert row["read_ns"] == START + 2 * BIN


def test_a_switch_that_does_not_answer_and_one_that_is_no_longer_polled_are_named(tmp_path: Path):
    rows = [*series("discards.tx", [0.0] * 50), *series("discards.tx", [0.0] * 5, switch="s1.lhr01", port="old")]
    folder = small_stores.write(tmp_path / "store", rows)
    polls(folder, ["ok"] * 45 + ["timeout"] * 5)
    polls(folder, ["ok"] * 5, "s1.lhr01")
    found = whydrop.port_states(folder)
    assert states(folder) == {"uplink": "no answer", "old": "not polled"}
    assert set(found.ports["message"]) == {"no reply", None}
    assert found.interval_s == 10


@pytest.mark.parametrize(("age_s", "is_written"), [(0, True), (140, True), (160, False), (86_400, False)])
def test_a_store_is_written_while_its_last_poll_is_recent(tmp_path: Path, age_s: int, is_written: bool):
    folder = small_stores.write(tmp_path / "store", series("octets.tx", [0.0] * 10))
    polls(folder, ["ok"] * 10)
    found = whydrop.port_states(folder, now_ns=START + 10 * BIN + age_s * SECOND)
    assert found.polled_ns == START + 10 * BIN
    assert found.is_written is is_written


def test_a_store_without_samples_has_no_ports(tmp_path: Path):
    Store.create(tmp_path / "store")
    found = whydrop.port_states(tmp_path / "store")
    assert (found.ports.height, found.polled_ns, found.is_written) == (0, None, False)
    with pytest.raises(whydrop.Error, match="no store"):
        whydrop.port_states(tmp_path)


def test_polls_that_a_running_collector_has_not_put_into_the_store_are_seen(tmp_path: Path):
    counting = Counting(10 * SECOND)
    with Keeper(tmp_path, "mlab2") as keeper:
        for tick in range(12):
            one = replace(reading(tick), status="ok")
            keeper.take(one, counting.samples(one))
        keeper.flush(FIRST + MINUTE_NS)
        assert not (tmp_path / "counters").exists()
        running = whydrop.port_states(tmp_path)
    stopped = whydrop.port_states(tmp_path)
    assert running.ports.height > 0
    assert running.polled_ns == stopped.polled_ns is not None
    assert running.ports.equals(stopped.ports)


def test_a_port_over_time_is_what_its_counters_grew_by(tmp_path: Path):
    rows = [
        *series("octets.tx", [1000.0, None, 3000.0]),
        *series("octets.tx", [9.0] * 3, port="other"),
        *series("octets.tx", [7.0], machine=None),
    ]
    folder = small_stores.write(tmp_path / "store", rows)
    found = whydrop.port_history(folder, "s1.dfw01", "uplink", "mlab1")
    assert found.rows() == [(START + BIN, "octets.tx", 100.0), (START + 3 * BIN, "octets.tx", 300.0)]
    assert whydrop.port_history(folder, "s1.dfw01", "uplink").height == 1
    assert whydrop.port_history(folder, "s1.dfw01", "none").height == 0


def test_a_long_time_has_a_thousand_points_and_the_same_growth(tmp_path: Path):
    folder = small_stores.write(tmp_path / "store", series("octets.tx", [float(number % 7) for number in range(5000)]))
    found = whydrop.port_history(folder, "s1.dfw01", "uplink", "mlab1", window_s=50_000)
    assert 990 <= found.height <= 1001
    assert found["per_second"].max() < 0.6
    assert found["per_second"].mean() == pytest.approx(0.3, abs=0.01)
