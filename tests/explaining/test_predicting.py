"""Predictions: a capture is reproduced first, then changed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import whydrop
from example_files import POLICED, POLICED_FAR
from whydrop.cli.commands import whydrop as program
from whydrop.explaining.predicting.prediction import Value
from whydrop.explaining.predicting.setting import with_other_losses

BOTH = (str(POLICED), str(POLICED_FAR))


@pytest.fixture(scope="module")
def larger_burst() -> whydrop.Prediction:
    return whydrop.predict(*BOTH, changes=["policer.burst=400kB"], runs=6)


def test_what_was_recorded_is_reproduced_before_anything_is_predicted(larger_burst: whydrop.Prediction) -> None:
    assert larger_burst.misses == ()
    assert larger_burst.reproduced.goodput_bps == pytest.approx(larger_burst.recorded.goodput_bps, rel=0.15)


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
