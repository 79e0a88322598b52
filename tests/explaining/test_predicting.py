"""Predictions: a capture is reproduced first, then changed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import polars as pl
import pyarrow
import pytest
from click.testing import CliRunner

import recordings
import whydrop
from example_files import POLICED, POLICED_FAR
from whydrop.cli.commands import whydrop as program
from whydrop.explaining.document import Parameter
from whydrop.explaining.predicting import recorded
from whydrop.explaining.predicting.advising import worth_trying
from whydrop.explaining.predicting.changing import changed_setting, fitting
from whydrop.explaining.predicting.described import of_text, setting_of
from whydrop.explaining.predicting.gains import best
from whydrop.explaining.predicting.prediction import Value, with_changes
from whydrop.explaining.predicting.recorded import Quantities
from whydrop.explaining.predicting.reproducing import reproduce
from whydrop.explaining.predicting.running import Runs
from whydrop.explaining.predicting.setting import (
    Candidate,
    bounding,
    segments_per_ack,
    settings,
    whole_transfer,
    with_other_losses,
)

BOTH = (str(POLICED), str(POLICED_FAR))


@pytest.fixture(scope="module")
def larger_burst() -> whydrop.Prediction:
    return whydrop.predict(*BOTH, changes=["policer.burst=400kB"], runs=6)


def test_what_was_recorded_is_reproduced_before_anything_is_predicted(larger_burst: whydrop.Prediction) -> None:
    assert larger_burst.misses == ()
    assert larger_burst.reproduced.goodput_bps == pytest.approx(larger_burst.recorded.goodput_bps, rel=0.15)


def test_a_capture_that_is_cut_off_is_predicted_with_a_note_of_it(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    with pyarrow.CompressedInputStream(str(POLICED), "zstd") as packed:
        cut.write_bytes(packed.read(250_000))
    shown = CliRunner().invoke(program, ["predict", str(cut), "--change", "cc=reno"])
    assert shown.exit_code == 0, shown.output
    assert "found the end of the file" in " ".join(shown.output.split())
    document = json.loads(CliRunner().invoke(program, ["predict", str(cut), "--change", "cc=reno", "--json"]).output)
    assert "found the end of the file" in document["notes"][0]


def test_a_larger_burst_of_a_policer_brings_more_goodput(larger_burst: whydrop.Prediction) -> None:
    found = larger_burst.goodput_bps
    assert isinstance(found, Value)
    assert found.low <= found.value <= found.high
    assert found.value > larger_burst.recorded.goodput_bps


def test_the_same_captures_give_the_same_prediction(larger_burst: whydrop.Prediction) -> None:
    assert whydrop.predict(*BOTH, changes=["policer.burst=400kB"], runs=6) == larger_burst


def test_a_change_that_the_path_does_not_have_names_what_it_has() -> None:
    with pytest.raises(whydrop.ChangeError, match=r"--change queue\.limit=3: the path has no queue.*policer"):
        whydrop.predict(*BOTH, changes=["queue.limit=3"], runs=1)


def test_a_wrong_change_is_refused_before_anything_is_run() -> None:
    steps: list[str] = []
    runs = Runs(lambda step, done, total: steps.append(step))
    with pytest.raises(whydrop.ChangeError, match=r"--change queue\.limit=3: the path has no queue.*policer"):
        reproduce(whydrop.explain(*BOTH), None, 20, runs, ["queue.limit=3"])
    assert "Simulating" not in steps


def test_a_change_that_a_later_one_undoes_is_refused() -> None:
    setting = setting_of(
        dataclasses.replace(of_text("policer:rate=20M,burst=50kB+fifo:rate=50M,limit=100packets"), rtt_s=0.04)
    )
    for undone, *later in (
        ("cc=bbr", "cc=reno"),
        ("policer.burst=80kB", "mtu=1400", "path=fifo:rate=30M,limit=50packets"),
        ("queue.limit=20packets", "aqm=fq_codel"),
    ):
        with pytest.raises(whydrop.ChangeError, match=f"--change {undone}: it has no effect, since .* comes after it"):
            changed_setting(setting, [undone, *later])
    # One without an effect of its own undoes nothing, and one may need another.
    for changes in (["cc=cubic", "cc=reno"], ["aqm=codel", "codel.target=7ms"], ["rtt=50ms", "pace=5M", "cc=bbr"]):
        assert changed_setting(setting, changes) != setting


def test_a_change_is_tried_on_the_paths_that_have_its_element() -> None:
    codel, pie = (
        Candidate(setting_of(dataclasses.replace(of_text(text), rtt_s=0.04)), "law")
        for text in ("codel:rate=20M", "pie:rate=20M,limit=1000packets")
    )
    assert fitting([codel, pie], ["pie.target=5ms"]) == [pie]
    with pytest.raises(whydrop.ChangeError, match="expected at least 1ms"):
        fitting([codel, pie], ["pie.period=0ms"])


def test_a_load_that_the_path_never_saw_is_not_predicted() -> None:
    found = whydrop.predict(*BOTH, changes=["policer.rate=2G", "policer.burst=40MB"], runs=2)
    assert found.goodput_bps is None
    assert "never saw more than" in str(found.refusal)


def test_the_program_prints_the_answer_first_and_the_same_as_json() -> None:
    shown = CliRunner().invoke(program, ["predict", *BOTH, "--change", "cc=reno"])
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines()[0].startswith("Goodput would be ")
    document = json.loads(CliRunner().invoke(program, ["predict", *BOTH, "--change", "cc=reno", "--json"]).output)
    assert document["changes"] == ["cc=reno"]
    assert document["goodput_bps"]["low"] <= document["goodput_bps"]["value"]


def test_without_a_change_usual_ones_are_tried_and_the_best_comes_first() -> None:
    found = whydrop.predict(*BOTH, runs=4)
    assert {one.changes[0].partition("=")[0] for one in found.tried} == {"pace", "policer.burst", "cc"}
    goodputs = [one.goodput_bps.value for one in found.tried if one.goodput_bps is not None]
    assert goodputs[0] == pytest.approx(max(goodputs), rel=0.05)
    assert [one["changes"] for one in found.as_json()["tried"]] == [one.changes for one in found.tried]


def test_changes_fit_the_elements_of_the_path_and_its_senders() -> None:
    flow = {"control": "bbr", "mss_bytes": 1448, "pace_bps": None}
    queue = {"element": "fifo", "rate_bps": 20e6, "limit_packets": 10}
    setting = {"path": {"elements": [queue]}, "round_trip_ns": 40_000_000, "flows": [flow]}
    assert list(worth_trying(setting)) == ["pace=19M", "queue.limit=70packets", "aqm=fq_codel", "cc=cubic"]
    delay = {"element": "delay", "time_ns": 0}
    assert list(worth_trying(setting | {"path": {"elements": [delay]}})) == ["cc=cubic"]


def test_what_runs_often_have_is_reproduced_though_their_median_is_another() -> None:
    captured = reproduce(whydrop.explain(*BOTH), "cubic", 2, Runs())
    twice_bps = 2 * captured.reproduced.goodput_bps
    was = dataclasses.replace(captured.recorded, goodput_bps=twice_bps)
    every = [dataclasses.replace(was, goodput_bps=share * twice_bps) for share in (0.4, 0.5, 0.6, 0.8, 1.1, 1.3)]
    alike = dataclasses.replace(captured, recorded=was)
    assert "goodput" in alike.misses
    assert "goodput" not in dataclasses.replace(alike, every=tuple(every)).misses
    assert "goodput" in dataclasses.replace(alike, every=tuple(every[:4])).misses


def test_a_parameter_with_a_wide_interval_widens_the_prediction() -> None:
    captured = reproduce(whydrop.explain(*BOTH), "cubic", 4, Runs())
    [policer] = captured.setting["path"]["elements"]
    wide = dataclasses.replace(captured, bounds=({**policer, "rate_bps": 0.5 * policer["rate_bps"]},))
    narrow = dataclasses.replace(captured, bounds=())
    at_rate = [with_changes(one, ["cc=bbr"], Runs()).goodput_bps for one in (narrow, wide)]
    assert at_rate[1].low < 0.7 * at_rate[0].low
    assert at_rate[1].value == at_rate[0].value
    # The change sets the rate, whatever it was.
    set_rate = [with_changes(one, ["policer.rate=10M"], Runs()).goodput_bps for one in (narrow, wide)]
    assert set_rate[0] == set_rate[1]


def test_parameters_with_wide_intervals_bound_the_path() -> None:
    found = whydrop.explain(*BOTH)
    verdict = found.verdicts[0]
    rate, burst = (verdict.parameters[name].value for name in ("rate_bps", "burst_bytes"))
    intervals = {
        "rate_bps": Parameter(rate, 0.9 * rate, None),
        "burst_bytes": Parameter(burst, 0.99 * burst, 1.2 * burst),
    }
    bounds = list(bounding(found, dataclasses.replace(verdict, parameters=intervals)))
    assert [one["rate_bps"] for one in bounds] == pytest.approx([0.9 * rate, recorded.greatest_load_bps(found), rate])
    assert [one["burst_bytes"] for one in bounds] == pytest.approx([burst, burst, 1.2 * burst])


def test_a_bucket_at_the_end_of_its_interval_passes_a_packet() -> None:
    found = whydrop.explain(*BOTH)
    verdict = found.verdicts[0]
    burst = verdict.parameters["burst_bytes"].value
    other = dataclasses.replace(verdict, parameters={"burst_bytes": Parameter(burst, 80.0, None)})
    found.__dict__["verdicts"] = (other,)
    assert {one["burst_bytes"] for tried in settings(found, ["cubic"], {}) for one in tried.bounds} == {1500.0}


def acknowledged(sizes: list[int | None]) -> pl.DataFrame:
    """Acknowledgments of so many segments each, and repeated ones (``None``)."""
    ends, end = [0], 0
    for size in sizes:
        end += 1000 * (size or 0)
        ends.append(end)
    return pl.DataFrame({"time_ns": range(len(ends)), "acknowledged": ends})


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([2] * 50, 2),
        ([1] * 50, 2),
        ([], 2),
        ([2, 8] * 20, 8),
        # A large one that fills a hole, behind repeated ones, covers what had arrived before.
        ([*[2] * 20, None, None, 60] * 3, 2),
        ([400] * 9, 44),
    ],
)
def test_a_receiver_acknowledges_as_many_segments_of_a_burst_as_in_the_capture(
    sizes: list[int | None], together: int
) -> None:
    own = pl.DataFrame({"payload_bytes": [1000] * 20})
    assert segments_per_ack(own, acknowledged(sizes)) == together


def test_a_queue_that_grows_beyond_what_was_seen_is_refused_where_its_limit_is_a_guess() -> None:
    captured = reproduce(whydrop.explain(*BOTH), "cubic", 2, Runs())
    path = {"elements": [{"element": "fifo", "rate_bps": 20e6, "limit_packets": 1000}]}
    was = dataclasses.replace(captured.recorded, delay_greatest_s=0.005)
    seen = dataclasses.replace(
        captured,
        bounds=(),
        recorded=was,
        before=(dataclasses.replace(was, delay_greatest_s=0.005),) * 2,
        setting=captured.setting | {"path": path},
        assumed="limit",
    )
    assert "whether it can hold more does not show" in str(with_changes(seen, ["cc=reno"], Runs()).refusal)
    assert with_changes(seen, ["queue.limit=20packets"], Runs()).refusal is None
    known = dataclasses.replace(seen, assumed="nothing")
    assert with_changes(known, ["cc=reno"], Runs()).refusal is None


def test_of_long_captures_the_beginning_is_simulated_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "MOST_PACKETS", 4_000)
    found = whydrop.predict(*BOTH, changes=["cc=reno"], runs=2)
    assert found.simulated_s is not None
    assert 1.0 < found.simulated_s < 6.0
    assert found.recorded is not None
    assert found.recorded.packets == pytest.approx(4_000, abs=10)


def test_the_program_draws_what_was_recorded_simulated_and_changed(tmp_path: Path) -> None:
    given = ["predict", *BOTH, "--change", "cc=reno", "--charts", str(tmp_path), "--format", "svg"]
    shown = CliRunner().invoke(program, given)
    assert shown.exit_code == 0, shown.output
    drawn = (tmp_path / "prediction.svg").read_text()
    for words in ("and with cc=reno", "Goodput", "Data in flight", "Queueing delay", "recorded", "with the change"):
        assert words in drawn


def test_an_explanation_says_what_changes_would_bring_where_that_is_asked_for(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    shown = CliRunner().invoke(program, ["explain", *BOTH, "--predict", "--report", str(report)])
    assert shown.exit_code == 0, shown.output
    assert "would help most" in shown.output
    assert "would help most" in report.read_text()


def test_a_recorded_test_is_simulated_by_the_queue_and_the_flows_of_its_headline(tmp_path: Path) -> None:
    recordings.rrul(tmp_path / "a.recording", title="fifo")
    found = whydrop.predict(tmp_path / "a.recording", runs=2)
    assert (found.path, found.control_from, len(found.senders)) == ("fifo:rate=3.10773M,limit=23.7016kB", "kernel", 2)
    assert found.recorded is not None
    assert found.recorded.goodput_bps == pytest.approx(3.1077e6 * 1448 / 1500, rel=1e-3)
    assert found.recorded.delay_p95_s == pytest.approx(0.061, abs=0.001)
    # The retransmissions of this synthetic recording are too few for so short a queue.
    assert found.misses == ("loss rate",)


def test_a_recording_without_a_queue_is_refused_by_its_headline(tmp_path: Path) -> None:
    recordings.rrul(tmp_path / "a.recording", title="fifo")
    shown = CliRunner().invoke(program, ["predict", str(tmp_path / "a.recording"), "--charts", str(tmp_path)])
    assert shown.exit_code == 1
    assert "a recording has no packets to draw" in shown.output
    found = whydrop.explain(tmp_path / "a.recording")
    other = dataclasses.replace(found.verdicts[0], cause="unknown", parameters={})
    found.__dict__["verdicts"] = (other,)
    with pytest.raises(whydrop.PredictionError, match="headline of the recording is unknown, and a queue"):
        reproduce(found, None, 2, Runs())


def test_the_advice_names_the_command_that_predicts_only_for_whole_captures() -> None:
    whole = CliRunner().invoke(program, ["explain", *BOTH])
    assert f"$ whydrop predict {' '.join(BOTH)}" in whole.output
    part = CliRunner().invoke(program, ["explain", BOTH[0], "--to", "4"])
    assert part.exit_code == 0, part.output
    assert "whydrop predict" not in part.output


def test_over_a_described_path_one_connection_is_simulated_with_and_without_the_change(tmp_path: Path) -> None:
    file = tmp_path / "path.toml"
    file.write_text('path = "fifo:rate=20M,limit=10packets"\nrtt = "40ms"\n')
    found = whydrop.predict(file, changes=["queue.limit=90packets"], runs=4)
    assert (found.recorded, found.control_from) == (None, "default")
    assert isinstance(found.goodput_bps, Value)
    assert found.reproduced.goodput_bps < found.goodput_bps.value < 20e6
    shown = CliRunner().invoke(program, ["predict", str(file), "--cc", "bbr"])
    assert shown.exit_code == 0, shown.output
    assert "bbr (stated with --cc)" in shown.output


def test_a_described_path_without_a_round_trip_is_refused_with_the_key_that_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "path.toml"
    file.write_text('path = "fifo:rate=20M,limit=10packets"\n')
    with pytest.raises(whydrop.PathError, match=r"path\.toml: rtt: expected the round trip"):
        whydrop.predict(file)


def test_losses_that_the_headline_does_not_explain_may_be_random_ones() -> None:
    found = whydrop.explain(*BOTH)
    partly = dataclasses.replace(found.verdicts[0], explained=0.5)
    elements = partly.path["elements"]
    (path,) = with_other_losses(found, partly, elements)
    assert [one["element"] for one in path["elements"]] == ["policer", "random-loss"]
    assert with_other_losses(found, dataclasses.replace(partly, explained=1.0), elements) == []


def test_a_transfer_has_ended_if_all_is_acknowledged_and_its_sender_is_silent() -> None:
    sent = pl.DataFrame({"sequence": [0, 1448], "payload_bytes": [1448, 1000], "time_ns": [0, 40_000_000]})
    acknowledged, waiting = (pl.DataFrame({"acknowledged": [1448, last]}) for last in (2448, 1448))
    assert whole_transfer(sent, acknowledged, last_ns=2_000_000_000) == {"transfer": {"bytes": 2448}}
    assert whole_transfer(sent, acknowledged, last_ns=80_000_000) is None
    assert whole_transfer(sent, waiting, last_ns=2_000_000_000) is None


def test_a_path_of_acknowledgments_is_refused() -> None:
    found = whydrop.explain(*BOTH)
    back = " > ".join(reversed(found.table("flows")["name"][0].split(" > ")))
    found.__dict__["verdicts"] = (dataclasses.replace(found.verdicts[0], flows=(back,)),)
    with pytest.raises(whydrop.PredictionError, match="of packets without data"):
        settings(found, ["cubic"], {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('path = "fifo:rate=20M"\nrtt = 40\n', "rtt: expected 0 to 5 s.*a number without unit is in s"),
        ('path = "fifo:rate=20M"\nrtt = 1e300\n', "rtt: expected 0 to 5 s"),
        (
            'rtt = "40ms"\n[[elements]]\nelement = "fifo"\nrate_bps = 2e7\nlimit_packets = 18446744073709551616\n',
            "elements",
        ),
        ('rtt = "40ms"\n[[elements]]\nelement = "fifo"\nrate_bps = 1979-05-27\n', "elements: no JSON for 1979-05-27"),
    ],
)
def test_a_described_path_with_impossible_values_is_refused_by_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "path.toml").write_text(text)
    with pytest.raises(whydrop.PathError, match=message):
        whydrop.predict(tmp_path / "path.toml")


def test_so_much_of_a_fast_path_is_simulated_that_a_run_ends_soon(tmp_path: Path) -> None:
    (tmp_path / "path.toml").write_text('path = "fifo:rate=5G,limit=100packets"\nrtt = "2ms"\n')
    found = whydrop.predict(tmp_path / "path.toml", runs=1)
    assert found.simulated_s is not None
    assert 0.1 < found.simulated_s < 3.0


def test_a_slower_path_does_not_carry_more_than_its_rate() -> None:
    found = whydrop.predict(*BOTH, changes=["policer.rate=2M"], runs=6)
    assert found.goodput_bps is not None
    assert found.goodput_bps.value <= 2e6
    assert found.goodput_bps.high <= 1.02 * 2e6


def test_the_change_that_helps_most_is_the_first_of_those_tried() -> None:
    was = Quantities(10e6, 0.02)
    fewer_losses, more_goodput = (
        dataclasses.replace(blank(was), changes=(name,), goodput_bps=Value(*goodput), loss_rate=Value(*loss))
        for name, goodput, loss in (
            ("pace=9M", (9.5e6, 9.3e6, 9.7e6), (0.0, 0.0, 0.001)),
            ("cc=bbr", (10e6, 9.8e6, 10.2e6), (0.05, 0.04, 0.06)),
        )
    )
    assert best([more_goodput, fewer_losses]) == (fewer_losses, "loss_rate")
    assert best([more_goodput]) is None


def blank(was: Quantities) -> whydrop.Prediction:
    """A prediction of nothing."""
    nothing = dict.fromkeys(("goodput_bps", "loss_rate", "delay_p95_s", "refusal", "simulated_s"))
    return whydrop.Prediction("", "", "cubic", "runs", (), (), was, was, (), "nothing", **nothing)
