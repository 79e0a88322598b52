"""A user's own model beside the fitted one."""

import json
import re
import subprocess
import sys
from pathlib import Path

import polars
import pytest

import whydrop
from whydrop import _core
from whydrop.explaining import replaying

ROOT = Path(__file__).parents[2]
NEAR = str(ROOT / "examples/policed-download.pcap.zst")
FAR = str(ROOT / "examples/policed-download-far.pcap.zst")


@pytest.fixture(scope="module")
def pair() -> whydrop.Explanation:
    return whydrop.explain(NEAR, FAR)


@pytest.fixture(scope="module")
def one() -> whydrop.Explanation:
    return whydrop.explain(NEAR)


def test_the_fitted_path_replayed_does_what_the_chosen_model_does(pair):
    verdict = pair.verdicts[0]
    given = replaying.with_models(pair, [verdict.path]).verdicts[0].models[-1]
    winner = verdict.models[0]
    same = ("element", "rate_bps", "limit_bytes", "dropped", "hits", "passed_right", "lost", "passed")
    assert [getattr(given, name) for name in same] == [getattr(winner, name) for name in same]
    # The table has times in whole nanoseconds.
    for name in ("longest_wait_s", "wait_error_s", "seen_longest_wait_s"):
        assert getattr(given, name) == pytest.approx(getattr(winner, name), abs=1e-9)
    assert (winner.role, given.role, given.fates) == ("winner", "given", "captured")


def test_packets_are_those_of_the_document(pair):
    packets = pair.replay("policer:rate=20M,burst=40kB")
    assert packets["time_ns"].is_sorted()
    assert packets["lost"].sum() == pair.verdicts[0].lost == 96
    assert packets["level_bytes"].max() == 40_000
    dropped = packets.filter("predicted_drop")
    assert dropped["predicted_wait_ns"].null_count() == dropped.height > 0


def test_a_link_that_is_slow_enough_delays_and_drops_nothing(pair):
    packets = pair.replay("line:rate=10M")
    assert not packets["predicted_drop"].any()
    assert packets["predicted_wait_ns"].max() > 1_000_000_000


def test_one_capture_has_the_fitted_model_too_and_no_delays(one):
    models = replaying.with_models(one, ["policer:rate=1M,burst=9kB"]).verdicts[0].models
    assert [(model.role, model.fates) for model in models] == [("fitted", "inferred"), ("given", "inferred")]
    assert all(model.seen_longest_wait_s is None and model.wait_error_s is None for model in models)
    assert models[0].hits > models[0].lost / 2
    assert models[1].dropped > models[0].dropped


def test_the_first_given_model_is_drawn(pair, one):
    for found in (pair, one):
        given = replaying.with_models(found, ["policer:rate=20M,burst=40kB"])
        text = json.dumps(given.chart("model").to_dict())
        assert "Yours: policer:rate=20M,burst=40kB" in text
    assert "Yours: policer" not in json.dumps(pair.chart("model").to_dict())
    drawn = json.dumps(replaying.with_models(pair, ["policer:rate=20M,burst=40kB"]).chart("models").to_dict())
    assert "Yours: policer:rate=20M,burst=40kB" in drawn


def explain(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "whydrop", "explain", *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_table_and_the_document_list_given_models_beside_the_fitted_one():
    models = ["--model", "policer:rate=20M,burst=40kB", "--model", "fifo:burst=1"]
    wrong = explain(NEAR, *models)
    assert wrong.returncode == 2
    assert "burst: is not a field of this element: expected one of rate, limit, in-service" in wrong.stderr
    shown = explain(NEAR, FAR, *models[:2])
    assert re.search(r"policer:rate=20M,burst=40kB \(yours\) +77 of 96 +370", shown.stdout)
    assert "inferred" not in shown.stdout
    assert "arrivals and fates are inferred" in explain(NEAR, *models[:2]).stdout
    document = json.loads(explain(NEAR, FAR, "--json", *models[:2]).stdout)
    given = document["verdicts"][0]["models"][-1]
    assert given["path"] == {"elements": [{"element": "policer", "rate_bps": 20e6, "burst_bytes": 40e3}]}
    assert (given["role"], given["hits"], given["dropped"]) == ("given", 77, 447)


def test_a_model_without_packets_or_sense_is_refused(one):
    with pytest.raises(whydrop.Error, match=r'model "policer:rate=0,burst=9kB"|model policer: rate: 0: expected'):
        one.replay("policer:rate=0,burst=9kB")
    with pytest.raises(whydrop.ModelError, match="unknown field"):
        one.replay({"elements": [{"element": "line", "rate_bps": 1e6, "color": 1}]})
    assert one.replay("line:rate=1G", verdict=99).is_empty()


def test_every_element_of_the_documentation_can_be_read():
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    texts = re.findall(r"^\| [^|]+ \| `([a-z0-9-]+:[^`]+)` \|", page, re.MULTILINE)
    read = {text: _core.path(text)[0]["elements"][0] for text in texts}
    names = {element["element"] for element in read.values()}
    with pytest.raises(ValueError, match="is no element") as refused:
        _core.path("nothing")
    listed = str(refused.value).partition("expected one of ")[2].split(", ")
    assert names == set(listed)
    # Each optional field that the page lists is one of the element.
    for text, options in re.findall(r"^\| [^|]+ \| `([a-z0-9-]+:[^`]+)` \| ([^|]*)", page, re.MULTILINE):
        for field in re.findall(r"`([a-z-]+)`", options.replace("`green`, `yellow`", "")):
            with pytest.raises(ValueError, match=r"expected (?!one of)"):
                _core.path(f"{text.partition(':')[0]}:{field}=?")


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="different lengths"):
        _core.Passages([1, 2], [1], [0], [None], [None])
    empty = polars.DataFrame(_core.Passages([], [], [], [], []).replay("line:rate=1M")[1])
    assert empty.columns == ["level_bytes", "predicted_drop", "predicted_mark", "predicted_wait_ns"]


def test_the_elements_have_the_fields_and_units_that_texts_have():
    page = (ROOT / "docs/models.md").read_text(encoding="utf-8")
    elements = {element["name"]: element["fields"] for element in _core.elements()}
    for name, settings in re.findall(r"^\| [^|]+ \| `([a-z0-9-]+):([^`]+)` \|", page, re.MULTILINE):
        required = {field["name"] for field in elements.pop(name) if field["required"]}
        assert required <= {setting.partition("=")[0] for setting in settings.split(",")}
    assert elements == {}
    limits = [field for field in _core.elements()[1]["fields"] if field["name"] == "limit"]
    assert [field["units"][0] for field in limits] == [["packets", 1.0], ["GB", 1e9]]
    # Every unit is read as the number that it is said to be.
    for unit, factor in limits[1]["units"]:
        read = _core.path(f"fifo:rate=1M,limit=100{unit}" if factor == 1 else f"fifo:rate=1M,limit=1{unit}")
        assert read[0]["elements"][0]["limit_bytes"] == (100 if factor == 1 else factor)


@pytest.mark.slow
def test_where_nothing_was_lost_a_model_adds_one_sentence_to_the_explanation(tmp_path):
    nothing = tmp_path / "nothing.pcap"
    nothing.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    plain, given = explain(str(nothing)), explain(str(nothing), "--model", "line:rate=1G")
    assert (given.returncode, given.stdout) == (plain.returncode, plain.stdout) == (0, plain.stdout)
    assert given.stderr.splitlines() == [
        "whydrop: --model: nothing to replay over: no verdict has packets that were lost or queued"
    ]
    document = explain(str(nothing), "--json", "--model", "line:rate=1G")
    assert json.loads(document.stdout) == json.loads(explain(str(nothing), "--json").stdout)
