"""Flent's batch files converted: the same runs, with the same values, as Flent itself makes of them."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import flent_environment
from whydrop.measure.batch.batch_file import read
from whydrop.measure.batch.converting import ConversionError, convert
from whydrop.measure.batch.expanding import Run, Wanted, clean_path, expand_runs
from whydrop.measure.batch.one_run import times_s

HERE = Path(__file__).parent / "flent"
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads((HERE / "expected.json").read_text())


def converted(path: Path, tmp_path: Path) -> list[Run]:
    toml = tmp_path / "converted.toml"
    toml.write_text(convert(path).text)
    return expand_runs(read([toml]), Wanted(time="BATCH-TIME"))


def key(batch: str, title: str, repetition: int) -> tuple[str, str, int]:
    return (batch, title, repetition)


def parameters(run: dict[str, Any]) -> dict[str, str]:
    """Flent's, with its whole bytes of the IP header as code points, without what its test tcp_2up sets itself."""
    found = {name: value for name, value in run["test_parameters"].items() if name != "upload_streams"}
    return {name: value.replace("0x20", "CS1") if name == "markings" else value for name, value in found.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_runs_are_those_that_flent_makes(name: str, tmp_path: Path) -> None:
    ours = {key(run.batch, run.title, run.repetition): run for run in converted(HERE / name, tmp_path)}
    theirs = {key(run["batch"], run["title"], run["repetition"]): run for run in EXPECTED[name]}
    assert ours.keys() == theirs.keys()
    for one, run in ours.items():
        flent = theirs[one]
        assert run.test == flent["test"]
        assert list(run.hosts) == flent["hosts"]
        assert run.note == (flent["note"] or "")
        assert run.ip_version == flent["ip_version"]
        assert run.pause_s == flent["pause"]
        assert run.output == clean_path(flent["output"] or "")
        settings = dict(run.parameters)
        for ours_name, theirs_name in (("length_s", "length"), ("delay_s", "delay"), ("step_s", "step_size")):
            default = {"length_s": 60, "delay_s": 5, "step_s": 0.2}[ours_name]
            assert settings.pop(ours_name, default) == flent[theirs_name]
        for always in ("http_workers", "probe_interval_s", "local_address"):
            settings.pop(always, None)
        # What Flent's test ignores is kept, but as a variable.
        settings |= {name: run.variables[name] for name in parameters(flent).keys() - settings.keys()}
        assert settings == parameters(flent)
        assert [(command.kind, command.run) for command in run.commands] == [
            (command["type"], command["exec"]) for command in flent["commands"]
        ]
        assert [(command.essential, command.kill) for command in run.commands] == [
            (bool(command["essential"]), bool(command["kill"])) for command in flent["commands"]
        ]


def test_the_converted_runs_can_be_planned(tmp_path: Path) -> None:
    runs = converted(HERE / "inheritance.batch", tmp_path)
    assert {run.batch: seconds for run, seconds in zip(runs, times_s(runs).values(), strict=True)} == {
        "both": 10 + 2 * 1 + 3,
        "reversed": 10 + 2 * 1 + 3,
    }


def test_settings_of_flents_that_are_parameters_here_are_converted_with_their_units(tmp_path: Path) -> None:
    both, backwards = converted(HERE / "inheritance.batch", tmp_path)
    assert both.parameters["http_workers"] == 8
    assert both.parameters["probe_interval_s"] == 0.01
    assert backwards.parameters["local_address"] == "192.0.2.1"


def test_each_thing_without_a_counterpart_is_noted_in_the_result_too(tmp_path: Path) -> None:
    found = convert(HERE / "inheritance.batch")
    about = {note.split(": ")[1] for note in found.notes}
    assert about >= {"plot", "debug_log", "socket_stats", "extended_metadata", "remote_metadata"}
    assert all(f"# Note: {note}" in found.text for note in found.notes)


def test_a_variable_that_only_the_shell_knows_is_left_to_the_shell(tmp_path: Path) -> None:
    text = convert(HERE / "loops.batch").text
    command = tomllib.loads(text)["command"]["setup"]["run"]
    assert command == './setup.sh ${qdisc} ${rate} "$HOME" $${HOME}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no [Batch::name] section"),
        ("[Batch]\n", "expected [Batch::name]"),
        ("[Batch::a]\ninherits = b\n", "inherits from 'b', which is not there"),
        ("[Batch::a]\nfor_x = gone\n", "no [Arg::...] section matches 'gone'"),
        ("[Batch::a]\n[Command::c]\ntype = now\n", "expected pre, post or monitor"),
        ("no ini\n", "not an INI file"),
        ("[Batch::a]\nx = \x00\n[Batch::a]\n", "not an INI file"),
    ],
)
def test_what_is_no_batch_file_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.batch"
    path.write_text(text)
    with pytest.raises(ConversionError) as refused:
        convert(path)
    assert words in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.slow
@pytest.mark.needs_flent
def test_the_expected_runs_are_what_flent_says() -> None:
    flent_python = flent_environment.program("python")
    files = [HERE / name for name in EXPECTED]
    done = subprocess.run(
        [flent_python, HERE / "expansion.py", *files], capture_output=True, text=True, check=True, timeout=600
    )
    assert json.loads(done.stdout[done.stdout.index("{") :]) == EXPECTED
