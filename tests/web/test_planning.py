"""Tests of tests before they run: what they send, and which field is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whydrop
from whydrop.measure.tests import resolve
from whydrop.measure.volume import volume
from whydrop.web import planning
from whydrop.web.endpoints import RequestError


def check(test: str = "rrul", *to: str, **given: Any) -> planning.Checked:
    return planning.check(
        test, to or ["far.example"], parameters=given.pop("parameters", {}), duration_s=given.pop("duration_s", None),
        runner=given.pop("runner", None), folders=[Path("/nowhere")],
    )  # fmt: skip


def wrong(*arguments: str, **given: Any) -> dict[str, str]:
    """The faults, by field."""
    with pytest.raises(RequestError) as refused:
        check(*arguments, **given)
    assert refused.value.fields.keys() or not given
    return refused.value.fields


def test_a_test_that_can_run_says_what_it_sends():
    found = check(parameters={"length_s": "20 s"})
    assert found.total_s == 30
    assert [row[0] for row in found.flows[:2]] == ["Flow", "TCP upload BE"]
    assert "250 MB on a path of 100 Mbit/s" in " ".join(found.sends).replace("\u00a0", " ")


def test_every_fault_is_beside_its_field():
    fields = wrong("rrul", "a:b", parameters={"delay_s": -3, "length_s": "soon", "colour": "red"})
    assert fields.keys() == {"to", "delay_s", "length_s", "colour"}
    assert "20 ms" in fields["length_s"]
    assert "HOST:PORT" in fields["to"]
    assert wrong("rrul", "one", "two").keys() == {"to"}
    assert wrong("rrul", runner="ping").keys() == {"runner"}
    assert wrong("no-such-test").keys() == {"test"}
    assert wrong("rrul", parameters={"local_address": "192.0.2.1"}).keys() == {"local_address"}


def test_words_for_the_command_line_are_not_shown_in_the_form():
    assert "--" not in " ".join(wrong("rrul", "one", "two").values())


def test_files_outside_the_folders_are_not_read():
    fields = wrong("rrul", parameters={"include_http": "yes", "http_url_list": "/etc/passwd"})
    assert "folders" in fields["http_url_list"]
    check(parameters={"include_http": "yes", "http_url_list": "http://far.example/list.txt"})


@pytest.mark.parametrize("test", ["command-output", "cpu_stress"])
def test_a_test_that_runs_commands_is_refused_with_the_command_to_type(test: str):
    assert f"whydrop run {test}" in planning.described(test).refused
    with pytest.raises(RequestError, match="runs commands on this host"):
        check(test, "far.example", parameters={"command": "id"} if test == "command-output" else {})


@pytest.mark.slow
def test_every_test_of_the_catalogue_has_a_form():
    for one in whydrop.tests():
        found = planning.described(one["name"])
        assert found.file
        assert set(found.own) <= found.test["parameters"].keys()
        assert "flows" not in found.test


def test_the_volume_of_flows_with_a_rate_is_bounded_by_it():
    plan = resolve("tcp_2up", ["far.example"], {"length_s": 10, "delay_s": 0, "pacing_rate_bps": "8 Mbit/s"})
    up, down = volume(plan, "up"), volume(plan, "down")
    # Two flows at 1 MB/s for 10 s, and the probes of both directions.
    assert up.fixed_bytes == pytest.approx(20e6, rel=0.01)
    assert up.unlimited_s == 0
    assert 0 < down.fixed_bytes < 1e6


def test_flows_that_share_a_path_are_counted_once():
    plan = resolve("tcp_12down", ["far.example"], {"length_s": 10, "delay_s": 0})
    assert volume(plan, "down").unlimited_s == 10
    assert volume(plan, "down").at_bytes(80e6) == pytest.approx(100e6, rel=0.01)
