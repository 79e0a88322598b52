"""`whydrop study tcp`: connections of samples, what limits them, intervals that hold, and its files."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from small_stores import DAY, SECOND, START, Row, write
from whydrop.cli.commands import whydrop
from whydrop.store.engines import open_backend
from whydrop.studies.tcp import analysis, queries, study

HELD = {
    analysis.NETWORK: {"busy_ns": 10, "receiver_limited_ns": 0, "send_buffer_limited_ns": 0},
    analysis.RECEIVE_WINDOW: {"busy_ns": 10, "receiver_limited_ns": 8, "send_buffer_limited_ns": 0},
    analysis.SEND_BUFFER: {"busy_ns": 10, "receiver_limited_ns": 1, "send_buffer_limited_ns": 8},
    analysis.APPLICATION: {"busy_ns": 3, "receiver_limited_ns": 0, "send_buffer_limited_ns": 0},
    analysis.MIXED: {"busy_ns": 10, "receiver_limited_ns": 4, "send_buffer_limited_ns": 3},
    analysis.SENDER: {"receiver_limited_ns": 1, "congestion_limited_ns": 2, "sender_limited_ns": 7},
    analysis.UNKNOWN: {},
}


def connection(
    number: int,
    limiter: str = analysis.NETWORK,
    *,
    start: int = 0,
    mbit_per_s: float = 8.0,
    samples: int = 5,
    **more: Any,
) -> list[Row]:
    """Samples of ten seconds; ``start`` in ns after `START`."""
    rows = []
    for step in range(samples):
        part = step / max(1, samples - 1)
        clocks = {name: round(seconds * part * SECOND) for name, seconds in HELD[limiter].items()}
        rows.append(
            {
                "time_ns": START + start + round(10 * part * SECOND), "test_id": f"test-{number}", "source": "tcp-info",
                "site": "ams01", "local_port": 443, "remote_address": f"192.0.2.{number}", "remote_port": 1000 + number,
                # They began before the first sample.
                "acked_bytes": 5_000 + round(10_000_000 * part), "received_bytes": 500,
                "sent_segments": 10 + round(1000 * part), "retransmitted_segments": 2 + round(20 * part),
                "srtt_ns": (20 + step) * 1_000_000, "min_rtt_ns": 20_000_000, **clocks, **more,
            }
        )  # fmt: skip
    return rows


def of_each() -> list[Row]:
    """A connection of each kind, and odd ones."""
    rows = [row for number, limiter in enumerate(HELD) for row in connection(number, limiter)]
    # One that receives more than it sends.
    rows += [row | {"received_bytes": row["acked_bytes"] * 9} for row in connection(20)]
    rows += connection(21, samples=1, elapsed_ns=4 * SECOND, acked_bytes=1_000_000)  # its last values alone
    rows += connection(22, site=None, remote_address=None, srtt_ns=None, sent_segments=None)
    rows += connection(24) + connection(25)
    rows += connection(23, remote_address="2001:db8:1:2::3", start=DAY)
    return rows


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tcp-study") / "a store", tcp=of_each())


@pytest.fixture(scope="module")
def described(store: Path) -> pl.DataFrame:
    with open_backend(store) as backend:
        return analysis.described(backend.run(queries.connections(backend))).sort("remote_port")


def of(described: pl.DataFrame, number: int) -> dict[str, Any]:
    return described.row(by_predicate=pl.col("remote_port") == 1000 + number, named=True)


@pytest.mark.parametrize(("number", "limiter"), list(enumerate(HELD)))
def test_what_limited_a_connection_for_most_of_its_time_is_named(described, number, limiter):
    assert analysis.LIMITERS[of(described, number)["limiter"]] == limiter


def test_of_a_connection_that_receives_more_than_it_sends_it_is_not_known(described):
    assert analysis.LIMITERS[of(described, 20)["limiter"]] == analysis.UNKNOWN


def test_what_a_connection_did_is_growth_between_its_samples(described):
    found = of(described, 0)
    assert found["throughput_bps"] == pytest.approx(8e6)
    assert found["retransmitted_share"] == pytest.approx(20 / 1000)
    assert found["mean_rtt_ms"] == pytest.approx(22.0)
    assert found["samples"] == 5


def test_of_one_sample_it_is_what_that_says_over_the_time_since_it_began(described):
    assert of(described, 21)["throughput_bps"] == pytest.approx(2e6)


def test_clients_networks_are_of_24_bits_and_48(described):
    assert of(described, 0)["network"] == "192.0.2.0/24"
    assert of(described, 23)["network"] == "2001:db8:1::/48"
    assert of(described, 22)["network"] is None


def test_days_and_sites_can_be_chosen(store):
    with open_backend(store) as backend:
        second = study.run(backend, study.Parameters(first=date(2018, 2, 12)))
        assert second.facts["connections"] == 1
        assert study.run(backend, study.Parameters(sites=("lhr01",))).facts["connections"] == 0


def test_a_network_of_a_few_connections_is_no_group(described):
    groups = analysis.limits(described).filter(pl.col("by") == "network")["group"].unique().to_list()
    assert groups == ["192.0.2.0/24"]


def frame_of(values: np.ndarray, clients: np.ndarray, held: np.ndarray) -> pl.DataFrame:
    """Connections of one site, as `analysis.described` has them."""
    frame = pl.DataFrame(
        {
            "throughput_bps": values, "mean_rtt_ms": values, "retransmitted_share": values, "client": clients,
            "limiter": held.astype(np.int8),
        }
    )  # fmt: skip
    frame = frame.with_columns(pl.lit(by).cast(pl.Categorical).alias(by) for by in analysis.BY)
    return frame.with_columns(pl.len().over(by, "client").cast(pl.Float64).alias(f"{by}_alike") for by in analysis.BY)


@pytest.mark.slow
@pytest.mark.parametrize(
    "alike", [0.0, 1.0], ids=["independent connections", "clients with connections that are alike"]
)
def test_intervals_hold_the_truth_however_much_a_clients_connections_are_alike(alike: float) -> None:
    noise = np.random.default_rng(5)
    held, inside = 0, 0
    for _ in range(100):
        clients = np.repeat(np.arange(150), noise.integers(1, 20, 150))
        own, shared = noise.normal(size=len(clients)), noise.normal(size=150)[clients]
        normal = np.sqrt(alike) * shared + np.sqrt(1 - alike) * own
        frame = frame_of(np.exp(normal), clients, (normal > 0.5244).astype(int))  # 30 %
        row = analysis.distributions(frame).row(0, named=True)
        inside += row["median_low"] <= 1.0 <= row["median_high"]
        window = (pl.col("by") == "all") & (pl.col("limiter") == analysis.RECEIVE_WINDOW)
        share = analysis.limits(frame).row(by_predicate=window, named=True)
        held += share["low"] <= 0.30 <= share["high"]
    # 95 % of 100, less three standard deviations.
    assert min(inside, held) >= 88


def days_of(values: np.ndarray) -> pl.DataFrame:
    """Daily medians of sites, a row of ``values`` each."""
    first = date(2018, 2, 11)
    rows = [
        {
            "site": f"s{site}", "day": str(first + timedelta(days=day)), "quantity": "throughput_bps",
            "connections": 100, "median": float(one),
        }
        for site, series in enumerate(values)
        for day, one in enumerate(series)
    ]  # fmt: skip
    return pl.DataFrame(rows)


def walk(noise: np.random.Generator, sites: int, days: int, kept: float) -> np.ndarray:
    """Logarithms of medians; of each day's deviation ``kept`` is left on the next."""
    series = np.zeros((sites, days))
    series[:, 0] = noise.normal(size=sites)
    for day in range(1, days):
        series[:, day] = kept * series[:, day - 1] + np.sqrt(1 - kept**2) * noise.normal(size=sites)
    return series


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.7])
def test_days_that_depend_on_each_other_are_no_change(kept: float) -> None:
    noise = np.random.default_rng(11)
    alarms = 0
    for _ in range(50):
        found = analysis.changes(days_of(np.exp(0.1 * walk(noise, 6, 28, kept))))
        alarms += bool((found["conclusion"] != "undecided").any())
    # 1 % is claimed of fleets of six sites; more than four of fifty would be no accident (1 in 10 000).
    assert alarms <= 4


def test_a_change_by_half_is_found_and_reported_with_its_interval() -> None:
    noise = np.random.default_rng(12)
    series = np.exp(0.05 * walk(noise, 3, 28, 0.3))
    series[1, 14:] *= 1.5
    found = {row["site"]: row for row in analysis.changes(days_of(series)).iter_rows(named=True)}
    assert [found[f"s{site}"]["conclusion"] for site in range(3)] == ["undecided", "higher", "undecided"]
    assert found["s1"]["low"] < 1.5 < found["s1"]["high"]


def test_too_few_days_are_no_ground_for_a_conclusion() -> None:
    (row,) = analysis.changes(days_of(np.array([[1.0, 1.0, 9.0, 9.0]]))).iter_rows(named=True)
    assert (row["ratio"], row["p"], row["conclusion"]) == (pytest.approx(9.0), None, "undecided")


def run(*words: str) -> Any:
    return CliRunner().invoke(whydrop, ["study", "tcp", *words])


def test_the_study_prints_the_answer_and_a_row_for_each_site(store):
    done = run(str(store))
    assert done.exit_code == 0, done.output
    assert "most of the time, of 13 connections" in done.stdout
    assert "ams01" in done.stdout
    assert "1 of the connections have no site: no group by site includes them." in " ".join(done.stdout.split())


def test_json_has_the_tables_but_those_of_networks(store):
    document = json.loads(run(str(store), "--json").stdout)
    assert (document["study"], document["facts"]["connections"]) == ("tcp", 13)
    assert {row["by"] for row in document["tables"]["limits"]} == {"all", "site", "day"}
    assert sum(row["connections"] for row in document["tables"]["limits"] if row["by"] == "all") == 13


@pytest.mark.slow
def test_a_folder_gets_figures_page_and_tables_and_no_markup_from_the_store(tmp_path: Path) -> None:
    rows = [row for number in range(30) for row in connection(number, site="<script>x")]
    store = write(tmp_path / "store", tcp=rows)
    done = run(str(store), "--output", str(tmp_path / "out"), "--format", "html,svg,csv")
    assert done.exit_code == 0, done.output
    names = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    assert {"report.html", "study.json", "figures/limits.svg", "tables/limits.csv", "tables/changes.csv"} <= names
    assert "<script>x" not in (tmp_path / "out" / "report.html").read_text()
    assert pl.read_csv(tmp_path / "out" / "tables" / "limits.csv")["connections"].max() == 30


def test_a_store_without_such_statistics_is_said_to_have_none(tmp_path: Path) -> None:
    done = run(str(write(tmp_path / "store", tcp=connection(0))), "--first", "2020-01-01")
    assert done.exit_code == 1
    assert "no statistics of TCP connections" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--first", "2020-01-02", "--last", "2020-01-01"), "--first (2020-01-02) is after --last (2020-01-01)"),
        (("--format", "html,gif"), "'gif': expected some of png"),
        (("--backend", "oracle"), "--backend"),
        (("--backend", "bigquery:mine"), "BigQuery has no table of samples"),
    ],
)
def test_a_wrong_command_line_says_what_was_expected(store, words, said):
    done = run(str(store), *words)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.needs_spark
@pytest.mark.slow
def test_spark_gives_the_same_numbers_as_duckdb(on_spark, store):
    with open_backend(store) as duckdb:
        wanted = study.run(duckdb, study.Parameters())
    found = study.run(on_spark, study.Parameters())
    assert found.facts["connections"] == wanted.facts["connections"] == 13
    for name, frame in wanted.tables.items():
        assert_frame_equal(found.tables[name], frame, rel_tol=1e-12, abs_tol=0)
