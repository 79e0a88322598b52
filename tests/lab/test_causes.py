"""Causes that show by themselves, in captures of real hosts: named where they are, and not in their twins.

Between the hosts stands a box of ours (``middlebox.py``) or a router of Linux; both ends are the kernel's own TCP.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whydrop
from lab import Lab
from lab.scenes import Scene, played

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("tcpdump")]

# Three settings of each; `make test` has the first.
SETTINGS = [
    0,
    pytest.param(1, marks=pytest.mark.exhaustive),
    pytest.param(2, marks=pytest.mark.exhaustive),
]

NOT_SCALING = {"client": {"net.ipv4.tcp_window_scaling": "0"}}
WITHOUT_SACK = {"server": {"net.ipv4.tcp_sack": "0"}}
OFFERING = {"client": {"net.ipv4.tcp_ecn": "1"}, "server": {"net.ipv4.tcp_ecn": "1"}}
REFUSING = {"client": {"net.ipv4.tcp_ecn": "1"}, "server": {"net.ipv4.tcp_ecn": "0"}}

# What keeps a path busy: a packet every 10 ms or so.
TRICKLE: list[Any] = ["send", 300_000, 0.01, 1000]
SMALL_TALK: list[list[Any]] = [["open"], *([["say", "hello", 5]] * 12)]


def scenes(setting: int) -> dict[str, tuple[str | None, str | None, Scene]]:
    """For each scene the cause that is there, and its detail; of a twin the cause that is not."""
    length_s = [1.6, 2.5, 4.0][setting]
    mtu = [1300, 1400, 1280][setting]
    idle_s = [11.0, 13.0, 16.0][setting]
    delay_s = [0.02, 0.005, 0.04][setting]
    share = [0.03, 0.02, 0.05][setting]
    ttl = [200, 61, 120][setting]
    bulk: list[Any] = ["send", 1_500_000, 0.0, 65536]
    idle: list[list[Any]] = [["open"], ["say", "hello", 5], ["wait", idle_s], ["say", "again", 5]]
    lossy = {"share": share, "delay_s": delay_s}
    pausing: list[list[Any]] = [["open"], *([["say", "hello", 5], ["wait", 0.04]] * 40)]
    stream: list[Any] = ["send", 400_000, 0.001, 1000]
    forget = {"effect": "forget", "after_s": 10.0, "delay_s": delay_s}
    return {
        "outage": (
            "outage",
            None,
            Scene([TRICKLE], {"effect": "outage", "start_s": 1.0, "length_s": length_s, "delay_s": delay_s}),
        ),
        "no outage": ("outage", None, Scene([TRICKLE], {"effect": "lose", **lossy})),
        "narrow link": ("mtu", "told", Scene([bulk], None, mtu=mtu)),
        "wide link": ("mtu", None, Scene([bulk], None, mtu=1500)),
        "black hole": (
            "mtu",
            "black-hole",
            Scene(
                [*SMALL_TALK, ["say", "bulk", 8000]],
                {"effect": "black_hole", "mtu": mtu, "delay_s": delay_s},
                ends_after_s=9.0,
            ),
        ),
        "dead path": (
            "mtu",
            None,
            Scene(
                [TRICKLE],
                {"effect": "outage", "start_s": 1.0, "length_s": 99, "delay_s": delay_s},
                ends_after_s=7.0,
            ),
        ),
        "forgotten, reset": (
            "idle-timeout",
            None,
            Scene(idle, {**forget, "reset": True, "ttl": ttl}, at="client"),
        ),
        "forgotten, dropped": (
            "idle-timeout",
            None,
            Scene([*idle[:2], ["wait", idle_s], ["say", "again", 5], TRICKLE], forget, at="client", patience_s=3.0),
        ),
        "aborted after a pause": (
            "idle-timeout",
            None,
            Scene([*idle[:3], ["say", "die", 5]], {"delay_s": delay_s}, at="client"),
        ),
        "remembered": ("idle-timeout", None, Scene(idle, {"delay_s": delay_s}, at="client")),
        "reset on the path": (
            "reset",
            "middlebox",
            Scene([bulk], {"effect": "reset", "after_bytes": [20_000, 100_000, 400_000][setting], "ttl": ttl}),
        ),
        "reset by the peer": (
            "reset",
            None,
            Scene([*SMALL_TALK, ["say", "die", 5]], {"delay_s": delay_s}, at="client"),
        ),
        "doubled": ("duplicate", "path", Scene([bulk], {"effect": "double", "each": [10, 25, 50][setting]})),
        "tapped twice": ("duplicate", "tap", Scene([TRICKLE], None, at="router")),
        "once": ("duplicate", None, Scene([bulk], {"delay_s": delay_s})),
        "unscaled": ("window-scaling", "missing", Scene([bulk], {"delay_s": 2 * delay_s}, sysctls=NOT_SCALING)),
        "misread": (
            "window-scaling",
            "misread",
            Scene(
                [["open"], ["say", "hello" * 2000, 10000]],
                {"effect": "strip_scale", "delay_s": delay_s},
                at="client",
                ends_after_s=4.0,
            ),
        ),
        "small window": (
            "window-scaling",
            None,
            Scene([["send", 400_000, 0.0, 65536, 20_000]], {"delay_s": delay_s}),
        ),
        "sack mangled": (
            "sack",
            "mangled",
            Scene([bulk], {"effect": "mangle_sack", "link": 1, "shift": 0x12345678 + setting, **lossy}),
        ),
        "sack stripped": ("sack", "stripped", Scene([bulk], {"effect": "strip_sack", **lossy})),
        "sack refused": ("sack", "refused", Scene([bulk], {"effect": "lose", **lossy}, sysctls=WITHOUT_SACK)),
        "sack at work": ("sack", None, Scene([bulk], {"effect": "lose", **lossy})),
        "damaged": (
            "checksum",
            None,
            Scene(
                [bulk], {"effect": "damage", "each": [40, 100, 25][setting], "delay_s": delay_s}, at="client", snaplen=0
            ),
        ),
        "not damaged": ("checksum", None, Scene([bulk], {"effect": "lose", **lossy}, at="client", snaplen=0)),
        "ecn refused": ("ecn", "refused", Scene([TRICKLE], {"delay_s": delay_s}, sysctls=REFUSING)),
        "ecn blocked": (
            "ecn",
            "blocked",
            Scene([["send", 1000, 0, 1000]] * 3, {"effect": "block_ecn"}, sysctls=OFFERING, at="client"),
        ),
        "ecn bleached": ("ecn", "bleached", Scene([TRICKLE], {"effect": "bleach"}, sysctls=OFFERING, at="client")),
        "ecn at work": (
            "ecn",
            None,
            Scene([bulk], {"effect": "mark", "each": 30}, sysctls=OFFERING, at="client"),
        ),
        "varying delay": (
            "jitter",
            None,
            Scene(pausing, {"effect": "vary", "link": 1, "most_s": 1.5 * delay_s, "delay_s": delay_s}, at="ends"),
        ),
        # Jitter is a quarter of the round trip: so long that the link, a process, varies less whatever runs beside it.
        "steady delay": ("jitter", None, Scene(pausing, {"delay_s": 0.04}, at="ends")),
        "gathered": (
            "batching",
            "aggregation",
            Scene([stream], {"effect": "gather", "link": 1, "each_s": [0.008, 0.006, 0.009][setting]}, at="ends"),
        ),
        "asleep": (
            "batching",
            "power-save",
            Scene([TRICKLE], {"effect": "gather", "link": 1, "each_s": [0.102, 0.051, 0.08][setting]}, at="ends"),
        ),
        "streamed": ("batching", None, Scene([stream], {"delay_s": delay_s}, at="ends")),
    }


# Where the cause is not to be named; of the others the kind must be right, too.
TWINS = {
    "no outage",
    "wide link",
    "dead path",
    "remembered",
    "aborted after a pause",
    "once",
    "small window",
    "sack at work",
    "not damaged",
    "ecn at work",
    "steady delay",
    "streamed",
}


# A scene is played again, alone, where it did not come out: other work on the machine may have delayed a box of ours,
# a host or a capture for longer than what the scene is about. What whydrop gets wrong stays wrong.
PLAYED_AT_MOST = 3


def wrong_of(wanted: dict[str, tuple[str | None, str | None, Scene]], found: dict[str, Any]) -> dict[str, Any]:
    """The verdicts on those scenes that are not as wanted."""
    wrong = {}
    for name, document in found.items():
        cause, detail, _ = wanted[name]
        verdicts = [(one["cause"], one["detail"]) for one in document["verdicts"]]
        if [kind for one, kind in verdicts if one == cause] != ([] if name in TWINS else [detail]):
            wrong[name] = verdicts
    return wrong


@pytest.mark.parametrize("setting", SETTINGS)
def test_each_is_named_where_it_is_and_not_in_its_twin(lab: Lab, setting: int) -> None:
    wanted = scenes(setting)

    def explained(captures: list[Path]) -> dict[str, Any]:
        found = whydrop.explain(*captures)
        return found.document

    at_once, wrong = 8, dict.fromkeys(wanted)
    for _ in range(PLAYED_AT_MOST):
        played_now = played({name: wanted[name][2] for name in wrong}, lab.folder, explained, at_once)
        at_once, wrong = 1, wrong_of(wanted, played_now)
    assert wrong == {}
