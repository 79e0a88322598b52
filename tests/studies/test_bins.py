"""Figure 8: the share of time bins in which a switch discarded packets."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from small_stores import BIN, DAY, SECOND, Row, sample, series, write
from whydrop.formats.archives.ingesting import ingest
from whydrop.store.engines import open_backend
from whydrop.store.store import Store
from whydrop.studies.discards import bins, figures, queries, results, study
from whydrop.studies.discards.parameters import Days, Parameters

ARCHIVES = Path(__file__).parents[2].parent / "shared" / "data" / "mlab" / "disco"


def studied(store: Path, first: str = "2018-02-11", last: str = "2018-04-30") -> study.Results:
    days = Days(first=date.fromisoformat(first), last=date.fromisoformat(last))
    with open_backend(store) as backend:
        asked = Parameters(metros=(), days=days, change=None)
        return study.run(backend, asked, only=("discard_bin_days",))


def found(store: Path, **days: str) -> dict[tuple[str, str, str], tuple[int, int]]:
    rows = studied(store, **days).tables["discard_bins"].iter_rows(named=True)
    return {(row["site"], row["month"], row["direction"]): (row["bins"], row["with_discards"]) for row in rows}


def of(tmp_path: Path, rows: list[Row]) -> dict[tuple[str, str, str], tuple[int, int]]:
    return found(write(tmp_path / "store", rows))


# An independent count: plain JSON, without any code of whydrop.


def counted(files: list[Path]) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Bins and bins with discards of the uplink by site, month and direction.

    A file of the first generation is of one hour, and repeats the first window of the next one at its end. Of the first
    sample of a file of the second generation it is not known when the poll before it was.
    """
    every: Counter[tuple[str, str, str]] = Counter()
    some: Counter[tuple[str, str, str]] = Counter()
    for file in files:
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        place, decoder, rest = 0, json.JSONDecoder(), text.decode()
        while rest[place:].strip():
            place += len(rest[place:]) - len(rest[place:].lstrip())
            series_of_file, place = decoder.raw_decode(rest, place)
            kind = series_of_file["metric"].split(".")
            if kind[1:3] != ["discards", "uplink"]:
                continue
            site = re.search(r"[a-z]{3}\d\d", series_of_file["experiment"]).group()
            samples = series_of_file["sample"]
            for one in samples[:-1] if file.name.endswith("json.gz") else samples[1:]:
                month = datetime.fromtimestamp(one["timestamp"], UTC).strftime("%Y-%m")
                for when in (month, "all"):
                    key = (site, when, kind[3])
                    every[key] += 1
                    some[key] += one["value"] > 0
    return {key: (every[key], some[key]) for key in every}


@pytest.fixture
def archives() -> list[Path]:
    files = [ARCHIVES / "discov1-switch.json.gz", ARCHIVES / "discov2-switch.jsonl"]
    if not all(file.exists() for file in files):
        pytest.skip(f"{ARCHIVES}: M-Lab's archives are missing")
    return files


def test_the_bins_of_production_archives_are_those_of_an_independent_count(archives, tmp_path):
    ingest(Store.create(tmp_path / "store"), archives)
    wanted = counted(archives)
    assert sum(every for (_, month, _), (every, _) in wanted.items() if month == "all") == 2 * (360 + 29)
    assert found(tmp_path / "store", first="2016-01-01", last="2022-01-01") == wanted


def test_so_are_those_of_archives_whose_discards_are_other_packets_of_them(archives, tmp_path):
    # These switches discarded nothing in these minutes. Their multicast packets are as rare as discards are elsewhere.
    files = []
    for archive in archives:
        opened = gzip.decompress(archive.read_bytes()) if archive.suffix == ".gz" else archive.read_bytes()
        text = opened.decode().replace("switch.discards.", "switch.errors2.")
        text = text.replace("switch.broadcast.", "switch.discards.")
        file = tmp_path / archive.name
        file.write_bytes(gzip.compress(text.encode()) if archive.suffix == ".gz" else text.encode())
        files.append(file)
    wanted = counted(files)
    assert any(0 < some < every for every, some in wanted.values())
    ingest(Store.create(tmp_path / "store"), files)
    assert found(tmp_path / "store", first="2016-01-01", last="2022-01-01") == wanted


# Stores that can be counted by hand


def test_bins_are_counted_by_month_and_direction(tmp_path):
    rows = series("discards.tx", [0.0, 2.0, 0.0, 1.0]) + series("discards.rx", [0.0, 0.0, 5.0])
    rows += series("discards.tx", [1.0], start=30 * DAY) + series("discards.tx", [7.0], port="local")
    assert of(tmp_path, rows) == {
        ("dfw01", "2018-02", "tx"): (4, 2),
        ("dfw01", "2018-02", "rx"): (3, 1),
        ("dfw01", "2018-03", "tx"): (1, 1),
        ("dfw01", "all", "tx"): (5, 3),
        ("dfw01", "all", "rx"): (3, 1),
    }


def test_a_sample_after_a_gap_or_of_unknown_span_is_no_bin(tmp_path):
    rows = series("discards.tx", [0.0, 0.0, 1.0])
    rows += [sample("discards.tx", 9 * BIN, 4.0, span_ns=6 * BIN), sample("discards.tx", 10 * BIN, 4.0, span_ns=None)]
    rows += [sample("discards.tx", 11 * BIN, None), sample("discards.tx", 12 * BIN, 1.0, span_ns=BIN + 40_000_000)]
    assert of(tmp_path, rows)["dfw01", "all", "tx"] == (4, 2)


def test_of_machines_that_see_one_port_the_one_with_most_bins_counts_and_switches_are_added(tmp_path):
    rows = series("discards.tx", [1.0, 1.0]) + series("discards.tx", [0.0, 0.0, 1.0], machine="mlab2")
    rows += series("discards.tx", [1.0, 0.0], switch="s2.dfw01", machine=None)
    assert of(tmp_path, rows)["dfw01", "all", "tx"] == (5, 2)


def test_bins_shorter_than_a_second_are_taken_as_they_are(tmp_path):
    short = SECOND // 10
    rows = [
        sample("discards.tx", number * short + number % 3 * 1_000_000, float(number == 4), span_ns=short)
        for number in range(1, 9)
    ]
    rows += [sample("discards.tx", 2 * SECOND, 1.0, span_ns=3 * short)]  # two polls were missed
    [row] = studied(write(tmp_path / "store", rows)).tables["discard_bins"].filter(month="all").to_dicts()
    assert (row["bins"], row["with_discards"], row["bin_s"], row["share"]) == (8, 1, 0.1, 0.125)


def test_a_day_polled_more_often_has_bins_of_its_own_length(tmp_path):
    rows = series("discards.tx", [0.0] * 3) + [
        sample("discards.tx", DAY + number * SECOND, 1.0, span_ns=SECOND) for number in range(1, 6)
    ]
    assert of(tmp_path, rows)["dfw01", "all", "tx"] == (8, 5)


# Intervals


def by_length(shares: list[float], bins_of_day: int = 8640) -> pl.DataFrame:
    rows: list[dict[str, Any]] = [
        {
            "metro": "dfw", "site": "dfw01", "switch": "s1", "machine": "mlab1", "direction": "tx",
            "day": str(date(2018, 2, 1) + timedelta(days=number)), "bin_ns": 10 * SECOND, "bins": bins_of_day,
            "with_discards": round(share * bins_of_day), "discards": share * bins_of_day,
        }
        for number, share in enumerate(shares)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=results.DISCARD_BIN_DAYS)


def interval(shares: list[float]) -> tuple[float | None, float | None]:
    [row] = bins.discard_bins(by_length(shares)).filter(month="all").to_dicts()
    return row["low"], row["high"]


def test_few_days_or_none_with_discards_have_no_interval():
    assert interval([0.1] * 4) == (None, None)
    assert interval([0.0] * 28) == (None, None)


def test_days_that_depend_on_each_other_have_a_wider_interval():
    chance = np.random.default_rng(1)
    mixed = list(np.exp(chance.normal(-4, 1, 28)))
    low, high = interval(mixed)
    slow_low, slow_high = interval(sorted(mixed))
    assert low is not None
    assert slow_low is not None
    assert slow_low < low < high < slow_high


@pytest.mark.slow
@pytest.mark.parametrize("dependence", [0.0, 0.5, 0.7])
def test_intervals_hold_the_true_share_where_days_depend_on_each_other(dependence):
    chance = np.random.default_rng(7)
    held, runs = 0, 300
    for _ in range(runs):
        noise = np.zeros(60)
        for day in range(60):
            fresh = chance.normal()
            noise[day] = fresh if day == 0 else dependence * noise[day - 1] + np.sqrt(1 - dependence**2) * fresh
        low, high = interval(list(0.01 * np.exp(0.7 * noise - 0.7**2 / 2)))
        held += low is not None and low <= 0.01 <= high
    assert held / runs >= 0.92, held / runs


# The picture and the conclusion


def test_months_are_drawn_by_direction_and_empty_ones_on_the_line_of_zero(tmp_path):
    rows = series("discards.tx", [0.0, 2.0]) + series("discards.rx", [0.0, 0.0])
    rows += series("discards.tx", [1.0, 0.0], start=30 * DAY)
    drawn = figures.plot_frame(studied(write(tmp_path / "store", rows))).filter(figure="discard_bins")
    assert [(row["panel"], row["group"], row["y"]) for row in drawn.sort("x", "group").iter_rows(named=True)] == [
        ("dfw", "dfw01 rx", 0.0), ("dfw", "dfw01 tx", 0.5), ("dfw", "dfw01 tx", 0.5),
    ]  # fmt: skip
    assert drawn["x"].min() == datetime(2018, 2, 1, tzinfo=UTC).timestamp()


def test_the_query_is_one_of_the_study():
    assert "discard_bin_days" in queries.QUERIES
