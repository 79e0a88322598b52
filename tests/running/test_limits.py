"""Limits of a responder to its clients: no more than its limit, and said to be its limit and not the path."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from running.responders import Program, responder
from whydrop.recording.recording import Recording

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]

RATE_BPS = 4e6


def flow(*lines: str) -> str:
    """A test of one flow from here, of a second."""
    common = ("[[flows]]", 'name = "Flow"', 'direction = "up"', "start_s = 0", "duration_s = 1")
    return "\n".join(('title = "A flow"', *common, *lines, ""))


def only_recording(folder: Path) -> Recording:
    (found,) = folder.glob("*.recording")
    return Recording.open(found)


def test_uploads_are_as_fast_as_the_responder_allows_and_the_run_says_so(
    run: Run, program: Program, tmp_path: Path
) -> None:
    with responder("--open", "--max-rate", "4mbit", program=program) as far:
        done = run(
            "run", "tcp_2up", "--to", far.place, "--duration", "2s", "--set", "delay=0", "--output", tmp_path,
            "--no-plot",
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the responder's limit for one client, not the path, set the rate" in done.stderr
    intervals = only_recording(tmp_path).table("intervals")
    assert intervals["flow"].n_unique() == 2
    span_s = (intervals["end_ns"].max() - intervals["start_ns"].min()) / 1e9
    received_bits = intervals["payload_bytes"].sum() * 8
    # A session may be ahead by a tenth of a second.
    assert 0 < received_bits <= RATE_BPS * (span_s + 0.11)


def test_a_test_below_the_limit_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(flow('kind = "tcp"', 'rate_bps = "1 Mbit/s"'))
    with responder("--open", "--max-rate", "100mbit") as far:
        done = run("run", tmp_path / "slow.toml", "--to", far.place, "--output", tmp_path, "--no-plot")
    assert (done.returncode, done.stderr) == (0, "")
    facts = only_recording(tmp_path).table("flows")["facts"].item()
    assert "held_" not in facts


def test_udp_that_would_be_too_fast_is_refused_before_it_starts(run: Run, program: Program, tmp_path: Path) -> None:
    (tmp_path / "fast.toml").write_text(flow('kind = "udp"', 'rate_bps = "9 Mbit/s"'))
    with responder("--open", "--max-rate", "4mbit", program=program) as far:
        done = run("run", tmp_path / "fast.toml", "--to", far.place, "--output", tmp_path, "--no-plot")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "this responder takes at most 4000000 bit/s (--max-rate)" in done.stderr
    assert not list(tmp_path.glob("*.recording"))


def test_probes_and_uploads_share_the_limit(run: Run, tmp_path: Path) -> None:
    (tmp_path / "both.toml").write_text(
        flow('kind = "tcp"') + '[[flows]]\nname = "Probe"\nkind = "probe"\nstart_s = 0\nduration_s = 1\n'
    )
    with responder("--open", "--max-rate", "4mbit") as far:
        done = run("run", tmp_path / "both.toml", "--to", far.place, "--output", tmp_path, "--no-plot")
    assert done.returncode == 0, done.stderr
    probes = only_recording(tmp_path).table("probes")
    # Reading slowly slows the upload down; it costs no probe.
    assert probes.filter(pl.col("fate").str.starts_with("lost")).height == 0
