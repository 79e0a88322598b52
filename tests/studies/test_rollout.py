"""`whydrop study discards rollout`: stages of a change, each judged against the sites that were not changed."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import whydrop as api
from small_stores import DAY, SECOND, download, sample, series, write
from whydrop.cli.commands import whydrop
from whydrop.runtime.user_files.problems import FileError
from whydrop.studies.discards import changes_file, rollout
from whydrop.studies.discards.changes_file import Noted

# From 2018-02-11 on: one site on 2018-02-21, two more ten days later.
FIRST, SECOND_STAGE = date(2018, 2, 21), date(2018, 3, 3)
NOTED = [Noted(FIRST, "flow control on", "dfw01")] + [
    Noted(SECOND_STAGE, "flow control on", site) for site in ("dfw02", "dfw03")
]
SITES = [f"dfw{number:02d}" for number in range(1, 9)]


def fleet(folder: Path, effect: float = 0.01, speed: float = 1.6) -> Path:
    """Eight sites of a metro for 31 days; discards halve everywhere on the 20th day, whatever was changed."""
    chance = np.random.default_rng(3)
    counters, tests = [], []
    changed_on = {"dfw01": 10, "dfw02": 20, "dfw03": 20}
    for site in SITES:
        place = {"site": site, "switch": f"s1.{site}"}
        for day in range(31):
            after = site in changed_on and day >= changed_on[site]
            level = 4000.0 * np.exp(chance.normal(0, 0.2)) * (0.5 if day >= 20 else 1.0) * (effect if after else 1.0)
            for hour in range(1, 5):
                end = day * DAY + hour * 3600 * SECOND
                counters.append(sample("discards.tx", end, float(round(level)), span_ns=10 * SECOND, **place))
                counters.append(sample("unicast.tx", end, 1e7, span_ns=10 * SECOND, **place))
            for client in range(5):
                seconds = (20.0 / (speed if after else 1.0)) * np.exp(chance.normal(0, 0.05))
                start = day * DAY + client * 60 * SECOND
                tests.append(
                    download(
                        start, float(seconds), client=f"192.0.2.{client}", site=site, test_id=f"{day}-{site}-{client}"
                    )
                )
    return write(folder, counters, tests)


CHANGES = (
    "date,text,site\n2018-02-21,flow control on,dfw01\n2018-03-03,flow control on,dfw02\n"
    "2018-03-03,flow control on,dfw03\n"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fleet(tmp_path_factory.mktemp("rollout") / "store")


def asked(store: Path, changes: str, tmp_path: Path, *more: str) -> list[dict[str, object]]:
    file = tmp_path / "changes.csv"
    file.write_text(changes)
    settings = ["--set", "change.more_tests_than=3"]
    done = CliRunner().invoke(
        whydrop, ["study", "discards", "rollout", str(store), "--changes", str(file), *settings, "--json", *more]
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["stages"]


@pytest.mark.slow
def test_each_stage_is_judged_against_the_sites_that_were_not_changed(store, tmp_path):
    rows = asked(store, CHANGES, tmp_path, "--days", "9")
    assert [(row["day"], row["measure"], row["changed"], row["rest"], row["conclusion"]) for row in rows] == [
        ("2018-02-21", "discards", 1, 7, "fewer"),
        ("2018-02-21", "speed", 1, 7, "faster"),
        ("2018-03-03", "discards", 2, 6, "fewer"),
        ("2018-03-03", "speed", 2, 6, "faster"),
    ]
    of_second = rows[2]
    # What halved everywhere is no effect of the change.
    assert of_second["ratio_rest"] == pytest.approx(0.5, rel=0.2)
    assert of_second["low"] < 0.01 < of_second["high"]
    assert rows[1]["ratio"] == pytest.approx(1.6, rel=0.05)


@pytest.mark.slow
def test_a_change_of_all_sites_has_no_rest_and_is_not_called_the_reason(store, tmp_path):
    [discards, speed] = asked(store, "date,text,site\n2018-03-03,everything,\n", tmp_path, "--days", "9")
    assert (discards["conclusion"], speed["conclusion"]) == ("no-rest", "no-rest")
    assert (discards["changed"], discards["rest"], discards["ratio"], discards["p"]) == (8, 0, None, None)


@pytest.mark.slow
def test_sites_without_data_are_said_to_be_unknown(store, tmp_path):
    file = tmp_path / "changes.csv"
    file.write_text("date,text,site\n2018-02-21,typo,dfw77\n")
    done = CliRunner().invoke(whydrop, ["study", "discards", "rollout", str(store), "--changes", str(file)])
    assert done.exit_code == 1
    assert "Discards: unknown, as no changed site has 5 days with packets in both periods." in " ".join(
        done.output.split()
    )


@pytest.mark.slow
def test_python_gives_the_rows_of_the_command(store, tmp_path):
    rows = asked(store, CHANGES, tmp_path, "--days", "9")
    settings = ["change.more_tests_than=3"]
    found = api.study_rollout(store, tmp_path / "changes.csv", days=9, settings=settings)
    assert [(row["day"], row["measure"], row["ratio"]) for row in found.iter_rows(named=True)] == [
        (row["day"], row["measure"], pytest.approx(row["ratio"])) for row in rows
    ]


def test_stages_as_published_do_not_exist(tmp_path):
    (tmp_path / "changes.csv").write_text(CHANGES)
    given = ["study", "discards", "rollout", "x", "--changes", str(tmp_path / "changes.csv"), "--as-published"]
    done = CliRunner().invoke(whydrop, given)
    assert done.exit_code == 2
    assert "stages are judged by the corrected definitions only" in done.output


# Which sites are the rest


def test_sites_that_another_stage_changes_in_these_days_are_in_neither_group():
    planned = rollout.stages([*NOTED, Noted(date(2018, 6, 1), "later", "dfw08")])
    values = dict.fromkeys(SITES, ("dfw", 0.0))
    changed, rest = rollout.parted(planned[0], values, planned, 9)
    assert (set(changed), set(rest)) == ({"dfw01"}, set(SITES) - {"dfw01"})
    changed, rest = rollout.parted(planned[0], values, planned, 14)
    assert (set(changed), set(rest)) == ({"dfw01"}, set(SITES) - {"dfw01", "dfw02", "dfw03"})


def test_a_stage_of_all_others_leaves_those_of_long_before_as_the_rest():
    planned = rollout.stages([*NOTED, Noted(date(2018, 6, 1), "all the others", "")])
    changed, rest = rollout.parted(planned[2], dict.fromkeys(SITES, ("dfw", 0.0)), planned, 14)
    assert (set(changed), set(rest)) == (set(SITES[3:]), set(SITES[:3]))


def test_too_few_other_sites_give_no_ratio():
    row = rollout.compared({"a": ("dfw", -1.0)}, dict.fromkeys("bcd", ("dfw", 0.0)))
    assert (row["rest"], row["ratio"], row["ratio_changed"], row["p"]) == (3, None, 0.1, None)


@pytest.mark.slow
@pytest.mark.parametrize("of_metros", [False, True])
def test_a_change_without_an_effect_is_rarely_called_one(of_metros):
    """Sites of a metro share most of what changes them; a change of one or three sites of a metro has no effect."""
    chance = np.random.default_rng(11)
    runs, alarms = 2000, 0
    for _ in range(runs):
        metros = {metro: chance.normal(0, 0.3) for metro in range(8)}
        # With few sites in each metro, other metros are the rest.
        sites = 3 if of_metros else 7
        values = {
            f"{m}-{s}": (str(m), shared + chance.normal(0, 0.1)) for m, shared in metros.items() for s in range(sites)
        }
        changed = {site: value for site, value in values.items() if site in ("0-0", "0-1")}
        row = rollout.compared(changed, {site: value for site, value in values.items() if site not in changed})
        assert row["unit"] == ("metro" if of_metros else "site")
        alarms += row["p"] < 0.01
    assert alarms / runs < 0.017, alarms / runs


# The file


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no change: expected date,text,site"),
        ("day,what\n", "the first line has day, what; expected the columns date,text,site"),
        ("date,text,site\n26.2.2018,on,dfw02\n", r":2: date: '26\.2\.2018': expected a day such as 2018-02-26"),
        ("date,text,site\n2018-02-26,on, off,dfw02\n", ":2: 4 values: expected three, such as 2018-02-26,flow control"),
        ("date,text,site\n", "has no change"),
    ],
)
def test_mistakes_in_a_file_of_changes_have_their_line(tmp_path, text, told):
    file = tmp_path / "changes.csv"
    file.write_text(text)
    with pytest.raises(FileError, match=told):
        changes_file.read(file)


def test_a_file_of_changes_may_have_its_columns_in_any_order_and_comments(tmp_path):
    file = tmp_path / "changes.csv"
    file.write_text('﻿site,date,text\n# none\n,2018-03-03,"all, at once"\ndfw01, 2018-02-21,on\n', encoding="utf-8")
    assert changes_file.read(file) == [Noted(FIRST, "on", "dfw01"), Noted(SECOND_STAGE, "all, at once", "")]


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(FileError, match="No such file"):
        changes_file.read(tmp_path / "gone.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="not UTF-8"):
        changes_file.read(binary)


def test_changes_of_a_study_come_with_its_results_in_python_as_in_the_command(tmp_path: Path) -> None:
    file = tmp_path / "changes.csv"
    file.write_text("date,text,site\n2018-02-11,new switch,dfw01\n")
    store = write(tmp_path / "store", series("octets.tx", [1e6, 2e6]), [download(0)])
    (change,) = api.study(store, settings=['metros=["dfw"]', "change=false"], changes=file).noted
    assert (str(change.day), change.text, change.site) == ("2018-02-11", "new switch", "dfw01")
