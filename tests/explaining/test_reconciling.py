"""The loss rate of a UDP stream beside TCP's own signals, in a recording that has both."""

from __future__ import annotations

from dataclasses import replace

import pytest

import recordings
from plain_text import plain
from whydrop.explaining.recordings.causes import reconciling
from whydrop.explaining.recordings.findings import Fact
from whydrop.explaining.recordings.measures import scene as scenes
from whydrop.explaining.recordings.measures.loads import Datagrams
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.measures.signals import Signals
from whydrop.explaining.recordings.wording import phrase


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    found = scenes.measure(recordings.rrul(tmp_path_factory.mktemp("rrul") / "rrul.recording"))
    assert found is not None
    return found


def facts(scene: Scene, udp_lost: int, retransmitted: float, signals: int) -> tuple[Fact, ...]:
    """10 000 datagrams and 100 000 segments of TCP, with these losses."""
    load = replace(
        scene.loads["up"], datagrams=Datagrams(10_000, udp_lost), retransmitted=retransmitted, segments=100_000.0
    )
    one = load.flows[0]
    seen = [Signals(one, signals, {"fast-retransmit": signals}, 0, None, "samples")]
    changed = replace(scene, loads={**scene.loads, "up": load}, signals=seen)
    return reconciling.facts(changed, load.names)


def test_equal_loss_rates_agree_and_losses_in_groups_are_said(scene: Scene) -> None:
    (fact,) = facts(scene, udp_lost=50, retransmitted=500.0, signals=100)
    assert fact.values["agrees"] is True
    assert fact.values["expected_per_s"] == pytest.approx(fact.values["retransmitted_per_s"])
    said = plain(phrase({"code": fact.code, "values": fact.values}))
    assert "lost 0.50 %" in said
    assert "the two agree" in said
    assert "TCP reacts once a round trip" in said


@pytest.mark.parametrize(("retransmitted", "word"), [(2000.0, "more"), (20.0, "less")])
def test_different_loss_rates_do_not_agree(scene: Scene, retransmitted: float, word: str) -> None:
    (fact,) = facts(scene, udp_lost=50, retransmitted=retransmitted, signals=round(retransmitted))
    assert fact.values["agrees"] is False
    assert f"TCP lost {word} often" in phrase({"code": fact.code, "values": fact.values})


def test_a_recording_with_one_of_the_two_says_nothing_of_the_other(scene: Scene) -> None:
    assert reconciling.facts(scene, scene.names) == ()
    assert facts(scene, udp_lost=1, retransmitted=2.0, signals=2) == ()
