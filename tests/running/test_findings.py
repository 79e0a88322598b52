"""Published findings, measured by whydrop itself in the lab: what a queue does to latency, and to fairness.

Bufferbloat: J. Gettys, K. Nichols, "Bufferbloat: Dark Buffers in the Internet", ACM Queue 9 (2011). Its remedy:
RFC 8290 (FlowQueue-CoDel). The test: D. Täht's RRUL, as Flent defines it. Fairness over distances as in Flent's
rtt_fair; R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness" (1984).

The recordings stay in ``build/lab``; ``make images`` draws those of them that the documentation shows.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lab import Lab, NetworkPath
from running.responders import WHYDROP

RATE_BPS = 10e6
# Room for 1.2 s of full packets at that rate.
FIFO = "pfifo limit 1000"
FIFO_S = 1.2
# Room for 0.12 s, less than the farthest flow's round trip. A FIFO of 1.2 s delays all flows so much that they are
# nearly equally far: it is fair by being slow to everybody.
SHORT_FIFO = "pfifo limit 100"
FLOW_QUEUES = "fq_codel"

LOAD_S = 30


def measured(path: NetworkPath, folder: Path, test: str, title: str, load_s: int) -> dict[str, Any]:
    """Run a test towards all servers of a path, beside a capture of what it sends; what ``--json`` says."""
    with ExitStack() as running:
        running.enter_context(path.client.interfaces["near"].captured(folder / f"{title}.pcap", expression="tcp"))
        for server in path.servers:
            process = server.popen([*WHYDROP, "responder", "--open", "--no-metadata"])
            running.callback(process.kill)
            process.wait_for("port", timeout_s=60)
        targets = [word for server in path.servers for word in ("--to", server.address)]
        done = path.client.run(
            [*WHYDROP, "run", test, *targets, "--duration", f"{load_s}s", "--title", title, "--output", str(folder),
             "--no-plot", "--no-counters", "--json"],
            timeout_s=300,
        )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def rows(document: dict[str, Any], table: str) -> pl.DataFrame:
    from whydrop.recording.recording import Recording

    return Recording.open(document["recording"]).table(table)


def induced_latency_ms(document: dict[str, Any], rtt_ms: float) -> float:
    """The median round-trip time of all UDP probes under load, less that in the idle time before it.

    Args:
        document: of the run, as ``--json`` writes it.
        rtt_ms: of the path without a load.
    """
    flows = rows(document, "flows")
    probes = rows(document, "probes").join(flows.filter(pl.col("kind") == "probe").select("flow"), on="flow")
    load = flows.filter(pl.col("kind") == "tcp")
    begin_ns, end_ns = load["start_ns"].min(), load["end_ns"].max()
    sent = pl.col("sent_ns")
    idle = probes.filter(sent < begin_ns)["rtt_ns"].median()
    # Slow start fills the queue in the first seconds.
    loaded = probes.filter((sent > begin_ns + 5_000_000_000) & (sent < end_ns))["rtt_ns"].median()
    assert isinstance(idle, float)
    assert isinstance(loaded, float)
    assert rtt_ms <= idle / 1e6 < rtt_ms + 10, "nothing but the delay of the path without a load"
    return (loaded - idle) / 1e6


def goodputs_bps(document: dict[str, Any], direction: str, load_s: int) -> list[float]:
    """The goodput of each TCP flow of a direction while the load lasted."""
    flows = rows(document, "flows").filter((pl.col("kind") == "tcp") & (pl.col("direction") == direction))
    return [size * 8 / load_s for size in flows["payload_bytes"]]


def jain(values: list[float]) -> float:
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def named(*files: Path) -> dict[str, tuple[str, str | None, bool]]:
    """Cause, detail, and whether the verdict is sure of it, by direction."""
    words = [*WHYDROP, "explain", *map(str, files), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["verdicts"]
    of_ways = [one for one in found if one["at"] and "direction" in one["at"]]
    return {one["at"]["direction"]: (one["cause"], one["detail"], one["confidence"] > 0.8) for one in of_ways}


@pytest.mark.slow
def test_rrul_over_a_fifo_shows_bufferbloat_and_a_capture_names_the_queue_of_the_uploads(lab: Lab) -> None:
    """In real time, without the delay of a path: what a kernel without netem carries, in half a minute.

    The capture is at the sender of the uploads; its acknowledgments wait in the queue of the downloads. Behind that
    queue it may not name the losses of the downloads, and names nothing else. On a busy machine the captured times are
    of the host too, and the cause is unknown: then it is measured again, once.
    """
    for name in ("short", "again"):
        with lab.path(rate="10mbit", queue="pfifo limit 500") as path:
            document = measured(path, lab.folder, "rrul", name, 15)
        assert document["status"] == "complete", document
        assert 300 < induced_latency_ms(document, rtt_ms=0) < 1300
        words = [*WHYDROP, "explain", str(lab.folder / f"{name}.pcap"), "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        lossy = [one for one in json.loads(done.stdout)["verdicts"] if one["lost"]]
        causes = {one["flows"][0].split(":")[0]: one["cause"] for one in lossy}
        assert causes[path.server.address] in ("deep-queue", "unknown")
        if causes[path.client.address] != "unknown":
            break
    assert causes[path.client.address] == "deep-queue"


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("netem", "fq_codel")
@pytest.mark.parametrize(("queue", "least_ms", "most_ms"), [(FIFO, 500, 1500), (FLOW_QUEUES, 0, 30)])
def test_rrul_induces_half_a_second_over_a_fifo_and_less_than_30_ms_over_fq_codel(
    lab: Lab, queue: str, least_ms: float, most_ms: float
) -> None:
    with lab.path(rate="10mbit", delay="25ms", queue=queue) as path:
        document = measured(path, lab.folder, "rrul", queue.split()[0], LOAD_S)
    assert document["status"] == "complete", document
    assert least_ms < induced_latency_ms(document, rtt_ms=50) < most_ms
    # Slow start takes a full queue's delay to fill the line, and what the queue holds at the end comes too late.
    least_bps = 0.75 * RATE_BPS * (1 - 2 * FIFO_S / LOAD_S)
    assert sum(goodputs_bps(document, "up", LOAD_S)) > least_bps
    assert sum(goodputs_bps(document, "down", LOAD_S)) > least_bps


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("queue", "least_ms", "most_ms", "cause", "detail"),
    [(FIFO, 500, 1500, "deep-queue", "bufferbloat"), (FLOW_QUEUES, 0, 30, "aqm", "flow-queueing")],
)
def test_the_queue_is_named_from_the_recording_alone_and_with_a_capture(
    left_by: Any, queue: str, least_ms: int, most_ms: int, cause: str, detail: str
) -> None:
    name = "test_rrul_induces_half_a_second_over_a_fifo_and_less_than_30_ms_over_fq_codel"
    folder = left_by(f"tests/running/test_findings.py::{name}[{queue}-{least_ms}-{most_ms}]")
    (recording,), (capture,) = folder.glob("*.recording"), folder.glob("*.pcap")
    for files in ([recording], [recording, capture]):
        assert named(*files) == {"up": (cause, detail, True), "down": (cause, detail, True)}


@pytest.mark.exhaustive
@pytest.mark.needs_kernel("netem", "fq_codel")
def test_flows_over_10_to_500_ms_share_a_fifo_less_fairly_than_fq_codel(lab: Lab) -> None:
    index = {}
    for queue in (SHORT_FIFO, FLOW_QUEUES):
        with lab.path(rate="10mbit", delay=["5ms", "25ms", "100ms", "250ms"], queue=queue, servers=4) as path:
            document = measured(path, lab.folder, "rtt_fair_up", queue.split()[0], LOAD_S)
        assert document["status"] == "complete", document
        index[queue] = jain(goodputs_bps(document, "up", LOAD_S))
    (lab.folder / "fairness.json").write_text(json.dumps(index))
    assert index[SHORT_FIFO] < index[FLOW_QUEUES] - 0.02, index
    assert index[FLOW_QUEUES] > 0.85, index


@pytest.mark.exhaustive
def test_the_unfairness_of_a_short_fifo_is_named_from_the_recording_alone(left_by: Any) -> None:
    folder = left_by(
        f"tests/running/test_findings.py::{test_flows_over_10_to_500_ms_share_a_fifo_less_fairly_than_fq_codel.__name__}"
    )
    named = {}
    for queue in (SHORT_FIFO, FLOW_QUEUES):
        (recording,) = folder.glob(f"*.{queue.split()[0]}.recording")
        done = subprocess.run(
            [*WHYDROP, "explain", str(recording), "--json"], capture_output=True, text=True, check=True
        )
        verdicts = json.loads(done.stdout)["verdicts"]
        named[queue] = [one["detail"] for one in verdicts if one["cause"] == "unfairness"]
    assert named == {SHORT_FIFO: ["distance"], FLOW_QUEUES: []}
