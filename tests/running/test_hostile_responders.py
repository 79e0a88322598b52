"""Runs against responders that lie, close or stay silent: status 1, one line that says what to do, and an end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from running.hostile import MAGIC, Channel, Lie, hostile, number, text, until_closed
from whydrop.recording.recording import Recording

pytestmark = pytest.mark.slow

Run = Callable[..., subprocess.CompletedProcess[str]]


def silent(channel: Channel) -> None:
    until_closed(channel.connection)


def closing(_: Channel) -> None:
    pass


def closing_in_the_test(channel: Channel) -> None:
    channel.accept()


def silent_in_the_test(channel: Channel) -> None:
    channel.accept()
    silent(channel)


def answering(payload: bytes) -> Lie:
    """In place of the answer to the plan."""

    def lie(channel: Channel) -> None:
        channel.receive()
        channel.send(payload)
        silent(channel)

    return lie


def saying(payload: bytes) -> Lie:
    """In a test that has begun."""

    def lie(channel: Channel) -> None:
        channel.accept()
        channel.send(payload)
        silent(channel)

    return lie


def description(json: str) -> bytes:
    return b"\x03" + text(json)


def interval(start_ns: int, end_ns: int, payload_bytes: int) -> bytes:
    """A report with one interval of the upload, flow 2; signed numbers are interleaved, as postcard does it."""
    times = number(2 * start_ns) + number(2 * end_ns)
    return b"\x05\x01" + number(2) + times + number(payload_bytes) + bytes(6)


def said(run: Run, folder: Path, lie: Lie | bytes) -> str:
    """The line of a run that fails; another one may say that UDP was not answered."""
    with hostile(lie) as place:
        done = run("run", "tcp_1up", "--to", place, "--duration", "3s", "--set", "delay=0", "--output", folder,
                   "--no-plot", "--no-counters")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    *others, line = done.stderr.strip().split("\n")
    assert all("UDP" in other for other in others)
    assert "\x1b" not in done.stderr
    assert len(line) < 1000
    return line


@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        pytest.param(MAGIC + bytes(56), "is it a whydrop responder?", id="a byte every two seconds"),
        pytest.param(closing, "closed the connection", id="closes after the handshake"),
        pytest.param(silent, "no answer from the responder for 20 s", id="silent after the handshake"),
        pytest.param(answering(b"\xff" * 99), "another program impersonates it", id="no message"),
        pytest.param(answering(b"\x01" + text("\x1b[2J\n" * 99_999)), "refuses", id="a refusal of many lines"),
    ],
)
def test_a_responder_that_lies_before_a_test_ends_it_in_one_line(
    run: Run, tmp_path: Path, lie: Lie | bytes, expected: str
) -> None:
    assert expected in said(run, tmp_path, lie)
    assert list(tmp_path.glob("*.recording")) == []


@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        pytest.param(closing_in_the_test, "it was stopped or killed", id="closes"),
        pytest.param(silent_in_the_test, "before it had sent its last measurements", id="silent"),
        pytest.param(saying(description("[" * 200_000)), "levels deep", id="a deep description"),
        pytest.param(saying(description(" " * 900_000)), "at most 262144", id="a huge description"),
        pytest.param(saying(interval(0, 9, (1 << 64) - 1)), "bytes in one interval", id="a count of 2^64-1"),
        pytest.param(saying(interval(0, 1 << 62, 1)), "which no clock shows", id="a time at the end of time"),
        pytest.param(saying(b"\x07" + text("\x1b[2J\n" * 99_999)), "ended the session", id="an end of many lines"),
    ],
)
def test_a_responder_that_lies_in_a_test_ends_it_in_one_line_and_nothing_of_the_lie_is_kept(
    run: Run, tmp_path: Path, lie: Lie, expected: str
) -> None:
    assert expected in said(run, tmp_path, lie)
    (found,) = tmp_path.glob("*.recording")
    recording = Recording.open(found)
    assert recording.metadata["status"] == "failed"
    assert recording.table("intervals").height == 0


@pytest.mark.parametrize(
    "json",
    [
        '{"kernel": "\\ud800\\u001b[2J"}',
        '{"interfaces": 5, "kernel": [], "clocksource": {}}',
        '{"kernel": 1e999}',
        "no",
    ],
)
def test_a_description_of_anything_is_written_and_shown(run: Run, tmp_path: Path, json: str) -> None:
    def lie(channel: Channel) -> None:
        channel.accept()
        channel.send(description(json))
        channel.echo()
        channel.send(b"\x06")
        silent(channel)

    with hostile(lie) as place:
        done = run("run", "tcp_1up", "--to", place, "--duration", "1s", "--set", "delay=0", "--output", tmp_path,
                   "--no-plot", "--no-counters")  # fmt: skip
    (found,) = tmp_path.glob("*.recording")
    shown = run("show", found)
    for one in (done, shown):
        assert "Traceback" not in one.stderr + one.stdout
        assert "\x1b[2J" not in one.stderr + one.stdout
