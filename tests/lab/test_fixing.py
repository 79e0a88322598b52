"""The closed loop: a path is measured, explained, fixed where this host can fix it, and the fix is proved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from example_files import POLICED
from lab import Lab
from lab.far_path import WHYDROP, FarPath, far_path

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("tcpdump")]


def said(lab: Lab, done: Any) -> dict[str, Any]:
    """The document that `whydrop fix --json` printed; it is left in the test's folder, with its page."""
    assert done.returncode in (0, 1), done.stderr
    if not done.stdout:
        pytest.fail(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    (lab.folder / "fix.json").write_text(json.dumps(found, indent=1))
    page = (lab.folder / "fix.html").read_text()
    assert found["outcome"].split(";")[0] in page
    assert ('id="proof"' in page) == (found["proof"] is not None)
    return found


def options(lab: Lab, server: str, *more: str) -> list[str]:
    page, runs = str(lab.folder / "fix.html"), str(lab.folder / "runs")
    return ["fix", server, "--apply", "--json", "--report", page, "--output", runs, *more]


# On a busy machine the hop of our own is late, delays show nothing, and runs vary by more than a fix brings: then no
# cause is named or nothing is kept, and it is played again.
TRIES = 3


def fixed(lab: Lab, path: FarPath, *more: str, kept: bool = True) -> dict[str, Any]:
    """The document of `whydrop fix --apply` for a path."""
    for _ in range(TRIES):
        found = said(lab, path.whydrop(*options(lab, path.server.address, *more)))
        if found["kept"] or (not kept and found["verdict"]["cause"] != "unknown"):
            break
    return found


def effect(found: dict[str, Any], metric: str) -> dict[str, Any]:
    return next(one for one in found["proof"]["effects"] if one["metric"] == metric)


@pytest.mark.needs_kernel("htb", "tbf", "pfifo")
def test_a_shallow_queue_is_mended_by_pacing(lab: Lab) -> None:
    with far_path(lab, rate="10mbit", queue="pfifo limit 6", delay_s=0.025) as path:
        found = fixed(lab, path)
        assert found["verdict"]["cause"] == "shallow-queue"
        assert found["kept"], found["outcome"]
        # Of 10 Mbit/s, headers included.
        assert effect(found, "goodput-up")["with"] > 7.5
        assert "buffer" in found["for_the_other_side"]
        assert "htb" in path.kinds()


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("htb", "tbf", "bfifo")
def test_a_fix_that_costs_goodput_says_so_in_its_first_sentence_and_before_it_is_tried(lab: Lab) -> None:
    """Pacing below the rate of a long queue elsewhere: hardly any delay, for some of the goodput."""
    with far_path(lab, rate="10mbit", queue="bfifo limit 400000", delay_s=0.01) as path:
        found = fixed(lab, path, "--duration", "8s")
        assert found["verdict"]["cause"] == "deep-queue"
        assert found["kept"], found["outcome"]
        goodput = effect(found, "goodput-up")
        share = 1 - goodput["with"] / goodput["without"]
        first = found["outcome"].partition(". ")[0]
        assert ("at the price of goodput −" in first) == (share >= 0.02), (share, first)
        assert [one["metric"] for one in found["proof"]["price"] if share >= 0.02] == ["goodput-up"] * (share >= 0.02)
        assert "less goodput" in found["fix"]["expected"] or "as much goodput" in found["fix"]["expected"]


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("htb", "tbf")
def test_a_policer_is_mended_by_pacing(lab: Lab) -> None:
    with far_path(lab, delay_s=0.02, police=(10e6, 12_000)) as path:
        found = fixed(lab, path)
        assert found["verdict"]["cause"] == "policer"
        assert found["kept"], found["outcome"]
        assert effect(found, "goodput-up")["with"] > 1.3 * effect(found, "goodput-up")["without"]
        assert "CBS" in found["for_the_other_side"]


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("htb", "tbf")
def test_random_loss_is_left_alone_with_the_reason(lab: Lab) -> None:
    with far_path(lab, delay_s=0.01, loss=0.01) as path:
        found = said(lab, path.whydrop(*options(lab, path.server.address, "--duration", "20s")))
        # With too few losses to distinguish chance from a policer, no cause is named.
        assert found["verdict"]["cause"] in ("random-loss", "unknown")
        assert found["fix"] is None
        assert "neither pacing" in found["why_not"] or "not certain enough" in found["why_not"]
        assert path.kinds() == ["noqueue"]


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("htb", "tbf", "pfifo")
def test_a_fix_that_does_not_help_is_taken_back(lab: Lab) -> None:
    """The capture is of another path, with a policer at 20 Mbit/s; this one carries more."""
    with far_path(lab, rate="30mbit", queue="pfifo limit 300", delay_s=0.005) as path:
        found = fixed(lab, path, "--from", str(POLICED), "--duration", "3s", kept=False)
        assert "htb" in " ".join(found["fix"]["commands"])
        assert not found["kept"]
        assert "reverted" in found["outcome"]
        assert path.kinds() == ["noqueue"]


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("netem", "htb", "bfifo", "fq_codel")
def test_bufferbloat_on_this_hosts_own_egress_is_mended_by_fq_codel(lab: Lab) -> None:
    with lab.path(delay="10ms") as path:
        own = path.client.interfaces["near"]
        path.shape(own, "10mbit", "bfifo limit 400000")
        path.server.popen([*WHYDROP, "responder", "--open"]).wait_for("port")
        words = options(lab, path.server.address, "--flows", "24", "--duration", "4s")
        environment = FarPath(path.client, path.server, lab.folder / "state").environment
        found = said(lab, path.client.run([*WHYDROP, *words], env=environment, check=False))
        assert "fq_codel" in found["fix"]["words"]
        assert found["kept"], found["outcome"]
        assert effect(found, "rtt-median")["with"] < 0.6 * effect(found, "rtt-median")["without"]
        assert [qdisc["kind"] for qdisc in own.qdiscs()] == ["htb", "fq_codel"]


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("bbr", "tbf", "bfifo")
def test_where_this_hosts_queue_is_somebodys_flows_of_ones_own_use_bbr(lab: Lab) -> None:
    """The queue stands on the path, and the interface has a queue of somebody's that is left as it is."""
    with far_path(lab, rate="10mbit", queue="bfifo limit 400000", delay_s=0.02) as path:
        own = path.client.interfaces["line"]
        own.tc("qdisc add dev {} root handle 7: pfifo limit 500")
        found = fixed(lab, path)
        assert found["verdict"]["cause"] == "deep-queue"
        assert "BBR" in found["fix"]["words"]
        assert found["fix"]["commands"] == ["sysctl -w net.ipv4.tcp_congestion_control=bbr"]
        assert found["kept"], found["outcome"]
        assert effect(found, "rtt-median")["with"] < 0.5 * effect(found, "rtt-median")["without"]
        assert [qdisc["kind"] for qdisc in own.qdiscs()] == ["pfifo"]
