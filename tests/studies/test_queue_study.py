"""`whydrop study queues`: cells, times to contain, differences, ranks and hypotheses of runs with known truth."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

from small_stores import write
from studies.made_queues import LAST_START_S, LOAD_S, Made, around, as_published, cell, metrics, recording, store_of
from whydrop import study_queues
from whydrop.cli.commands import whydrop
from whydrop.errors import Error
from whydrop.store.engines import open_backend
from whydrop.studies.queues import judging, ranking, sentences, study
from whydrop.studies.queues.measures import rate_bps
from whydrop.studies.queues.parameters import TAKEN, Parameters
from whydrop.studies.queues.study import Results


def studied(folder: Path, runs: list[Made], **parameters: Any) -> Results:
    with open_backend(store_of(folder / "store", runs)) as backend:
        return study.run(backend, Parameters(**parameters))


def conclusion(results: Results, key: str) -> str:
    return str(results.tables["hypotheses"].row(by_predicate=pl.col("hypothesis") == key, named=True)["conclusion"])


def median_of(results: Results, queue: str, metric: str, scene: str = "rrul") -> dict[str, Any]:
    found = results.tables["medians"].filter(queue=queue, metric=metric, scene=scene)
    assert found.height == 1
    return found.row(0, named=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    failed = Made("cake", 9, status="failed", failures=("tc: Unknown qdisc",))
    return store_of(tmp_path_factory.mktemp("queues") / "a store", [*as_published(count=3), failed])


@pytest.fixture(scope="module")
def published(store: Path) -> Results:
    with open_backend(store) as backend:
        return study.run(backend, Parameters())


def test_runs_that_come_out_as_published_support_the_findings(published):
    for key in ("good-aqm", "good-fq", "ugly-aqm", "ugly-fq", "since-fq", "rfc8290-flows"):
        assert conclusion(published, key) == "supported", key


def test_a_queue_that_no_run_has_is_not_measured(published):
    assert conclusion(published, "rfc9332-target") == "not measured"


def test_a_failed_run_is_left_out_with_its_reason_and_counted(published):
    row = published.tables["cells"].row(
        by_predicate=(pl.col("queue") == "cake") & (pl.col("line") == "10/10") & (pl.col("scene") == "rrul"), named=True
    )
    assert (row["runs"], row["used"], row["reasons"]) == (4, 3, "failed: tc: Unknown qdisc")
    assert "1 recording left out: failed: tc: Unknown qdisc." in published.notes


def test_an_aqm_that_is_not_five_times_better_contradicts_the_finding(tmp_path):
    runs = [*cell("pfifo_fast", around(100.0)), *cell("ared", around(60.0)), *cell("pie", around(10.0))]
    runs += cell("codel", around(8.0))
    found = studied(tmp_path, runs)
    assert conclusion(found, "good-aqm") == "contradicted"
    checks = found.tables["checks"].filter(hypothesis="good-aqm")
    assert dict(checks.select("queue", "conclusion").iter_rows()) == {
        "ared": "contradicted", "pie": "supported", "codel": "supported",
    }  # fmt: skip
    assert "Contradicted: ARED, PIE and CoDel each have an induced latency" in " ".join(sentences.hypotheses(found))


def test_runs_that_vary_too_much_leave_it_open(tmp_path):
    runs = [*cell("pfifo_fast", [50.0, 400.0, 120.0]), *cell("ared", [12.0, 30.0, 70.0])]
    runs += [*cell("pie", around(5.0, 3)), *cell("codel", around(5.0, 3))]
    assert conclusion(studied(tmp_path, runs), "good-aqm") == "open"


def test_a_finding_about_queues_of_which_one_is_missing_is_not_supported(tmp_path):
    runs = [*cell("pfifo_fast", around(400.0)), *cell("pie", around(10.0))]
    found = studied(tmp_path, runs)
    row = found.tables["hypotheses"].row(by_predicate=pl.col("hypothesis") == "good-aqm", named=True)
    assert (row["conclusion"], row["supported"], row["missing"]) == ("open", 1, "ared; codel")


def test_one_repetition_gives_medians_but_no_interval_no_rank_and_no_conclusion(tmp_path):
    runs = [Made("pfifo_fast", latency_ms=400.0), Made("pie", latency_ms=10.0)]
    found = studied(tmp_path, runs)
    row = median_of(found, "pie", "induced-latency")
    assert (row["median"], row["low"], row["high"]) == (10.0, None, None)
    assert row["method"].startswith("unknown")
    assert found.tables["ranks"].is_empty()
    assert conclusion(found, "good-aqm") == "open"
    assert "no ranking" in sentences.answer(found)[0]


def test_the_time_to_contain_is_from_the_last_start_until_the_delay_stays_low(tmp_path):
    runs = [Made("codel", number, contain_s=3.0, scene="transient") for number in (1, 2, 3)]
    row = median_of(studied(tmp_path, runs), "codel", "contain-time", "transient")
    # The first whole step at which the delay is low: steps begin 80 ms after the last start and every 100 ms then.
    assert row["median"] == pytest.approx(3.08)
    assert not row["censored"]


def test_a_delay_that_is_never_contained_is_a_lower_bound(tmp_path):
    runs = [Made("pfifo_fast", number, contain_s=None, scene="transient") for number in range(1, 8)]
    found = studied(tmp_path, runs)
    row = median_of(found, "pfifo_fast", "contain-time", "transient")
    # The last second cannot show one that begins in it.
    assert row["median"] == pytest.approx(LOAD_S - LAST_START_S - 1.0, abs=0.1)
    assert row["censored"]
    assert row["high"] is None
    counts = found.tables["containment"].row(0, named=True)
    assert (counts["runs"], counts["contained"], counts["above_share"]) == (7, 0, 1.0)


def test_bounds_count_as_late_in_the_median_of_runs(tmp_path):
    times = (1.0, 2.0, None, None, None)
    runs = [Made("pie", number + 1, contain_s=one, scene="transient") for number, one in enumerate(times)]
    row = median_of(studied(tmp_path, runs), "pie", "contain-time", "transient")
    assert row["censored"]
    assert row["median"] > 14


def test_a_fair_queue_that_takes_seconds_contradicts_that_it_does_not(tmp_path):
    runs = [
        Made(queue, number, contain_s=2.0 if queue == "sfq" else 0.0, scene="transient")
        for queue in ("sfq", "fq_codel", "fq_nocodel")
        for number in range(1, 9)
    ]
    found = studied(tmp_path, runs)
    assert conclusion(found, "ugly-fq") == "contradicted"
    checks = found.tables["checks"].filter(hypothesis="ugly-fq", decides=True)
    assert dict(checks.select("queue", "within").iter_rows()) == {"sfq": 0, "fq_codel": 8, "fq_nocodel": 8}


def test_a_baseline_can_be_chosen(tmp_path):
    runs = [*cell("bfifo", around(400.0)), *cell("ared", around(10.0)), *cell("pie", around(10.0))]
    found = studied(tmp_path, [*runs, *cell("codel", around(9.0))], baseline="bfifo")
    assert conclusion(found, "good-aqm") == "supported"


def test_variables_of_other_names_are_cells_too(tmp_path):
    runs = [
        Made(queue, number, latency, variables={"qdisc": queue, "queue": None, "place": "home"})
        for queue, values in (("cake", around(2.0)), ("pfifo_fast", around(90.0)))
        for number, latency in enumerate(values)
    ]
    found = studied(tmp_path, runs, queue="qdisc", strata=("place",))
    assert found.tables["medians"].select("place", "queue").unique().height == 2
    # Findings are stated for lines, congestion controls and scenes, which are not known here.
    assert set(found.tables["hypotheses"]["conclusion"]) == {"not measured"}
    assert sentences.answer(found)[0].startswith("Place home: CAKE has the lowest induced latency")


def test_a_variable_that_names_no_queues_is_refused(tmp_path):
    runs = [Made("cake", number, variables={"name": f"run {number}"}) for number in range(60)]
    done = run(str(store_of(tmp_path / "store", runs)), "--queue", "name")
    assert done.exit_code == 1
    assert "the variable 'name' has 60 values: expected the names of at most 50 queues" in done.stderr


def test_recordings_of_other_tests_are_left_out_with_the_reason(tmp_path):
    found = studied(tmp_path, [Made("cake"), Made("pie", variables={"queue": None})])
    assert found.facts["used"] == 1
    assert "1 recording left out: no variable 'queue'." in found.notes


def test_variables_that_are_no_json_are_no_cell(tmp_path):
    folder = store_of(tmp_path / "store", [Made("cake")])
    part = next((folder / "recordings").rglob("*.parquet"))
    pl.read_parquet(part).with_columns(variables=pl.lit("{" * 100)).write_parquet(part)
    with open_backend(folder) as backend:
        assert study.run(backend, Parameters()).facts["used"] == 0


def test_numbers_that_no_network_has_are_no_values(tmp_path):
    runs = [Made("cake", number, metrics={"goodput-down": 1e308, "goodput-up": float("inf")}) for number in (1, 2, 3)]
    known = set(studied(tmp_path, runs).tables["values"]["metric"])
    assert "induced-latency" in known
    assert not {"goodput-down", "goodput-up", "utilisation-down"} & known


def test_a_changed_copy_of_a_recording_is_no_second_run(tmp_path):
    runs = [*cell("cake", around(2.0, 3)), *cell("pie", around(20.0, 3))]
    made = store_of(tmp_path / "store", runs)
    rows = [{**recording(one), "recording": f"{number:064x}", "name": "copy"} for number, one in enumerate(runs)]
    copied = [{**row, "recording": f"{number:064x}"} for number, one in enumerate(runs) for row in metrics(one)]
    more = write(tmp_path / "copies", recordings=rows, metrics=copied)
    for table in ("recordings", "metrics"):
        for part in (more / table).glob("*/*.parquet"):
            part.rename(made / table / part.parent.name / f"copy-{part.name}")
    with open_backend(made) as backend:
        found = study.run(backend, Parameters())
    assert (
        found.tables["runs"]["left_out"].value_counts().filter(left_out="a changed copy of another recording").row(0)[1]
        == 6
    )
    assert found.facts["used"] == 6


def test_the_answer_counts_all_that_are_not_distinguished_and_says_why_there_is_no_ranking(tmp_path):
    queues = ("ared", "pie", "codel", "sfq", "cake", "fq_codel", "fq_pie")
    noise = np.random.default_rng(2)
    runs = [one for queue in queues for one in cell(queue, np.exp(0.3 * noise.normal(size=4)))]
    assert " and 2 more. No queue is distinguished" in " ".join(sentences.answer(studied(tmp_path / "a", runs)))
    alone = studied(tmp_path / "b", cell("cake", [2.0] * 6))
    assert sentences.answer(alone) == [
        "Line 10/10: only one queue was measured; median of induced latency: CAKE 2.00\xa0ms."
    ]
    same = studied(tmp_path / "c", [*cell("cake", [2.0] * 6), *cell("pie", [2.0] * 6)])
    assert "these runs do not show how runs vary" in sentences.answer(same)[0]
    unknown = [Made(queue, number, missing=("induced-latency",)) for queue in ("cake", "pie") for number in (1, 2, 3)]
    assert sentences.answer(studied(tmp_path / "d", unknown))[0].startswith("No run has an induced latency")


def test_a_name_that_no_table_could_show_is_left_out_with_the_reason(tmp_path):
    runs = [*cell("cake", around(2.0)), Made("cake", 9, variables={"line": "x" * 10_000, "rate_down": "1mbit"})]
    found = studied(tmp_path, [*runs, Made("y" * 101)])
    said = "variable '{}' has {} characters: expected a name of at most 100"
    reasons = found.tables["runs"]["left_out"].drop_nulls().to_list()
    assert sorted(reasons) == [said.format("line", 10_000), said.format("queue", 101)]
    assert found.tables["runs"]["line"].str.len_chars().max() == 100


def test_control_characters_and_markup_in_names_command_nothing(tmp_path):
    runs = [*cell("\x1b[31m<b>", around(5.0, 3)), *cell("cake", around(2.0, 3))]
    done = run(str(store_of(tmp_path / "store", runs)))
    assert "\x1b" not in done.stdout
    assert "\\x1b[31m<b>" in done.stdout


@pytest.mark.slow
def test_queues_that_are_the_same_are_seldom_found_to_differ():
    noise = np.random.default_rng(3)
    found = 0
    for _ in range(80):
        rows = [
            (f"{line}-{queue}-{number}", f"{line}/1", queue, number, line + shared + 0.1 * noise.normal())
            for line in (1, 2, 3)
            for number in (1, 2, 3)
            for shared in [0.2 * noise.normal()]
            for queue in ("cake", "codel", "pie", "sfq")
        ]
        columns = ["recording", "line", "queue", "repetition", "value"]
        frame = pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("value").exp(), seed=pl.lit(1))
        values = frame.select("recording", "value", metric=pl.lit("induced-latency"))
        made = ranking.ranks(frame.drop("value"), values, Parameters(strata=("line",)))
        found += made.filter(by="all")["rank"].max() > 1
    # 5 % by Holm's correction, with three standard deviations of 80 trials.
    assert found <= 80 * (0.05 + 3 * (0.05 * 0.95 / 80) ** 0.5)


def test_unknown_values_are_no_values(tmp_path):
    runs = [Made("cake", number, metrics={"mos": None if number < 3 else 4.0}) for number in (1, 2, 3)]
    assert median_of(studied(tmp_path, runs), "cake", "mos")["runs"] == 1


def test_utilisation_is_goodput_over_the_rate_and_drops_are_of_all_packets(tmp_path):
    found = studied(tmp_path, [Made("cake", line="10/5", metrics={"goodput-up": 4.0})])
    assert median_of(found, "cake", "utilisation-down")["median"] == pytest.approx(90.0)
    assert median_of(found, "cake", "utilisation-up")["median"] == pytest.approx(80.0)
    assert median_of(found, "cake", "drops-down")["median"] == pytest.approx(1.0)
    assert median_of(found, "cake", "marks-down")["median"] == pytest.approx(0.5)


def test_what_a_queue_had_counted_before_the_run_does_not_count(tmp_path):
    before = {"queue-down-before.sent_packets": 980.0, "queue-down-before.drops": 15.0}
    found = studied(tmp_path, [Made("cake", metrics=before)])
    assert median_of(found, "cake", "drops-down")["median"] == pytest.approx(100 * 5 / 1005)


def test_queues_that_cannot_be_distinguished_share_a_rank(tmp_path):
    runs = [*cell("cake", [1.5, 2.5, 1.8, 2.6]), *cell("fq_codel", [2.4, 1.6, 2.5, 1.7])]
    runs += cell("pie", [30.0, 31.0, 29.0, 30.5])
    found = studied(tmp_path, runs).tables["ranks"].filter(by="all", metric="induced-latency")
    assert dict(found.select("queue", "rank").iter_rows()) == {"cake": 1, "fq_codel": 1, "pie": 3}


def test_a_queue_that_varies_much_does_not_blur_two_that_vary_little(tmp_path):
    runs = [*cell("pie", [15.0, 200.0, 60.0, 30.0, 110.0, 45.0]), *cell("codel", [90.0, 25.0, 40.0, 130.0, 33.0, 20.0])]
    runs += [*cell("cake", around(1.4, 6, 0.02)), *cell("fq_codel", around(1.2, 6, 0.02))]
    found = studied(tmp_path, runs)
    ranks = found.tables["ranks"].filter(by="all", metric="induced-latency")
    assert dict(ranks.select("queue", "rank").iter_rows()) == {"fq_codel": 1, "cake": 2, "codel": 3, "pie": 3}
    row = ranks.row(by_predicate=pl.col("queue") == "cake", named=True)
    assert 1.1 < row["ratio_low"] < 1.4 / 1.2 < row["ratio_high"] < 1.25


@pytest.mark.slow
def test_a_ranking_does_not_take_the_noise_of_two_queues_for_that_of_all():
    noise = np.random.default_rng(5)
    spreads = {"pie": 0.65, "codel": 0.45, "cake": 0.04, "fq_codel": 0.02, "fq_pie": 0.03, "sfq": 0.04}
    found = 0
    for _ in range(80):
        rows = [
            (f"{queue}-{number}", "10/10", queue, number, math.exp(spread * noise.normal()))
            for queue, spread in spreads.items()
            for number in range(6)
        ]
        frame = pl.DataFrame(rows, schema=["recording", "line", "queue", "repetition", "value"], orient="row")
        frame = frame.with_columns(seed=pl.lit(1))
        values = frame.select("recording", "value", metric=pl.lit("induced-latency"))
        made = ranking.ranks(frame.drop("value"), values, Parameters(strata=("line",)))
        found += made.filter(by="all")["rank"].max() > 1
    # 5 % by Holm's correction, with three standard deviations of 80 trials.
    assert found <= 80 * (0.05 + 3 * (0.05 * 0.95 / 80) ** 0.5)


def test_pairs_of_repetitions_take_away_what_they_share(tmp_path):
    shared = [1.0, 3.0, 9.0, 20.0]
    runs = [*cell("cake", shared), *cell("pie", [one * (1.3 + 0.01 * place) for place, one in enumerate(shared)])]
    row = studied(tmp_path, runs).tables["differences"].filter(metric="induced-latency").row(0, named=True)
    assert (row["first"], row["second"], row["pairs"]) == ("pie", "cake", 4)
    assert row["conclusion"] == "better"
    assert row["ratio_low"] < 1 / 1.315 < row["ratio_high"]


@pytest.mark.parametrize(("runs", "conclusion"), [(5, "unknown"), (7, "worse")])
def test_differences_that_are_all_the_same_decide_from_six_on(tmp_path, runs, conclusion):
    made = [
        Made(queue, number, metrics={"fairness-down": share})
        for queue, share in (("codel", 0.9), ("cake", 0.8))
        for number in range(runs)
    ]
    row = studied(tmp_path, made).tables["differences"].filter(metric="fairness-down").row(0, named=True)
    assert (row["pairs"], row["conclusion"]) == (runs, conclusion)


def test_runs_of_other_seeds_are_no_pairs(tmp_path):
    runs = [*cell("cake", around(2.0)), *[Made("pie", number, 9.0 + number, seed=100 + number) for number in (1, 2, 3)]]
    row = studied(tmp_path, runs).tables["differences"].filter(metric="induced-latency").row(0, named=True)
    assert row["pairs"] == 0


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10mbit", 1e7), ("1gbit", 1e9), ("10Mbit/s", 1e7), ("8kbps", 64e3), ("9", 9.0), ("0mbit", None), ("x", None)],
)
def test_rates_are_read_as_tc_spells_them(text: str, rate: float | None) -> None:
    assert rate_bps(text) == rate


def run(*words: str) -> Any:
    return CliRunner().invoke(whydrop, ["study", "queues", *words])


def test_the_command_prints_the_answer_the_findings_and_the_cells(store):
    done = run(str(store))
    assert done.exit_code == 0, done.output
    text = " ".join(done.stdout.split())
    assert "CAKE has the lowest induced latency" in text
    assert "Supported: ARED, PIE and CoDel each have an induced latency at least 5 times lower" in text
    assert "Not measured: DualPI2" in text
    assert "> 14.9" in text.replace("\xa0", " ")


def test_json_says_what_the_command_says_and_python_too(store, published):
    document = json.loads(run(str(store), "--json").stdout)
    assert document["study"] == "queues"
    assert document["summary"] == sentences.summary(published)
    assert document["facts"]["used"] == published.facts["used"] == 2 * 9 * 3 * 3
    found = study_queues(store)
    assert_frame_equal(found.tables["medians"], published.tables["medians"])


def test_no_condition_has_the_name_of_a_column(published):
    columns = {name for frame in published.tables.values() for name in frame.columns}
    assert columns - {"line", "control", "scene"} <= TAKEN


@pytest.mark.parametrize("wrong", [{"target_ms": math.nan}, {"target_ms": 0}, {"strata": ["queue"]}, {"queue": " "}])
def test_python_refuses_what_the_command_refuses(store, wrong):
    with pytest.raises(Error, match=r"target|stratum|empty name"):
        study_queues(store, **wrong)


def test_one_text_is_one_condition_and_the_same_condition_twice_is_one(tmp_path):
    made = store_of(tmp_path / "store", cell("cake", around(2.0)))
    assert study_queues(made, strata="line").parameters.strata == ("line",)
    assert study_queues(made, strata=["line", "line"]).parameters.strata == ("line",)


def test_a_misspelled_name_is_answered_with_those_that_there_are(tmp_path):
    runs = [*cell("cake", around(2.0)), *cell("pie", around(20.0))]
    made = store_of(tmp_path / "store", runs)

    def said(*words: str) -> str:
        return " ".join(run(str(made), *words).stdout.split())

    assert "No recording has the variable 'lin'; did you mean line?" in said("--stratum", "lin")
    assert (
        "No recording has the variable 'qdisc'; there are control, line, queue, rate_down, rate_up, rtt_ms and scene"
        in said("--queue", "qdisc")
    )
    assert "No run has the queue 'pfifo_fast'" in said()
    assert not [note for note in studied(tmp_path, runs, baseline="pie").notes if "No run has" in note]


def test_a_finding_on_containing_says_what_counts_as_contained(tmp_path):
    found = studied(tmp_path, cell("pie", around(20.0), contain_s=3.0), target_ms=250.0)
    assert "Contained: at most 250\xa0ms." in " ".join(sentences.hypotheses(found))


def test_bounds_that_decide_nothing_count_against_both_answers(tmp_path):
    # Six runs are contained before 1 s; in eight the load ends too early to show it.
    runs = [*cell("pie", around(20.0, 6), contain_s=0.5)]
    short = [Made("pie", number, 20.0, contain_s=None) for number in range(7, 15)]
    made = store_of(tmp_path / "store", [*runs, *short])
    with open_backend(made, "duckdb") as backend:
        whole = study.run(backend, Parameters())
    values = whole.tables["values"].with_columns(
        value=pl.when(pl.col("metric") == "contain-time", pl.col("censored")).then(0.6).otherwise("value")
    )
    _, checks = judging.judged(whole.tables["runs"], values, Parameters())
    row = checks.filter(pl.col("hypothesis") == "ugly-aqm", pl.col("decides")).row(0, named=True)
    assert (row["runs"], row["within"], row["conclusion"]) == (14, 0, "open")


@pytest.mark.slow
def test_a_folder_gets_page_pictures_and_tables_and_no_markup_from_the_store(tmp_path: Path) -> None:
    runs = [*as_published(("10/10",), 3), *cell("<script>x", around(5.0, 3))]
    done = run(str(store_of(tmp_path / "store", runs)), "-o", str(tmp_path / "out"), "--format", "html,svg,parquet")
    assert done.exit_code == 0, done.output
    names = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*")}
    pictures = {f"figures/{name}.svg" for name in ("latency", "goodput", "contain", "cells", "delays")}
    assert pictures | {"report.html", "study.json", "tables/medians.parquet", "tables/checks.parquet"} <= names
    assert "<script>x" not in (tmp_path / "out" / "report.html").read_text()


def test_a_store_without_such_recordings_is_said_to_have_none(tmp_path: Path) -> None:
    done = run(str(store_of(tmp_path / "store", [Made("pie", status="interrupted")])))
    assert done.exit_code == 1
    assert "no recording of this experiment that can be used" in " ".join(done.stdout.split())
    assert "1 recording left out: interrupted." in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--target", "0s"), "--target"),
        (("--target", "-1"), "such as 50ms"),
        (("--stratum", "queue"), "--queue names the same variable"),
        (("--stratum", ""), "an empty name"),
        (("--stratum", "seed"), "tables have a column of this name"),
        (("--format", "html"), "--format chooses what --output writes"),
        (("--backend", "bigquery:mine"), "BigQuery has no table of recordings"),
        (("--backend", "oracle"), "--backend"),
    ],
)
def test_a_wrong_command_line_says_what_was_expected(store, words, said):
    done = run(str(store), *words)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.needs_spark
@pytest.mark.slow
def test_spark_gives_the_same_numbers_as_duckdb(on_spark, published):
    found = study.run(on_spark, Parameters())
    for name, frame in published.tables.items():
        assert frame.height, f"{name}: a table without rows shows nothing"
        assert_frame_equal(found.tables[name], frame, rel_tol=1e-9, abs_tol=1e-12)
