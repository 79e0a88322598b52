"""`whydrop study discards pauses`: pause frames beside the speed of downloads and discards."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import stats

import whydrop as api
from small_stores import BIN, DAY, SECOND, Row, download, sample, series, write
from whydrop.cli.commands import whydrop
from whydrop.studies.discards import pauses, pauses_figures

SETTINGS = [
    "--set", 'metros=["dfw"]', "--set", "days.first=2018-02-11", "--set", "days.last=2018-04-30",
    "--set", "change=false",
]  # fmt: skip


def found(store: Path) -> pauses.Pauses:
    return api.study_pauses(store, settings=SETTINGS[1::2])


def ordinals(days: int) -> Any:
    return np.arange(days, dtype=np.int64) + date(2018, 2, 11).toordinal()


def slowed(folder: Path, days: int = 40) -> Path:
    """A site where downloads are slower on days with more received pause frames; none are sent."""
    chance = np.random.default_rng(4)
    counters: list[Row] = []
    tests: list[Row] = []
    for day in range(days):
        level = float(round(100 * chance.random()))
        counters += [sample("pause.rx", day * DAY + BIN, level), sample("pause.tx", day * DAY + BIN, 0.0)]
        counters += [sample("discards.tx", day * DAY + BIN, 1.0), sample("unicast.tx", day * DAY + BIN, 1e6 + day)]
        tests += [
            download(day * DAY + client * 60 * SECOND, 10.0 + level / 10 + chance.random(), f"192.0.2.{client}",
                     test_id=f"{day}-{client}")
            for client in range(5)
        ]  # fmt: skip
    return write(folder, counters, tests)


def test_days_have_rates_by_direction_beside_speeds_and_discards(tmp_path):
    rows = series("pause.rx", [10.0, 30.0]) + series("pause.tx", [5.0]) + series("discards.tx", [2.0, 0.0])
    rows += series("unicast.tx", [100.0, 100.0]) + series("pause.rx", [1.0], start=DAY)
    # Another machine saw less of the port; another switch has pause frames of its own.
    rows += series("pause.rx", [999.0], machine="mlab2") + series("pause.rx", [20.0], switch="s2.dfw01")
    rows += [*series("pause.rx", [50.0], port="local"), sample("pause.rx", 3 * BIN, None)]
    first, second = found(write(tmp_path / "store", rows, [download(0, 10.0)])).days.to_dicts()
    assert first == {
        "metro": "dfw", "site": "dfw01", "day": "2018-02-11", "rx_per_s": 4.0, "tx_per_s": 0.5, "speed_bps": 8e6,
        "discard_ratio": 0.01,
    }  # fmt: skip
    # What was not counted on a day is unknown, not zero.
    assert (second["rx_per_s"], second["tx_per_s"], second["speed_bps"], second["discard_ratio"]) == (
        0.1,
        None,
        None,
        None,
    )


def test_the_correlation_is_spearmans():
    chance = np.random.default_rng(1)
    x, y = chance.random(40), chance.random(40)
    x[:12] = 0.0  # equal ranks
    row = pauses.correlation(ordinals(40), x, y)
    assert row["rho"] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert row["low"] < row["rho"] < row["high"]
    assert 2 < row["effective_days"] <= 40


def test_slow_days_with_pause_frames_are_found_and_what_does_not_vary_is_unknown(tmp_path):
    result = found(slowed(tmp_path / "store"))
    rows = {(row["direction"], row["measure"]): row for row in result.correlations.iter_rows(named=True)}
    assert rows["rx", "speed"]["conclusion"] == "lower"
    assert rows["rx", "speed"]["rho"] < -0.9
    assert rows["tx", "speed"]["conclusion"] == "unknown"
    assert rows["tx", "speed"]["why"] == "pause frames are 0 on all days"
    assert rows["rx", "discards"]["conclusion"] == "undecided"


@pytest.mark.parametrize(
    ("x", "y", "why"),
    [
        ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], "fewer than 5 days have both"),
        ([7.0] * 9, list(range(9)), "pause frames are the same on all days"),
        (list(range(9)), [0.0] * 9, "the measure is 0 on all days"),
        (list(range(9)), list(range(9)), "the days depend on each other too much: fewer than 5 are independent"),
    ],
)
def test_what_cannot_be_known_says_why(x, y, why):
    row = pauses.correlation(ordinals(len(x)), np.array(x, dtype=float), np.array(y, dtype=float))
    assert (row["conclusion"], row["why"], row["p"]) == ("unknown", why, None)


@pytest.mark.slow
@pytest.mark.parametrize("dependence", [0.0, 0.5, 0.7])
@pytest.mark.parametrize("true", [0.0, 0.6])
def test_intervals_hold_the_true_correlation_where_days_depend_on_each_other(dependence, true):
    chance = np.random.default_rng(7)
    held, alarms, runs = 0, 0, 300
    for _ in range(runs):
        noise = chance.normal(size=(2, 60))
        for day in range(1, 60):
            noise[:, day] = dependence * noise[:, day - 1] + math.sqrt(1 - dependence**2) * noise[:, day]
        x, y = noise[0], true * noise[0] + math.sqrt(1 - true**2) * noise[1]
        row = pauses.correlation(ordinals(60), np.exp(x), np.exp(y))
        ranked = 6 / math.pi * math.asin(true / 2)  # Spearman's of normal values
        held += row["low"] <= ranked <= row["high"]
        alarms += true == 0.0 and row["p"] < 0.01
    assert held / runs >= 0.92, held / runs
    assert alarms / runs <= 0.02, alarms / runs


# The command


def test_the_command_says_what_it_found_and_json_has_the_same(tmp_path):
    store = slowed(tmp_path / "store")
    text = CliRunner().invoke(whydrop, ["study", "discards", "pauses", str(store), *SETTINGS])
    assert text.exit_code == 0, text.output
    assert "dfw01: speeds are lower on days with more pause frames received by the switch." in text.output
    assert "Unknown, because pause frames are 0 on all days: dfw01 (tx, speed), dfw01 (tx, discards)." in text.output
    done = CliRunner().invoke(whydrop, ["study", "discards", "pauses", str(store), *SETTINGS, "--json"])
    document = json.loads(done.stdout)
    assert len(document["days"]) == 40
    assert [row["rho"] for row in document["correlations"]] == found(store).correlations["rho"].to_list()


def test_a_store_without_pause_counters_is_unknown_with_the_reason(tmp_path):
    store = write(tmp_path / "store", series("discards.tx", [1.0]), [download()])
    done = CliRunner().invoke(whydrop, ["study", "discards", "pauses", str(store), *SETTINGS])
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert "is unknown: the store has no values of the counters pause.rx and pause.tx of the port 'uplink'" in said


def test_published_definitions_are_refused(tmp_path):
    store = write(tmp_path / "store", series("discards.tx", [1.0]))
    done = CliRunner().invoke(whydrop, ["study", "discards", "pauses", str(store), "--as-published"])
    assert done.exit_code == 2
    assert "the report has no pause frames" in done.output


@pytest.mark.slow
def test_a_folder_has_the_tables_a_page_and_a_point_for_each_day(tmp_path: Path) -> None:
    store = slowed(tmp_path / "store")
    given = [
        "study",
        "discards",
        "pauses",
        str(store),
        *SETTINGS,
        "-o",
        str(tmp_path / "out"),
        "-f",
        "html,svg,parquet",
    ]
    asked = CliRunner().invoke(whydrop, given)
    assert asked.exit_code == 0, asked.output
    days = pl.read_parquet(tmp_path / "out/tables/days.parquet")
    pictures = pauses_figures.figures(found(store))
    assert list(pictures) == ["speeds", "discards"]
    received, sent = pictures["speeds"].panels[0].layers
    assert received.data["x"].to_list() == days["rx_per_s"].to_list()
    assert set(sent.data["x"]) == {0.0}
    assert "Each point is a day" in (tmp_path / "out/figures/speeds.svg").read_text()
    assert "Pause frames and speeds of downloads" in (tmp_path / "out/report.html").read_text()


def test_formats_without_a_folder_are_refused() -> None:
    asked = CliRunner().invoke(whydrop, ["study", "discards", "pauses", "x", "-f", "png"])
    assert asked.exit_code == 2
    assert "give --output DIR too" in asked.output


def test_a_picture_of_many_sites_says_how_many_it_leaves_out() -> None:
    days = pl.DataFrame(
        [
            {"metro": "dfw", "site": f"dfw{site:02}", "day": f"2018-02-{day:02}", "rx_per_s": 1.0 * day,
             "tx_per_s": None, "speed_bps": 1e6, "discard_ratio": None}
            for site in range(15)
            for day in range(1, 4)
        ],
        schema=pauses.DAYS,
    )  # fmt: skip
    (picture,) = pauses_figures.figures(pauses.Pauses(days, pl.DataFrame(schema=pauses.CORRELATIONS), [])).values()
    assert picture.subtitle == "36 days of 12 sites"
    assert "Not drawn: 3 sites with fewer days." in picture.notes
