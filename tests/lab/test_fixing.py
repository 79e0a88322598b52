"""The loop closed: a path is measured, explained, mended where this host can mend it, and the mend is proved."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest

from example_files import POLICED
from lab import Lab
from lab.path import NetworkPath

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("tcpdump")]

WHYDROP = [sys.executable, "-m", "whydrop"]


def fixed(lab: Lab, path: NetworkPath, *options: str) -> dict[str, Any]:
    """What `whydrop fix --apply` says of a path."""
    far = path.server.popen([*WHYDROP, "responder", "--open"])
    far.wait_for("port")
    page = str(lab.folder / "fix.html")
    words = ["fix", path.server.address, "--apply", "--json", "--report", page, "--output", str(lab.folder / "runs")]
    environment = {**os.environ, "XDG_STATE_HOME": str(lab.folder / "state")}
    done = path.client.run([*WHYDROP, *words, *options], env=environment, check=False)
    assert done.returncode in (0, 1), done.stderr
    if not done.stdout:
        pytest.fail(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    (lab.folder / "fix.json").write_text(json.dumps(found, indent=1))
    assert "Nothing" in found["outcome"] or "proof" in (lab.folder / "fix.html").read_text()
    return found


def effect(found: dict[str, Any], metric: str) -> dict[str, Any]:
    return next(one for one in found["proof"]["effects"] if one["metric"] == metric)


def kinds(path: NetworkPath) -> list[str]:
    return [qdisc["kind"] for qdisc in path.client.interfaces["near"].qdiscs()]


@pytest.mark.needs_kernel("netem", "htb", "tbf", "pfifo", "fq")
def test_a_shallow_queue_is_mended_by_pacing(lab: Lab) -> None:
    with lab.path(rate="20mbit", queue="pfifo limit 6", delay="25ms") as path:
        found = fixed(lab, path, "--length", "6s")
        assert found["verdict"]["cause"] in ("shallow-queue", "policer")
        assert found["kept"]
        assert effect(found, "goodput-up")["with"] > 1.3 * effect(found, "goodput-up")["without"]
        assert effect(found, "retransmits")["with"] < 0.01
        assert "htb" in kinds(path)


@pytest.mark.needs_kernel("netem", "police", "htb", "tbf", "fq")
def test_a_policer_is_mended_by_pacing(lab: Lab) -> None:
    with lab.path(rate="100mbit", queue="pfifo limit 1000", delay="20ms", police="rate 20mbit burst 12k") as path:
        found = fixed(lab, path, "--length", "6s")
        assert found["verdict"]["cause"] in ("policer", "shallow-queue")
        assert found["kept"]
        assert effect(found, "goodput-up")["with"] > 1.3 * effect(found, "goodput-up")["without"]
        assert effect(found, "retransmits")["with"] < 0.01


@pytest.mark.needs_kernel("netem", "htb", "bfifo", "fq_codel")
def test_bufferbloat_on_this_hosts_own_egress_is_mended_by_fq_codel(lab: Lab) -> None:
    with lab.path(delay="10ms") as path:
        own = path.client.interfaces["near"]
        path.shape(own, "10mbit", "bfifo limit 400000")
        found = fixed(lab, path, "--flows", "24", "--length", "4s")
        assert "fq_codel" in found["fix"]["words"]
        assert found["kept"]
        assert effect(found, "rtt-median")["with"] < 0.6 * effect(found, "rtt-median")["without"]
        assert kinds(path) == ["htb", "fq_codel"]


@pytest.mark.needs_kernel("netem", "htb", "pfifo")
def test_random_loss_is_left_alone_with_the_reason(lab: Lab) -> None:
    with lab.path(rate="50mbit", queue="pfifo limit 1000", delay="10ms", loss="1%") as path:
        found = fixed(lab, path, "--length", "6s")
        assert found["verdict"]["cause"] in ("random-loss", "unknown")
        assert found["fix"] is None
        assert found["why_not"]
        assert kinds(path) == ["noqueue"]


@pytest.mark.needs_kernel("netem", "htb", "tbf", "pfifo", "fq")
def test_a_fix_that_does_not_help_is_taken_back(lab: Lab) -> None:
    """The capture is of another path, with a policer at 20 Mbit/s; this one carries 50."""
    with lab.path(rate="50mbit", queue="pfifo limit 300", delay="10ms") as path:
        found = fixed(lab, path, "--from", str(POLICED), "--length", "4s")
        assert "htb" in " ".join(found["fix"]["commands"])
        assert not found["kept"]
        assert "taken back" in found["outcome"]
        assert kinds(path) == ["noqueue"]
