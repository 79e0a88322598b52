"""The batch of `examples/queues`: what it sets up and keeps, and what becomes of hosts that cannot do it, or vanish."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.kernel import load_modules
from lab.machine import ROOT
from lab.queues import Hosts, three_hosts
from whydrop.recording.document import read

pytestmark = pytest.mark.slow

# Without delays, so that kernels without netem can do it.
SETTINGS = {"cut": "small", "one_way": "0", "length_small": "2", "delay_s": "1", "queues_small": "queue_pfifo_fast"}
# Says of a queue what a kernel without its module says.
WITHOUT_FQ_CODEL = """#!/bin/sh
case "$*" in *"add"*fq_codel*) echo "Error: Specified qdisc kind is unknown." >&2; exit 2 ;; esac
exec {tc} "$@"
"""
# Makes another queue than it was asked for.
ANOTHER_QUEUE = """#!/bin/sh
exec {tc} $(echo "$@" | sed s/pfifo_fast/pfifo/)
"""


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Hosts]:
    with three_hosts(lab.folder / "hosts") as made:
        yield made


def batch(lab: Lab, hosts: Hosts, *options: str, **changed: str) -> tuple[str, dict[str, Any]]:
    """Output of the batch, and its runs by their keys, as its state has them."""
    folder = lab.folder / "queues"
    shutil.copytree(ROOT / "examples/queues", folder, dirs_exist_ok=True)
    settings = {**hosts.settings(), **SETTINGS, **changed}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    chosen = [] if "--resume" in options else ["-b", "rrul", "--no-shuffle", *words]
    path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["env", path, "whydrop", "batch", "run", str(folder / "queues.toml"), "-o", str(lab.folder), *chosen]
    done = hosts.client.run([*command, *options], check=False, timeout_s=600)
    runs = json.loads((lab.folder / "queues.batch-state.json").read_text())["runs"]
    return done.stdout + done.stderr, runs


def stub_tc(hosts: Hosts, text: str) -> None:
    """Put another program before the router's ``tc``."""
    folder = hosts.folder / "stub"
    folder.mkdir()
    (folder / "tc").write_text(text.format(tc=shutil.which("tc", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")))
    (folder / "tc").chmod(0o755)
    script = hosts.folder / "router"
    script.write_text(script.read_text().replace('"$@"', f'env PATH={folder}:"$PATH" "$@"'))


def recordings(lab: Lab) -> list[Path]:
    return sorted((lab.folder / "rrul").glob("*.recording"))


@pytest.mark.needs_kernel("pfifo")
def test_a_run_keeps_the_queues_that_tc_shows(lab: Lab, hosts: Hosts) -> None:
    hosts.start_responder()
    said, runs = batch(lab, hosts, "--repetitions", "1")
    assert [run["status"] for run in runs.values()] == ["complete"], said
    [folder] = recordings(lab)
    kept = read(folder)["batch"]
    assert (kept["variables"]["line"], kept["variables"]["queue"]) == ("10/10", "pfifo_fast")
    for side in ("queue-up", "queue-down"):
        outer, inner = kept["outputs"][side]
        assert (outer["kind"], inner["kind"]) == ("htb", "pfifo_fast")
        assert inner["packets"] > 1000
        assert kept["outputs"][f"{side}-before"][1]["packets"] < 100
    flows = read(folder)["test"]["flows"]
    starts = {flow["start_s"] for flow in flows if flow["kind"] == "tcp"}
    assert len(starts) == 8
    assert all(1.0 <= start < 1.2 for start in starts)


@pytest.mark.needs_kernel("netem", "fq_codel")
def test_a_cell_of_the_study_in_virtual_time(lab: Lab, hosts: Hosts) -> None:
    """The hosts delay what arrives, the queue is the one of the cell, and it keeps the latency of the load low."""
    import polars as pl

    load_modules(("ifb", "act_mirred"))
    hosts.start_responder()
    said, runs = batch(
        lab, hosts, "--repetitions", "1", one_way="25", queues_small="queue_fq_codel", length_small="6", delay_s="2"
    )
    assert [run["status"] for run in runs.values()] == ["complete"], said
    [folder] = recordings(lab)
    assert read(folder)["batch"]["outputs"]["queue-up"][1]["kind"] == "fq_codel"
    probes = pl.read_parquet(folder / "probes.parquet").drop_nulls("rtt_ns")
    start_ns = probes["sent_ns"].min()
    idle = probes.filter(pl.col("sent_ns") - start_ns < 1_500_000_000)["rtt_ns"]
    load = probes.filter((pl.col("sent_ns") - start_ns).is_between(4_000_000_000, 7_000_000_000))["rtt_ns"]
    assert idle.median() == pytest.approx(50e6, rel=0.03)
    assert 50e6 < load.median() < 75e6


@pytest.mark.needs_kernel("pfifo")
def test_a_queue_that_the_kernel_lacks_is_skipped_with_its_reason(lab: Lab, hosts: Hosts) -> None:
    hosts.start_responder()
    stub_tc(hosts, WITHOUT_FQ_CODEL)
    said, runs = batch(lab, hosts, "--repetitions", "1", queues_small="queue_pfifo_fast,queue_fq_codel")
    assert [run["status"] for run in runs.values()] == ["complete", "skipped"], said
    assert "this kernel or its tc has no fq_codel" in said
    assert len(recordings(lab)) == 1


@pytest.mark.needs_kernel("pfifo")
def test_a_wrong_queue_stops_the_run_before_it_begins(lab: Lab, hosts: Hosts) -> None:
    hosts.start_responder()
    stub_tc(hosts, ANOTHER_QUEUE)
    said, runs = batch(lab, hosts, "--repetitions", "1")
    assert [run["status"] for run in runs.values()] == ["failed"]
    assert "expected the queue pfifo_fast, but it has: qdisc" in said
    assert recordings(lab) == []


@pytest.mark.needs_kernel("pfifo")
def test_any_other_error_of_tc_stops_the_run_with_what_tc_said(lab: Lab, hosts: Hosts) -> None:
    hosts.start_responder()
    said, runs = batch(lab, hosts, "--repetitions", "1", router_up="eth9")
    assert [run["status"] for run in runs.values()] == ["failed"]
    assert "eth9" in said
    assert recordings(lab) == []


@pytest.mark.needs_kernel("pfifo")
def test_a_server_that_dies_in_mid_batch_costs_its_runs_until_it_is_back(lab: Lab, hosts: Hosts) -> None:
    responder = hosts.start_responder()
    server, calls = hosts.folder / "server", hosts.folder / "calls"
    # It is set up before each run, and dies before the second one.
    dying = f'#!/bin/sh\necho >>{calls}\n[ "$(wc -l <{calls})" != 2 ] || kill -9 {responder.pid}\n'
    server.write_text(server.read_text().replace("#!/bin/sh\n", dying))
    said, runs = batch(lab, hosts, "--repetitions", "3")
    assert [run["status"] for run in runs.values()] == ["complete", "failed", "failed"], said
    assert f"nothing listens at {hosts.server.address}:17370" in said
    kept = recordings(lab)
    assert len(kept) == 1
    hosts.start_responder()
    said, runs = batch(lab, hosts, "--resume")
    assert [run["status"] for run in runs.values()] == ["complete"] * 3, said
    assert len(recordings(lab)) == 3
    assert set(kept) <= set(recordings(lab))
