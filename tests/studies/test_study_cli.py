"""`whydrop study discards`, as people and scripts call it."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

import small_stores
from whydrop.show import text_layout
from whydrop.show.document import Document
from whydrop.store.engines import open_backend
from whydrop.store.store import Store
from whydrop.studies.discards import changes, diagnosis, parameters, queries, results, study
from whydrop.studies.discards import document as documents
from whydrop.studies.discards.parameters import Parameters
from whydrop.studies.study_files import Folder, write_table

from .conftest import SmallFleet

CHOICE = (
    "--set", 'metros=["dfw","lga"]', "--set", "days.first=2018-02-01", "--set", "days.last=2018-02-06",
    "--set", "change.before={first=2018-02-01,last=2018-02-03}", "--set", "change.more_tests_than=3",
    "--set", "change.after={first=2018-02-04,last=2018-02-06}",
)  # fmt: skip


def whydrop(*arguments: object) -> Result:
    from whydrop.cli.commands import whydrop

    return CliRunner().invoke(whydrop, ["study", "discards", *map(str, arguments)])


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty.store"
    Store.create(folder)
    return folder


@pytest.fixture(scope="module")
def plain(small_fleet: SmallFleet) -> Result:
    return whydrop(small_fleet.store, *CHOICE)


def test_a_store_of_other_days_and_sites_is_studied_by_its_own(tmp_path: Path) -> None:
    later, at = 3000 * small_stores.DAY, {"metro": "ber", "site": "ber01"}
    counters = [
        row for name in ("octets.tx", "discards.tx", "unicast.tx")
        for row in small_stores.series(name, [1e6] * 60, later, **at)
    ]  # fmt: skip
    store = small_stores.write(tmp_path / "own", counters, [small_stores.download(later, **at)])
    found = json.loads(whydrop(store, "--json").stdout)
    assert found["parameters"]["days"] == {"first": "2026-04-30", "last": "2026-04-30"}
    assert (found["parameters"]["metros"], found["parameters"]["change"]) == ([], None)
    assert found["rows"]["utilisation"] == found["rows"]["download_speed"] == 1
    assert any("`whydrop study discards example` prints one" in note for note in found["notes"])
    chosen = json.loads(
        whydrop(store, "--json", "--set", "days.first=2026-04-29", "--set", "days.last=2026-05-01").stdout
    )
    assert chosen["parameters"]["days"] == {"first": "2026-04-29", "last": "2026-05-01"}
    assert chosen["parameters"]["metros"] == []


def test_study_alone_lists_the_studies() -> None:
    from whydrop.cli.commands import whydrop

    found = CliRunner().invoke(whydrop, ["study"])
    assert found.exit_code == 2
    assert "discards  Find whether discards" in found.output
    assert "tcp       Find what limits" in found.output


@pytest.mark.slow
def test_the_answer_and_the_tables_are_printed(plain: Result) -> None:
    assert plain.exit_code == 0, plain.stderr
    answer = plain.stdout
    # Three days a period are too few to say that discards changed.
    assert answer.startswith("Whether discards keep downloads slow at dfw does not follow from this change")
    heads = ("Clients' download speeds before and after the change", "Discards of switches before and after the change")
    for head in ("Sites", *heads):
        assert head in plain.stdout.splitlines()


def text_of(document: Document, width: int = 110) -> list[str]:
    return [
        "".join(span.text for span in line).rstrip() for line in text_layout.lines_of(document, text_layout.Page(width))
    ]


def test_what_tables_say_of_each_site_is_not_said_again_in_sentences() -> None:
    random = np.random.default_rng(1)
    names = [f"dfw{number:02d}" for number in range(40)]
    days = [f"2018-02-{day}" for day in range(11, 26)] + [f"2018-03-{day}" for day in range(11, 26)]
    rows = [
        {
            "metro": "dfw", "site": site, "day": day, "packets": 1e9, "samples": 8640, "ratio": None,
            "discards": (1e5 if day < "2018-03" else 10.0) * random.uniform(1, 2),
        }
        for site in names for day in days
    ]  # fmt: skip
    tables = {name: pl.DataFrame(schema=schema) for name, schema in results.TABLES.items()}
    tables["discard_changes"] = changes.discard_changes(pl.DataFrame(rows, results.DISCARD_RATIO), Parameters())
    printed = text_of(documents.document(study.Results(Parameters(), tables)))
    rows = [line for line in printed if line.startswith("  dfw") and "fewer" in line]
    assert len(rows) > 6
    assert printed.index("Discards of switches before and after the change") < 8
    assert len([line for line in printed if not line.startswith("  dfw")]) < 15, printed


@pytest.mark.slow
def test_numbers_of_a_table_stand_below_each_other(plain: Result) -> None:
    lines = plain.stdout.splitlines()
    head, *rows = lines[lines.index("Sites") + 1 :][:4]
    assert [row.split()[0] for row in rows] == ["dfw01", "dfw02", "lga01"]
    assert {len(line) for line in (head, *rows)} == {len(head)}


@pytest.mark.slow
def test_json_is_one_document_that_backs_the_sentences(small_fleet: SmallFleet) -> None:
    found = whydrop(small_fleet.store, *CHOICE, "--json")
    document = json.loads(found.stdout)
    assert found.exit_code == 0
    assert document["parameters"]["change"]["more_tests_than"] == 3
    assert {row["site"] for row in document["tables"]["comparisons"]} <= {"dfw01", "dfw02"}
    assert sum(document["tests"].values()) == document["rows"]["contacts"]
    assert document["summary"][0].startswith("Whether discards")
    spread = document["tables"]["client_spread"]
    assert {row["period"] for row in spread} == {"before", "after"}
    assert all(0 < row["min_bps"] < row["mean_bps"] < row["max_bps"] and 0 < row["cv"] < 2 for row in spread)


@pytest.mark.slow
def test_as_published_says_so_and_uses_the_published_limit(small_fleet: SmallFleet) -> None:
    found = whydrop(small_fleet.store, *CHOICE, "--as-published", "--json")
    document = json.loads(found.stdout)
    assert document["parameters"]["tests"]["most_duration_s"] == 600
    assert document["summary"][0].startswith("As published")
    assert set(document["tests"]) <= {"zero", "non-zero"}


@pytest.mark.slow
def test_output_writes_the_tables_and_nothing_that_was_not_asked_for(small_fleet: SmallFleet, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    found = whydrop(small_fleet.store, *CHOICE, "--output", folder, "--format", "parquet")
    assert found.exit_code == 0, found.stderr
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".parquet", ".json"}
    written = pl.read_parquet(folder / "tables" / "discard_ratio.parquet")
    assert written.schema == pl.Schema(results.DISCARD_RATIO)
    assert f"Study: {folder} (" in found.stdout


# --- the list of tests ---


def test_every_test_is_listed_with_its_true_class(small_fleet: SmallFleet) -> None:
    found = whydrop("tests", small_fleet.store, *CHOICE)
    listed = pl.read_csv(io.StringIO(found.stdout))
    assert listed.columns == list(results.CONTACTS)
    assert set(listed["class"]) == {"zero", "non-zero", "unknown"}


@pytest.mark.slow
def test_the_list_is_the_same_in_every_format(small_fleet: SmallFleet, tmp_path: Path) -> None:
    path = tmp_path / "tests.parquet"
    arguments = ("tests", small_fleet.store, *CHOICE, "--class", "non-zero", "--format")
    assert whydrop(*arguments, "parquet", "--output", path).stdout == ""
    parquet = pl.read_parquet(path)
    document = json.loads(whydrop(*arguments, "json").stdout)
    assert [row["test_id"] for row in document] == parquet["test_id"].to_list()
    assert pl.read_csv(io.StringIO(whydrop(*arguments, "csv").stdout)).height == parquet.height > 0
    assert set(parquet["class"]) == {"non-zero"}


# --- what is missing ---


def test_an_empty_store_is_reported_figure_by_figure_and_ends_with_1(empty: Path) -> None:
    found = whydrop(empty)
    assert found.exit_code == 1
    said = " ".join(found.stdout.split())
    assert (
        "Figure 1, utilisation: nothing to show: the store holds no counters of switches; `whydrop store import`"
        in said
    )
    assert "Figure 2, download speed: nothing to show: the store holds no NDT tests; `whydrop store import`" in said


@pytest.mark.slow
def test_without_tests_the_switches_figures_are_made(small_fleet: SmallFleet, tmp_path: Path) -> None:
    part = tmp_path / "part.store"
    part.mkdir()
    (part / "whydrop-store.json").write_bytes((small_fleet.store / "whydrop-store.json").read_bytes())
    (part / "counters").symlink_to(small_fleet.store / "counters")
    found = whydrop(part, *CHOICE, "--json")
    document = json.loads(found.stdout)
    assert found.exit_code == 0
    assert document["rows"]["utilisation"] > 0
    assert document["rows"]["download_speed"] == 0
    assert set(document["facts"]["missing"]) >= {"download_speed", "retransmission_ratio", "client_speeds", "contacts"}


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ('metros=["ams"]', "no counters of switches of metro 'ams' (it has 'dfw', 'lga')"),
        ("days={first=2020-01-01,last=2020-02-01}",
         "no counters of switches of days 2020-01-01 to 2020-02-01 (it has days 2018-02-01 to 2018-02-06)"),
        ('port="downlink"', "no counters of switches of port 'downlink' (it has 'uplink')"),
    ],
)  # fmt: skip
def test_what_the_store_lacks_is_named_beside_what_it_has(small_fleet: SmallFleet, setting: str, reason: str) -> None:
    with open_backend(small_fleet.store) as backend:
        found = diagnosis.why_empty(backend, parameters.read(None, (*CHOICE[1::2], setting)), "utilisation")
    assert found == f"the store holds {reason}"


@pytest.mark.slow
def test_a_figure_that_fails_keeps_no_other_from_being_made(
    small_fleet: SmallFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setitem(queries.QUERIES, "utilisation", fails)
    found = whydrop(small_fleet.store, *CHOICE, "--json")
    document = json.loads(found.stdout)
    assert found.exit_code == 1
    assert document["rows"]["discard_ratio"] > 0
    assert "Figure 1, utilisation could not be computed: disk on fire." in document["notes"]


@pytest.mark.slow
def test_the_example_is_a_file_that_the_study_takes(small_fleet: SmallFleet, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(whydrop("example").stdout)
    assert whydrop("tests", small_fleet.store, "--parameters", path).exit_code == 0


# --- wrong usage ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'STORE'."),
        (("s", "--format", "png"), "--format chooses what --output writes: give --output DIR too."),
        (("s", "--output", "o", "--format", "gif"), "--format: 'gif': expected some of png, svg, pdf, html, "),
        (("tests", "s", "--output", "none/tests.csv"), "--output: there is no folder"),
        (("s", "--set", "seed=x"), "--set: seed: 'x': "),
        (("s", "--parameters", "none.toml"), "none.toml: No such file or directory; expected a file in TOML"),
    ],
)  # fmt: skip
def test_wrong_usage_is_refused_before_any_work(arguments: tuple[str, ...], message: str) -> None:
    found = whydrop(*arguments)
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.split())


def test_a_store_that_is_not_there_is_reported_in_one_line(tmp_path: Path) -> None:
    found = whydrop(tmp_path / "none.store")
    assert found.exit_code == 1
    assert len(found.stderr.splitlines()) == 1
    assert "none.store" in found.stderr


@pytest.mark.parametrize(("engine", "more"), [("oracle", ()), ("sprak://host", ()), ("oracle", ("watch",))])
def test_an_engine_that_is_unknown_is_wrong_usage(empty: Path, engine: str, more: tuple[str, ...]) -> None:
    found = whydrop(*more, empty, "--backend", engine)
    assert found.exit_code == 2
    assert f"no engine is called '{engine}': expected duckdb, spark" in " ".join(found.stderr.split())


def test_an_engine_that_computes_nothing_is_reported_in_one_line_and_replaces_no_file(
    small_fleet: SmallFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("no route to the engine")

    for name in queries.QUERIES:
        monkeypatch.setitem(queries.QUERIES, name, fails)
    earlier = tmp_path / "tests.csv"
    earlier.write_text("what was found yesterday")
    for arguments in ((), ("--json",), ("--output", tmp_path / "out"), ("tests", "--output", earlier)):
        listed = arguments[:1] == ("tests",)
        found = whydrop(*arguments[:listed], small_fleet.store, *CHOICE, *arguments[listed:])
        assert (found.exit_code, found.stdout, found.stderr) == (1, "", "whydrop: no route to the engine\n")
    assert earlier.read_text() == "what was found yesterday"


@pytest.mark.slow
def test_discards_that_could_not_be_computed_are_not_said_to_be_unmeasured(
    small_fleet: SmallFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError("disk on fire")

    for name in ("discard_ratio", "client_speeds"):
        monkeypatch.setitem(queries.QUERIES, name, fails)
    found = whydrop(small_fleet.store, *CHOICE)
    said = " ".join(found.stdout.split())
    assert found.exit_code == 1
    assert "is unknown: figure 3, discards, could not be computed." in said
    assert "Figure 3, discards could not be computed: disk on fire." in said
    assert "no switch was measured" not in said
    assert "no client has more than" not in said


# --- interruption ---


@pytest.mark.slow
def test_what_was_computed_before_an_interruption_is_kept(
    small_fleet: SmallFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(queries.QUERIES, "retransmission_ratio", interrupted)
    kept: dict[str, pl.DataFrame] = {}

    def keep(name: str, frame: pl.DataFrame) -> None:
        kept[name] = frame
        write_table(Folder(tmp_path), name, frame, "parquet")

    chosen = parameters.read(None, CHOICE[1::2])
    with open_backend(small_fleet.store) as backend, pytest.raises(KeyboardInterrupt):
        study.run(backend, chosen, keep=keep)
    assert list(kept) == ["utilisation", "download_speed", "discard_ratio"]
    assert pl.read_parquet(tmp_path / "tables" / "discard_ratio.parquet").equals(kept["discard_ratio"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("watch", [False, True])
def test_each_signal_ends_the_study_with_its_status_and_leaves_no_spill_folder(
    small_fleet: SmallFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, watch: bool
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("whydrop.cli.ending.status", lambda reason: getattr(reason, "status", 130))
    ours = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, signal.SIG_DFL) for one in ours}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spilled: list[Path] = []

    def comes(*_: object) -> None:
        spilled.extend(tmp_path.glob("whydrop-temporary-*"))
        # What the system does by itself would end the tests.
        assert callable(signal.getsignal(number))
        signal.raise_signal(number)

    monkeypatch.setitem(queries.QUERIES, "utilisation", comes)
    monkeypatch.setattr("whydrop.studies.discards.watch.look", comes)
    try:
        look = ("--now", "2018-02-06T00:00:00Z") if watch else ()
        found = whydrop(*(["watch"] if watch else []), small_fleet.store, *CHOICE, *look)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert found.exit_code == 128 + number, found.output
    assert len(spilled) == 1
    assert not list(tmp_path.glob("whydrop-temporary-*"))


@pytest.mark.slow
def test_ctrl_c_ends_the_study_and_says_where_its_tables_are(small_fleet: SmallFleet, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "whydrop", "study", "discards", small_fleet.store, *CHOICE, "--output", folder]
    # In the background of a script Ctrl-C is ignored, and would be by the study too: a handler is not inherited.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, before)
    while not list(folder.glob("tables/*.parquet")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    # It may have been quicker than the signal.
    assert process.returncode in (0, 130), said
    assert (folder / "tables" / "utilisation.parquet").exists()
    if process.returncode == 130:
        assert f"the results so far are in {folder}" in said
