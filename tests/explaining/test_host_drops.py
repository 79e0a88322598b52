"""Verdicts from what the host of a recording dropped itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

import recordings
from whydrop.explaining.recordings.document import explain
from whydrop.recording.writer import RecordingWriter

S, START_NS = recordings.S, recordings.START_NS
LOCAL, REMOTE = "192.0.2.1:49152", "198.51.100.7:443"
DROP = {
    "start_ns": START_NS, "end_ns": START_NS + S // 10, "reason": "QDISC_DROP", "location": "__dev_queue_xmit",
    "protocol": "tcp", "interface": "eth0", "arrived_by": None, "source": LOCAL, "destination": REMOTE,
    "packets": 10, "bytes": 15000, "here": True,
}  # fmt: skip
AGAIN = {
    "start_ns": START_NS, "end_ns": START_NS + S // 10, "source": LOCAL, "destination": REMOTE,
    "packets": 4, "payload_bytes": 5792, "reason": "QDISC_DROP", "location": "__dev_queue_xmit",
}  # fmt: skip
FLOW = {
    "flow": 0, "name": f"{LOCAL} > {REMOTE}", "kind": "tcp", "direction": "up", "runner": "kernel",
    "host": "198.51.100.7", "start_ns": START_NS, "end_ns": START_NS + 10 * S, "status": "complete",
    "facts": json.dumps({"older": True}),
}  # fmt: skip


def verdicts(folder: Path, **tables: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Those that name a drop of the host, by reason."""
    metadata = {"name": "watch", "title": "", "note": "", "started_ns": START_NS, "ended_ns": START_NS + 10 * S}
    writer = RecordingWriter(folder / "x.recording", {**metadata, "test": {"step_s": 0.2}})
    for name, rows in tables.items():
        writer.append(name, pl.DataFrame(rows, infer_schema_length=None))
    found = explain(writer.finish("complete")).document()["verdicts"]
    return {one["detail"]: one for one in found if one["cause"] == "host-drop"}


def codes(verdict: dict[str, Any]) -> list[str]:
    """Of its facts."""
    return [fact["code"] for fact in verdict["facts"]]


def test_drops_of_a_connection_are_attributed_to_its_sender_with_what_was_retransmitted(tmp_path: Path) -> None:
    elsewhere = {**AGAIN, "packets": 3, "reason": None, "location": None}
    (found,) = verdicts(tmp_path, flows=[FLOW], drops=[DROP], retransmissions=[AGAIN, elsewhere]).values()
    assert (found["lost"], found["at"], found["flows"]) == (10, {"kind": "sender", "direction": "up"}, [FLOW["name"]])
    assert codes(found) == ["dropped-here", "retransmitted-after-local-drops", "local-stall", "watched-too-late"]
    assert found["facts"][1]["values"] == {"laid": 4, "count": 7}
    # The queue refused the packets that were not retransmitted, and TCP kept them.
    assert found["facts"][2]["values"] == {"packets": 6}
    assert any("tc -s qdisc" in line for line in found["advice"])


def test_a_retransmission_without_a_drop_here_is_attributed_to_no_host(tmp_path: Path) -> None:
    elsewhere = {**AGAIN, "reason": None, "location": None}
    ignored = {**DROP, "reason": "TCP_OLD_DATA"}
    assert verdicts(tmp_path, flows=[FLOW], drops=[ignored], retransmissions=[elsewhere]) == {}


def test_what_brought_nothing_new_is_named_only_where_it_had_to_be_retransmitted(tmp_path: Path) -> None:
    rows = [{**DROP, "reason": "NOT_SPECIFIED"}, {**DROP, "reason": "TCP_RESET"}]
    again = {**AGAIN, "reason": "NOT_SPECIFIED"}
    assert set(verdicts(tmp_path, flows=[FLOW], drops=rows, retransmissions=[again])) == {"NOT_SPECIFIED"}


def test_drops_of_an_unknown_namespace_are_no_verdict(tmp_path: Path) -> None:
    rows = [{**DROP, "here": None}, {**DROP, "reason": "NETFILTER_DROP"}]
    assert set(verdicts(tmp_path, flows=[FLOW], drops=rows)) == {"NETFILTER_DROP"}


def test_drops_alone_can_be_explained_and_what_was_not_counted_is_said(tmp_path: Path) -> None:
    arrived = {
        **DROP, "reason": "SOCKET_RCVBUFF", "protocol": "udp", "arrived_by": "eth0", "source": "203.0.113.9:5000",
        "destination": "192.0.2.1:53",
    }  # fmt: skip
    many = [{**arrived, "source": None, "destination": None, "packets": 90}, arrived]
    counter = {"host": "local", "source": "drops", "object": "monitor", "counter": "lost_events", "cumulative": True}
    lost = [{**counter, "time_ns": START_NS, "value": 0.0}, {**counter, "time_ns": START_NS + S, "value": 12.0}]
    (found,) = verdicts(tmp_path, drops=many, counters=lost).values()
    assert (found["lost"], found["at"], found["flows"]) == (100, None, ["udp", "203.0.113.9:5000 > 192.0.2.1:53"])
    assert codes(found) == ["dropped-here", "drops-not-counted"]
    assert found["facts"][1]["values"] == {"count": 12}
    assert found["sentence"].startswith("This host dropped 100 packets of udp")
