"""``whydrop doctor``: every ability that is missing names its uses, and JSON says the same as the text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from whydrop.act import abilities
from whydrop.cli.commands import whydrop
from whydrop.measure.runners import program, registry
from whydrop.runtime import extras


@pytest.fixture(autouse=True)
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started: a version costs a process."""
    monkeypatch.setattr(abilities, "version_of", lambda *_: "1.2")
    monkeypatch.setattr(program, "version_of", lambda *_: "1.2")
    monkeypatch.setattr(registry.shutil, "which", lambda *_, **__: None)


def test_what_is_missing_names_its_uses_and_a_command() -> None:
    said = CliRunner().invoke(whydrop, ["doctor"]).output
    assert "iperf3: missing; used for run --with iperf3, depth --far-end iperf3\n" in said
    assert "$ sudo apt-get install iperf3\n" in said


def test_json_has_every_ability() -> None:
    document = json.loads(CliRunner().invoke(whydrop, ["doctor", "--json"]).output)
    groups = {one["group"] for one in document["abilities"]}
    assert groups == {"privileges", "kernel", "programs", "extras", "folders"}
    assert all(one["used_for"] for one in document["abilities"])


def test_an_extra_that_is_missing_names_its_packages_and_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda module: None if module == "scipy" else object())
    (found,) = (one for one in abilities.doctor() if one.name == "studies")
    assert (found.present, found.found, found.used_for) == (False, "without scipy", "study")
    assert found.remedy == "pip install 'whydrop[studies]'"


def test_every_extra_has_its_uses() -> None:
    assert extras.USED_FOR.keys() == extras.PACKAGES.keys()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (found,) = (one for one in abilities.doctor(tmp_path / "gone") if one.name.endswith("gone"))
    assert not found.present
