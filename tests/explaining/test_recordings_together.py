"""A recording and a capture of the same test give one verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recordings
from explaining.made_recordings import MadePath, Queue, record
from whydrop.explaining.recordings import together
from whydrop.explaining.recordings.findings import Finding, Place, Quantity, Subject
from whydrop.explaining.recordings.measures import scene as scenes
from whydrop.explaining.recordings.measures.scene import Scene

# Where the flows of the recording go to.
FAR = "192.0.2.7"
UP, DOWN = f"198.51.100.1:40001 > {FAR}:5201", f"{FAR}:5201 > 198.51.100.1:40002"


@pytest.fixture(scope="module")
def rrul(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    scene = scenes.measure(recordings.rrul(tmp_path_factory.mktemp("rrul") / "rrul.recording"))
    assert scene is not None
    return scene


def seen(cause: str, flow: str, confidence: float = 0.9, **changes: Any) -> dict[str, Any]:
    """A capture's verdict on a flow, before it is put into words."""
    fact = {"code": "retransmitted", "values": {"retransmitted": 96, "spurious": 0}}
    verdict = {"cause": cause, "confidence": confidence, "flows": [flow], "lost": 96, "explained": 1.0}
    verdict |= {"limited_share": 1.0, "parameters": {}, "byte_basis": None, "at": None, "detail": None, "family": None}
    return verdict | {"models": [], "facts": [fact], "against": [], "throughput_lost": None} | changes


def judged(scene: Scene, *found: dict[str, Any], far: str = FAR) -> list[dict[str, Any]]:
    return together.verdicts([scene], [far], {"verdicts": list(found), "pair": None})


def upstream(found: list[dict[str, Any]]) -> dict[str, Any]:
    return next(one for one in found if (one["place"] or "").startswith("upstream"))


def test_what_both_show_makes_one_verdict_that_is_surer_with_the_evidence_of_both(rrul: Scene) -> None:
    alone, both = upstream(judged(rrul)), upstream(judged(rrul, seen("deep-queue", UP)))
    assert alone["cause"] == both["cause"] == "deep-queue"
    assert both["confidence"] > alone["confidence"]
    assert sorted(both["sources"]) == ["capture", "recording"]
    assert UP in both["flows"]
    assert set(alone["flows"]) < set(both["flows"])
    assert set(alone["evidence"]) < set(both["evidence"])
    assert any("96 packets were retransmitted" in line for line in both["evidence"])


def test_what_a_capture_rules_out_is_not_said(rrul: Scene) -> None:
    reason = {"code": "no-queue", "values": {"more_s": 0.0, "queue_s": 0.018}}
    policer = seen("policer", UP, against=[{"cause": "deep-queue", "fact": reason}])
    found = upstream(judged(rrul, policer))
    assert found["cause"] == "policer"
    assert found["sentence"].startswith("A policer")
    assert "deep-queue" in {one["cause"] for one in found["against"]}


def test_what_is_less_sure_than_the_probes_gives_way_to_them(rrul: Scene) -> None:
    found = upstream(judged(rrul, seen("random-loss", UP, confidence=0.6)))
    assert found["cause"] == "deep-queue"
    assert "random-loss" in {one["cause"] for one in found["against"]}


def test_what_a_capture_is_sure_of_is_not_displaced_and_its_losses_are_counted_as_it_does(rrul: Scene) -> None:
    found = upstream(judged(rrul, seen("random-loss", UP, confidence=0.88)))
    assert (found["cause"], found["lost"]) == ("random-loss", 96)
    assert found["confidence"] >= 0.88


def test_samples_that_say_little_for_a_cause_do_not_speak_against_packets_that_show_it() -> None:
    subject, place = Subject(("TCP upload",)), Place("path", "up")
    background = Finding(subject, place, "unknown", 0.0, lost=99)
    weak = Finding(subject, place, "random-loss", -2.3, lost=99, quantities={"loss_rate": Quantity(0.01)})
    rival = Finding(subject, place, "shaper", 3.0)
    captured = seen("random-loss", UP, confidence=0.88, parameters={"loss_probability": {"value": 0.005}})
    left = together.beside([background, weak, rival], captured)
    assert [(one.cause, one.nats, one.lost) for one in left] == [("unknown", 0.0, 0), ("random-loss", 0.0, 0)]
    assert not left[1].quantities
    doubtful = captured | {"confidence": 0.6}
    assert rival in together.beside([background, weak, rival], doubtful)


def test_a_connection_that_carries_no_load_does_not_speak_for_those_that_do(rrul: Scene) -> None:
    control = f"198.51.100.1:40000 > {FAR}:5201"
    captured = {"verdicts": [seen("sender", control, lost=0), seen("policer", UP)], "pair": None}
    found = together.verdicts([rrul], [FAR], captured, connections={UP: "TCP upload BE"})
    assert upstream(found)["cause"] == "policer"
    assert any(one["flows"] == [control] for one in found)


def test_a_reset_of_a_connection_takes_nothing_from_the_queue_that_all_waited_in(rrul: Scene) -> None:
    found = judged(rrul, seen("reset", UP, confidence=0.95, lost=0), seen("none", UP, confidence=0.6, lost=0))
    assert upstream(found)["cause"] == "deep-queue"
    assert any(one["cause"] == "reset" and one["flows"] == [UP] for one in found)


def test_probes_that_wait_for_longer_than_any_queue_management_lets_them_rule_it_out(tmp_path: Path) -> None:
    path = MadePath(Queue(10e6, 1000), Queue(10e6, 1000), uploads=4, downloads=4, one_way=True)
    scene = scenes.measure(record(tmp_path / "full.recording", path))
    assert scene is not None
    found = upstream(judged(scene, seen("aqm", UP, confidence=1.0)))
    assert found["cause"] == "deep-queue"
    why = next(one["why"] for one in found["against"] if one["cause"] == "aqm")
    assert "half of all probes were queued" in why


def test_other_hosts_and_mixed_directions_stand_by_themselves(rrul: Scene) -> None:
    alone = upstream(judged(rrul))
    for flows, far in (([UP], "203.0.113.9"), ([UP, DOWN], FAR)):
        found = judged(rrul, seen("policer", UP, flows=flows), far=far)
        assert upstream(found) == alone
        assert any(one["cause"] == "policer" and one["flows"] == flows for one in found)


def test_the_second_verdict_on_a_direction_stands_beside_the_first(rrul: Scene) -> None:
    found = judged(rrul, seen("deep-queue", UP), seen("random-loss", UP))
    assert upstream(found)["cause"] == "deep-queue"
    assert [one["cause"] for one in found if "sources" not in one] == ["random-loss"]


def test_a_recording_without_its_hosts_addresses_joins_nothing(rrul: Scene, tmp_path: Path) -> None:
    found = together.verdicts([rrul], [], {"verdicts": [seen("policer", UP)], "pair": None})
    assert "policer" not in upstream(found)["sources"]
    assert any(one["cause"] == "policer" for one in found)
