"""Properties of every test of the catalogue."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import whydrop
from whydrop.measure.plan import Plan
from whydrop.measure.tests import Test, check, load, names, resolve
from whydrop.measure.tests.explaining import document, example_plan, flow_rows, listing
from whydrop.measure.tests.loading import CATALOGUE
from whydrop.measure.tests.schema import FAMILIES

NAMES = names()
PLOTS = Path(whydrop.__file__).parent / "show" / "plots" / "catalogue"


@pytest.mark.parametrize("path", sorted(CATALOGUE.glob("*.toml")), ids=lambda path: path.stem)
def test_each_file_is_well_formed(path: Path) -> None:
    assert check(path) == []


@pytest.mark.parametrize("name", NAMES)
def test_each_test_says_what_it_is(name: str) -> None:
    test = load(name)
    assert test.family in FAMILIES
    assert test.title
    assert len(test.title) <= 80
    assert test.description.endswith(".")
    assert test.shows.endswith(".")
    assert test.example is not None
    assert test.example.startswith("whydrop run ")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_test_names_plots_that_exist_and_its_default_among_them(name: str) -> None:
    known = {plot for path in PLOTS.glob("*.toml") for plot in tomllib.loads(path.read_text())}
    test = load(name)
    assert set(test.plots) <= known
    assert test.default_plot is None or test.default_plot in test.plots


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_each_test_can_be_resolved(name: str) -> None:
    import shlex

    test = load(name)
    assert test.example is not None
    words = shlex.split(test.example)[2:]
    hosts = [words[number + 1] for number, word in enumerate(words) if word == "--to"]
    settings = dict(words[number + 1].split("=", 1) for number, word in enumerate(words) if word == "--set")
    if "--duration" in words:
        settings["length_s"] = words[words.index("--duration") + 1]
    assert isinstance(resolve(words[0], hosts, settings), Plan)


@pytest.mark.parametrize("name", NAMES)
def test_each_test_can_be_described_to_people_and_programs(name: str) -> None:
    test = load(name)
    described = document(test)
    assert described["name"] == name
    assert described["total_s"] == pytest.approx(example_plan(test).total_s)
    assert all(len(row) == 7 for row in flow_rows(example_plan(test).flows))


def test_the_list_names_every_test_once_and_its_variants_behind_it() -> None:
    listed = [entry["name"] for entry in listing()]
    assert sorted(listed) == NAMES
    assert len(set(listed)) == len(listed)
    assert listed.index("tcp_nup") < listed.index("tcp_2up") < listed.index("tcp_12up")


@pytest.mark.parametrize(("written", "name"), [("tcp-2up", "tcp_2up"), ("RRUL", "rrul"), ("voip_1up", "voip-1up")])
def test_names_may_be_written_with_either_kind_of_dash_and_in_any_case(written: str, name: str) -> None:
    assert load(written).name == name


def test_a_test_of_ones_own_lies_beside_the_tests_that_it_extends(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(
        'title = "base"\nabstract = true\n[[flows]]\nname = "a"\nkind = "tcp"\ndirection = "up"\n'
    )
    mine = tmp_path / "mine.toml"
    mine.write_text('title = "mine"\nextends = ["./base.toml", "probed"]\n[parameters.length_s]\ndefault = 7\n')
    test = load(str(mine))
    assert isinstance(test, Test)
    plan = resolve(test, ["h"])
    assert [flow.name for flow in plan.flows] == ["a", "Ping (ms) ICMP", "Ping (ms) UDP BE"]
    assert plan.total_s == 7 + 2 * 5
    assert plan.source == str(mine)
