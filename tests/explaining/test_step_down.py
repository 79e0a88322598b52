"""A step down of the rate without flow control is reported where the driver reports it, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from plain_text import plain
from whydrop.explaining.recordings import step_down


def verdict(
    cause: str = "shallow-queue", drain_bps: float = 1e9, lost: int = 50, direction: str = "up"
) -> dict[str, Any]:
    return {
        "cause": cause,
        "lost": lost,
        "at": {"kind": "path", "direction": direction},
        "parameters": {"drain_rate_bps": {"value": drain_bps, "low": None, "high": None}},
        "facts": [],
        "evidence": [],
        "advice": [],
    }


def host(speed: int = 10_000, receive: bool = False, frames: tuple[int, int] | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"speed_mbit_per_s": speed, "flow_control": {"receive": receive, "transmit": False}}
    if frames is not None:
        told["flow_control"]["pause_frames_received"] = frames[0]
        told["flow_control_after"] = {**told["flow_control"], "pause_frames_received": frames[1]}
    return {"hosts": {"local": {"interfaces": {"eth1": told}}}}


def said(one: dict[str, Any], metadata: dict[str, Any]) -> list[str]:
    step_down.said_of([one], metadata)
    found: list[str] = plain(one["evidence"])
    return found


def test_ten_to_one_with_flow_control_off_is_said() -> None:
    words = said(verdict(), host())
    assert words == [
        "eth1 sends at 10.0 Gbit/s, the queue drains at 1.00 Gbit/s, and flow control is off: "
        "bursts arrive faster than they can leave"
    ]


def test_with_flow_control_on_it_is_said_only_if_no_pause_frame_came() -> None:
    assert "no pause frame came" in said(verdict(), host(receive=True, frames=(7, 7)))[0]
    assert said(verdict(), host(receive=True, frames=(7, 900))) == []
    assert said(verdict(), host(receive=True)) == []


@pytest.mark.parametrize(
    ("one", "metadata"),
    [
        (verdict(drain_bps=9.9e9), host()),
        (verdict(cause="policer"), host()),
        (verdict(cause="random-loss"), host()),
        (verdict(lost=0), host()),
        (verdict(direction="down"), host()),
        (verdict(), host(speed=-1)),
        (verdict(), {"hosts": {"local": {"interfaces": {"eth1": {"speed_mbit_per_s": 10_000}}}}}),
        (verdict(), {}),
    ],
)
def test_where_something_of_it_is_not_known_or_not_so_nothing_is_said(
    one: dict[str, Any], metadata: dict[str, Any]
) -> None:
    assert said(one, metadata) == []


def test_it_is_not_said_of_a_capture_of_another_time_which_has_no_place_on_the_tests_path() -> None:
    assert said({**verdict(), "at": None}, host()) == []


def test_the_advice_names_what_to_look_at_first_and_which_end_lacks_flow_control() -> None:
    off, on = verdict(), verdict()
    said(off, host())
    said(on, host(receive=True, frames=(7, 7)))
    assert "whydrop fix HOST --flow-control" in off["advice"][0]
    assert "transmit) on there" in on["advice"][0]
    assert all("what else eth1 carries" in one["advice"][0] for one in (off, on))
