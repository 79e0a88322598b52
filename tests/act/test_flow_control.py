"""Flow control as a fix: where it is indicated, its messages, and what is kept for rolling it back."""

from __future__ import annotations

import errno
import ipaddress
import os
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import recordings
from whydrop.act import applying, fixing, flow_control, pause_remedy, pauses, reverting, state
from whydrop.act.changes import CannotChangeError
from whydrop.act.fixing import Evidence, NoRemedy, Remedy
from whydrop.act.pacing import Route
from whydrop.act.pauses import Pauses, Setting
from whydrop.act.snapshot import Request, Snapshot
from whydrop.act.state import Entry
from whydrop.api import changing
from whydrop.explaining.recordings.step_down import CODE
from whydrop.measure.host import ethtool
from whydrop.runtime.rtnetlink import attribute, attributes

ROUTE = Route((ipaddress.ip_address("192.0.2.1"),), "eth9", 9, Snapshot(9, 1000, (), (), ()))
PAUSE, ASYMMETRIC = 1 << 13, 1 << 14


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """The settings of a simulated driver, by index 9; emptied, the interface has gone."""
    settings = {"autonegotiate": False, "receive": False, "transmit": False}

    def flow_control(index: int) -> dict[str, bool]:
        if not settings:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        assert index == 9
        return dict(settings)

    def send(command: int, body: bytes) -> None:
        assert command == ethtool.PAUSE_SET
        found = attributes(body)
        assert attributes(found[1]) == {1: struct.pack("=I", 9)}
        settings.update({name: bool(found[kind][0]) for kind, name in ((3, "receive"), (4, "transmit"))})

    monkeypatch.setattr(ethtool, "flow_control", flow_control)
    monkeypatch.setattr(ethtool, "send", send)
    return settings


def entry() -> Entry:
    """As it is written to the state file, and read from there, after a change that switches receive on."""
    change = flow_control.changed("eth9", 9, receive=True)
    return Entry(
        "eth9", "server.example", change.words, change.before.as_json(), [one.as_json() for one in change.undo],
        change.owns, change.commands(), "tried", state.process(os.getpid()), 0.0, state.boot(), state.network(),
    )  # fmt: skip


def test_a_message_names_the_interface_by_its_index_and_only_what_is_to_change() -> None:
    found = attributes(ethtool.pause_message(7, receive=True, transmit=False, autonegotiate=None))
    assert attributes(found[1]) == {1: struct.pack("=I", 7)}
    assert (found[3], found[4]) == (b"\1", b"\0")
    assert 2 not in found


@pytest.mark.parametrize(
    ("ours", "peers", "receive", "transmit"),
    [
        # IEEE 802.3, table 28B-3.
        (0, 0, False, False),
        (PAUSE, 0, False, False),
        (0, PAUSE | ASYMMETRIC, False, False),
        (PAUSE, PAUSE, True, True),
        (PAUSE | ASYMMETRIC, PAUSE, True, True),
        (ASYMMETRIC, PAUSE, False, False),
        (ASYMMETRIC, PAUSE | ASYMMETRIC, False, True),
        (PAUSE | ASYMMETRIC, ASYMMETRIC, True, False),
        (ASYMMETRIC, ASYMMETRIC, False, False),
    ],
)
def test_what_both_ends_advertise_decides(ours: int, peers: int, receive: bool, transmit: bool) -> None:
    def bits(value: int) -> bytes:
        # A second word, as there are more than 32 link modes; and a bit of a speed.
        return attribute(4, struct.pack("=II", value | 1 << 5, 1))

    told = attribute(2, b"\1") + attribute(3, bits(ours)) + attribute(4, bits(peers))
    assert ethtool.resolved(told) == ethtool.Negotiated(receive, transmit)


def test_without_the_other_ends_offer_nothing_is_said_to_be_agreed_on() -> None:
    ours = attribute(3, attribute(4, struct.pack("=I", PAUSE)))
    assert ethtool.resolved(attribute(2, b"\1") + ours) is None
    assert ethtool.resolved(attribute(2, b"\0") + ours + attribute(4, ours[4:])) is None


def test_a_driver_without_flow_control_is_left_alone() -> None:
    with pytest.raises(CannotChangeError, match="does not support flow control"):
        flow_control.changed("lo", 1, receive=True)


def test_a_refusal_comes_with_the_words_of_the_kernel() -> None:
    with pytest.raises(OSError, match="no device matches ifindex") as refused:
        ethtool.flow_control(2**30)
    assert refused.value.errno == errno.ENODEV


def test_the_commands_by_hand_do_and_undo_it(card: dict[str, bool]) -> None:
    card["transmit"] = True
    change = flow_control.changed("eth9", 9, receive=True)
    assert change.commands() == ["ethtool -A eth9 rx on tx on"]
    assert any("`ethtool -A eth9 rx off tx on`" in note for note in change.notes)
    assert any("down for some seconds" in note for note in change.notes)


@pytest.mark.usefixtures("card")
def test_what_is_so_already_is_no_change() -> None:
    with pytest.raises(CannotChangeError, match="so already"):
        flow_control.changed("eth9", 9, receive=False)


def test_the_state_file_brings_back_what_was(card: dict[str, bool]) -> None:
    written = entry()
    before = written.before()
    assert isinstance(before, Pauses)
    assert Pauses.from_json(before.as_json()) == before
    (undo,) = written.requests()
    assert Request.from_json(undo.as_json()) == undo
    card["receive"] = True
    assert reverting.restore(written)
    assert card == {"autonegotiate": False, "receive": False, "transmit": False}
    assert reverting.restore(written), "and once more does no harm"


def test_what_another_program_set_since_is_left_alone(card: dict[str, bool]) -> None:
    written = entry()
    card["transmit"] = True
    with pytest.raises(reverting.NotRevertedError, match="another program"):
        reverting.restore(written)
    assert card["transmit"]


def test_what_was_negotiated_is_no_change_by_another_program() -> None:
    before, asked = Setting(True, False, False), Setting(True, True, False)
    assert not Pauses(9, before, asked).belongs_to_another(Setting(True, True, True))


def test_a_change_of_an_interface_that_has_gone_is_gone(card: dict[str, bool]) -> None:
    written = entry()
    card.clear()
    assert not reverting.restore(written)
    assert "eth9 has gone" in reverting.gone(written)


# --- where it is indicated ---


def evidence(
    folder: Path | None, drain_bps: float = 975e6, speed_bps: float = 10e9, *, receive: bool = False
) -> Evidence:
    values = {"interface": "eth9", "speed_bps": speed_bps, "drain_rate_bps": drain_bps, "receive": receive}
    verdict: dict[str, Any] = {
        "cause": "shallow-queue", "sentence": "A queue.", "parameters": {}, "evidence": [], "against": [],
        "at": {"direction": "up"}, "facts": [{"code": CODE, "values": values}] if drain_bps else [],
    }  # fmt: skip
    return Evidence(folder, {"verdicts": [verdict]}, {"goodput-up": 300.0})


def recording(folder: Path, missed: float) -> Path:
    rows = [
        {
            "time_ns": recordings.START_NS + ns,
            "host": host,
            "source": "interface",
            "object": "eth9",
            "counter": counter,
            "value": value,
        }
        # The far end has an interface of that name, too.
        for host, most in (("local", missed), ("server.example", 5e6))
        for counter in ("receive_missed_packets", "receive_fifo_errors")
        for ns, value in ((1, 1000.0), (2, 1000.0 + most))
    ]
    return recordings.write(folder / "x.recording", {"counters": pl.DataFrame(rows)}).path


@pytest.mark.usefixtures("card")
def test_a_fast_interface_before_a_port_of_a_lower_line_rate_stops_for_pause_frames(tmp_path: Path) -> None:
    found = pause_remedy.choose(evidence(recording(tmp_path, 0)), ROUTE)
    assert isinstance(found, Remedy)
    assert found.all_commands() == ["ethtool -A eth9 rx on tx off"]
    assert "10.0\N{NO-BREAK SPACE}Gbit/s" in found.words
    assert "not known" in found.words
    (other,) = pause_remedy.beside(evidence(recording(tmp_path / "2", 0)), ROUTE)
    assert other.commands == ("ethtool -A eth9 rx on tx off",)


@pytest.mark.usefixtures("card")
def test_an_interface_without_room_for_what_arrives_sends_pause_frames(tmp_path: Path) -> None:
    found = pause_remedy.choose(evidence(recording(tmp_path, 31), 0.0), ROUTE)
    assert isinstance(found, Remedy)
    assert found.all_commands() == ["ethtool -A eth9 rx off tx on"]
    assert "31 packets" in found.words


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(
    ("drain_bps", "receive", "why"),
    [(0.0, False, "not indicated"), (730e6, False, "no line rate"), (975e6, True, "at the port of the switch")],
)
def test_without_an_indication_nothing_is_tried(tmp_path: Path, drain_bps: float, receive: bool, why: str) -> None:
    given = evidence(recording(tmp_path, 0), drain_bps, receive=receive)
    found = pause_remedy.choose(given, ROUTE)
    assert isinstance(found, NoRemedy)
    assert why in found.why
    assert pause_remedy.beside(given, ROUTE) == ()


def test_a_capture_alone_tells_nothing_of_the_interface() -> None:
    found = pause_remedy.choose(evidence(None), ROUTE)
    assert isinstance(found, NoRemedy)
    assert "--from" in found.why


def test_a_driver_that_refuses_offers_no_other_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(index: int) -> dict[str, bool]:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(ethtool, "flow_control", refused)
    assert pause_remedy.beside(evidence(recording(tmp_path, 0)), ROUTE) == ()
    with pytest.raises(CannotChangeError, match="not support"):
        pause_remedy.choose(evidence(recording(tmp_path / "2", 0)), ROUTE)


# --- the trial, with the lease and its guard ---


@pytest.mark.needs_root
@pytest.mark.parametrize("helps", [True, False])
def test_it_stays_only_if_it_helps_and_can_be_reverted(
    card: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helps: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    seen: list[bool] = []

    def prove(meter: object, remedy: Remedy, on: Callable[[], None], off: Callable[[], None]) -> SimpleNamespace:
        for change in (off, on, off, on):
            change()
            seen.append(card["receive"])
        return SimpleNamespace(holds=helps)

    monkeypatch.setattr(fixing, "prove", prove)
    remedy = pause_remedy.choose(evidence(recording(tmp_path, 0)), ROUTE)
    assert isinstance(remedy, Remedy)
    tried, _ = changing._tried(Any, ROUTE, remedy, "server.example", "until", 600.0)  # type: ignore[arg-type]
    assert seen == [False, True, False, True]
    assert "the driver reports receive on, transmit off" in tried.words
    assert card["receive"] == helps
    assert [one["commands"] for one in changing.pace_status()] == [["ethtool -A eth9 rx on tx off"]] * helps
    assert len(changing.pace_revert()) == helps
    assert not card["receive"]


@pytest.mark.needs_root
def test_a_driver_that_does_as_it_likes_is_restored_and_named(
    card: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(pauses, "SETTLES_S", 0.1)
    do = ethtool.send

    def send(command: int, body: bytes) -> None:
        do(command, body)
        card["transmit"] = card["receive"]

    monkeypatch.setattr(ethtool, "send", send)
    card["autonegotiate"] = True
    change = flow_control.changed("eth9", 9, receive=True)
    with (
        pytest.raises(CannotChangeError, match="reports receive on, transmit on"),
        applying.leased(change, "server.example") as lease,
    ):
        lease.on()
    assert card == {"autonegotiate": True, "receive": False, "transmit": False}
    assert changing.pace_status() == []
