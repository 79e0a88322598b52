"""``whydrop tests``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whydrop.measure.tests import names


@pytest.mark.slow
def test_the_list_shows_every_test_with_its_title_under_its_family(run) -> None:
    done = run("tests")
    assert done.returncode == 0, done.stderr
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert sorted(listed) == names()
    assert "Realtime Response Under Load and its variants" in done.stdout
    assert all(len(line) <= 110 for line in done.stdout.splitlines())


def test_the_list_is_data_on_request(run_here) -> None:
    tests = json.loads(run_here("tests", "--json").stdout)
    assert {"name": "tcp_2up", "family": "tcp", "title": "2 TCP uploads at once", "variant_of": "tcp_nup"} in tests


def test_a_test_is_explained_with_its_flows_parameters_plots_and_an_example(run_here) -> None:
    done = run_here("tests", "rrul")
    assert done.returncode == 0, done.stderr
    for part in ("TCP upload CS5", "every 20.0 ms", "Takes 70.0 s.", "probe_interval_s", "all (default)"):
        assert part in done.stdout.replace("\xa0", " ")
    assert "whydrop run rrul --to" in done.stdout
    assert all(len(line) <= 110 for line in done.stdout.splitlines())


@pytest.mark.slow
def test_flows_that_differ_in_their_number_only_share_a_row(run_here) -> None:
    assert "TCP upload BE::1 to 1000 (1 000 flows)" in run_here("tests", "tcp_upload_1000").stdout


def test_a_test_is_data_on_request(run_here) -> None:
    found = json.loads(run_here("tests", "voip-1up", "--json").stdout)
    assert found["variant_of"] == "voip"
    assert found["total_s"] == 70
    assert {flow["name"] for flow in found["flows"]} == {"VoIP", "TCP upload"}
    assert found["parameters"]["voip_host"]["value"] == "HOST"


def test_a_file_of_ones_own_is_explained_and_checked_by_its_path(tmp_path: Path, run_here) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('title = "mine"\nextends = "ping"\n')
    assert "mine: mine" in run_here("tests", mine).stdout
    done = run_here("tests", "check", mine)
    assert (done.returncode, done.stdout) == (0, f"{mine}: a well-formed test\n")


def test_an_unknown_name_is_answered_with_a_near_one(run_here) -> None:
    done = run_here("tests", "rrul_bee")
    assert done.returncode == 2
    assert "did you mean rrul_be?" in done.stderr


def test_the_dry_run_of_a_test_shows_its_flows_and_what_another_program_changes(run_here) -> None:
    done = run_here("run", "voip-1up", "--to", "192.0.2.1", "--with", "iperf3", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "by iperf3" in done.stdout
    assert "VoIP: measured by ICMP echo" in done.stdout
