"""`whydrop study discards streams`: speeds of tests of several connections before and after a change."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import whydrop as api
from small_stores import DAY, SECOND, Row, download, write
from studies.test_tcp_study import connection
from whydrop.cli.commands import whydrop
from whydrop.store.engines import open_backend
from whydrop.studies.discards import multi_stream, results
from whydrop.studies.discards.parameters import Days, Parameters

SETTINGS = [
    'metros=["dfw"]', "days.first=2018-02-11", "days.last=2018-02-16", "change.more_tests_than=1",
    "change.before={first=2018-02-11,last=2018-02-13}", "change.after={first=2018-02-14,last=2018-02-16}",
]  # fmt: skip


def streams(client: str, start_ns: int, mbps: float, number: int, count: int = 3, length_s: int = 10) -> list[Row]:
    """A test of so many connections, each sampled once at its end."""
    each = round(mbps * 1e6 / 8 * length_s / count)
    return [
        row | {
            "acked_bytes": each, "received_bytes": 0, "remote_address": client, "time_ns": row["time_ns"] + start_ns,
            "elapsed_ns": length_s * SECOND, "site": "dfw01", "local_port": 5000 + number,
            "test_id": f"{number}-{port}",
        }
        for port in range(count)
        for row in connection(port, samples=1)
    ]  # fmt: skip


def store(folder: Path, gain: float, count: int = 3, ndt_gain: float | None = None) -> Path:
    """Clients with two tests a day, from the fourth day on ``gain`` times as fast; by NDT ``ndt_gain`` times."""
    chance = np.random.default_rng(7)
    tcp: list[Row] = []
    single: list[Row] = []
    number = 0
    for client in range(40):
        usual = 20 + 60 * chance.random()
        for day in range(6):
            for hour in range(2):
                at, address = day * DAY + (hour * 3600 + client * 60) * SECOND, f"192.0.2.{client}"
                factor = float(chance.lognormal(0, 0.05))
                tcp += streams(address, at, usual * factor * (gain if day >= 3 else 1), number, count)
                own = usual * factor * ((gain if ndt_gain is None else ndt_gain) if day >= 3 else 1)
                single.append(
                    download(at, 10.0, address, test_id=str(number), acked_bytes=round(own * 1e6 / 8 * 10 / 4))
                )
                number += 1
    return write(folder / "store", ndt=single, tcp=tcp)


def found(folder: Path, gain: float, **more: Any) -> multi_stream.MultiStream:
    return api.study_streams(store(folder, gain, **more), settings=SETTINGS)


def conclusions(frame: pl.DataFrame) -> dict[str, str]:
    return {row["statistic"]: row["conclusion"].removesuffix(results.UNSURE) for row in frame.iter_rows(named=True)}


def test_speeds_of_all_connections_together_are_compared(tmp_path: Path) -> None:
    both = found(tmp_path, 1.5)
    assert conclusions(both.comparisons) == {"mean": "faster", "max": "faster"}
    (row,) = both.comparisons.filter(statistic="mean").to_dicts()
    assert (row["before"], row["after"]) == (40, 40)
    assert row["ratio"] == pytest.approx(1.5, rel=0.03)
    assert both.client_speeds["tests"].unique().to_list() == [6]
    assert both.agreement["agreement"].to_list() == ["agree"]


def test_both_kinds_of_tests_may_disagree(tmp_path: Path) -> None:
    both = found(tmp_path, 1.0, ndt_gain=1.5)
    assert both.agreement["agreement"].to_list() == ["disagree"]


def test_tests_of_one_connection_are_none_of_several(tmp_path: Path) -> None:
    single = found(tmp_path, 1.5, count=1)
    assert single.comparisons.is_empty()
    assert "no client of dfw has more than 1 tests of several connections" in single.notes[-1]


def of_one_client(folder: Path, *given: tuple[int, int, int]) -> list[dict[str, Any]]:
    """The tests that connections make; each by its start and its length in seconds, and its megabytes."""
    rows = [
        row | {
            "acked_bytes": megabytes * 1_000_000, "received_bytes": 1000, "remote_address": "192.0.2.1",
            "time_ns": row["time_ns"] + (start + length) * SECOND, "elapsed_ns": length * SECOND, "site": "dfw01",
            "local_port": 5000 + number, "test_id": str(number),
        }
        for number, (start, length, megabytes) in enumerate(given)
        for row in connection(number, samples=1)
    ]  # fmt: skip
    limits = Parameters.model_validate({"tests": {"least_duration_s": 1, "most_duration_s": 60}})
    days = Days(first=date(2018, 2, 11), last=date(2018, 2, 12))
    with open_backend(write(folder / "store", tcp=rows)) as backend:
        found = multi_stream.tests(backend, limits.model_copy(update={"metros": ()}), days)
    return found.select("streams", "speed_bps").to_dicts()


def test_a_sample_at_the_end_of_a_connection_says_when_it_began(tmp_path: Path) -> None:
    assert of_one_client(tmp_path, (0, 10, 20), (11, 2, 20)) == []
    assert of_one_client(tmp_path / "overlap", (0, 10, 20), (5, 15, 20)) == [{"streams": 2, "speed_bps": 16e6}]


def test_a_control_connection_is_no_stream(tmp_path: Path) -> None:
    assert of_one_client(tmp_path, (0, 12, 1), (1, 10, 20)) == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), min_size=1, max_size=12))
def test_connections_belong_to_one_test_where_a_chain_of_overlaps_joins_them(spans: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(
        {
            "site": "dfw01", "remote_address": "192.0.2.1", "start_ns": [start for start, _ in spans],
            "end_ns": [start + length for start, length in spans],
        }
    )  # fmt: skip
    numbered = multi_stream._numbered(frame)
    rows = numbered.select("start_ns", "end_ns", "test").rows()
    for start, end, test in rows:
        for other_start, other_end, other in rows:
            if start < other_end and other_start < end:
                assert test == other
    busy = {test: sorted((start, end) for start, end, own in rows if own == test) for _, _, test in rows}
    for intervals in busy.values():
        reach = intervals[0][1]
        for start, end in intervals[1:]:
            assert start < reach
            reach = max(reach, end)


def test_the_command_says_whether_both_agree_and_json_has_the_rows(tmp_path: Path) -> None:
    asked = ["study", "discards", "streams", str(store(tmp_path, 1.5))]
    asked += [word for setting in SETTINGS for word in ("--set", setting)]
    said = CliRunner().invoke(whydrop, asked)
    assert said.exit_code == 0, said.output
    assert "Tests of several connections and of one agree at dfw01." in said.output
    document = json.loads(CliRunner().invoke(whydrop, [*asked, "--json"]).stdout)
    assert document["agreement"][0]["agreement"] == "agree"
    assert len(document["comparisons"]) == 2


def test_bigquery_and_the_published_definitions_are_refused() -> None:
    for word in ("--as-published", "--backend=bigquery:payer"):
        assert CliRunner().invoke(whydrop, ["study", "discards", "streams", "x", word]).exit_code == 2
