"""The program, called as a user calls it."""

from __future__ import annotations

import fcntl
import functools
import json
import lzma
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from captures.changed import read, write
from example_files import EXAMPLES, POLICED, ROOT
from patience import PATIENCE_S, wait_until

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_explain_says_the_verdict_first(run: Run):
    done = run("explain", POLICED)
    assert done.returncode == 0
    assert done.stderr == ""
    first = done.stdout.splitlines()[0]
    assert "policer" in first
    assert "Mbit/s" in first
    for heading in ("Evidence", "Parameters", "Why not something else", "What to do", "Transfers", "Flows"):
        assert f"\n{heading}\n" in done.stdout


def test_piped_text_is_plain(run: Run):
    assert "\x1b" not in run("explain", POLICED).stdout


def test_json_is_the_document_and_nothing_else(run: Run):
    done = run("explain", POLICED, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert document["schema"] == 2
    assert list(document) == ["whydrop", "schema", "captures", "flows", "transfers", "verdicts", "pair", "hops"]


def test_json_is_utf_8_whatever_the_locale(run: Run):
    done = run("explain", POLICED, "--json", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)


def test_text_is_printed_also_where_only_ascii_is_known(run: Run):
    done = run("explain", POLICED, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert "policer" in done.stdout.splitlines()[0]


def test_the_direct_way_and_the_option_parser_print_the_same_document(run: Run):
    direct = run("explain", "--json", POLICED)
    parsed = run("explain", "--json", "--sequence", POLICED)
    assert direct.stdout == parsed.stdout


@pytest.mark.slow
def test_json_beside_files_still_prints_only_the_document(run: Run, tmp_path: Path):
    done = run("explain", POLICED, "--json", "--report", tmp_path / "r.html")
    json.loads(done.stdout)
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "Report:" in done.stderr


def test_standard_input_is_read_for_a_dash(run: Run):
    with POLICED.open("rb") as stream:
        done = run("explain", "-", "--json", stdin=stream)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdicts"][0]["cause"] == "policer"


@pytest.mark.slow
def test_a_flow_filter_leaves_the_flows_that_match(run: Run, tmp_path: Path):
    records = read(POLICED)
    # A second connection: the beginning of the first, from the next port to another server.
    renamed = ((b"\xa0\x29", b"\xa0\x2a"), (bytes([10, 0, 3, 1]), bytes([10, 0, 9, 1])))
    others = [
        one._replace(frame=functools.reduce(lambda frame, names: frame.replace(*names), renamed, one.frame))
        for one in records[:200]
    ]
    capture = write(tmp_path / "two.pcap", sorted([*records, *others], key=lambda one: one.time_ns))
    whole = json.loads(run("explain", capture, "--json").stdout)
    left = json.loads(run("explain", capture, "--json", "--flow", ":41001").stdout)
    assert 0 < len(left["flows"]) < len(whole["flows"])
    assert all(":41001" in flow["flow"] for flow in left["flows"])


def test_a_flow_filter_that_matches_nothing_is_bad_usage(run: Run):
    done = run("explain", POLICED, "--flow", "203.0.113.9")
    assert done.returncode == 2
    assert "no flow matches '203.0.113.9'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain"], "Missing argument"),
        (["explain", str(POLICED), "--frobnicate"], "No such option"),
        (["explain", str(POLICED), "--charts", "x", "--format", "gif"], "'gif' is not one of"),
        (["explain", str(POLICED), "--format", "png"], "give --charts DIR too"),
        (["explain", str(POLICED), "--report", "/nowhere/at/all/r.html"], "there is no folder"),
        (["explain", str(POLICED), str(POLICED)], "are the same file"),
        (["frobnicate"], "No such command"),
    ],
)
def test_a_wrong_command_line_exits_with_2_and_says_what_is_wrong(run: Run, arguments: list[str], said: str):
    done = run(*arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""


def bad_inputs(folder: Path) -> dict[str, Path]:
    made = {name: folder / name for name in ("missing.pcap", "empty.pcap", "text.pcap", "folder", "broken.xz")}
    made["empty.pcap"].write_bytes(b"")
    made["text.pcap"].write_text("This is no capture, it is a text of some length, long enough for a header.\n" * 9)
    made["folder"].mkdir()
    made["broken.xz"].write_bytes(lzma.compress(b"\xd4\xc3\xb2\xa1" * 1000)[:60])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["missing.pcap", "empty.pcap", "text.pcap", "folder", "broken.xz"])
@pytest.mark.parametrize("mode", [["--json"], []])
def test_what_cannot_be_analysed_exits_with_1_and_one_line_that_names_it(
    run: Run, tmp_path: Path, name: str, mode: list[str]
):
    path = bad_inputs(tmp_path)[name]
    done = run("explain", path, *mode)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("whydrop: ")
    assert str(path) in done.stderr


def test_a_hostile_file_name_sends_no_control_characters_to_the_terminal(run: Run, tmp_path: Path):
    done = run("explain", tmp_path / "a\x1b]0;owned\x07.pcap")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "owned" in done.stderr


def test_a_capture_cut_off_in_its_middle_is_analysed_up_to_there(run: Run, tmp_path: Path):
    cut = tmp_path / "cut.pcap.zst"
    cut.write_bytes(POLICED.read_bytes()[:100_000])
    done = run("explain", cut, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["captures"][0]["truncated"]
    assert document["captures"][0]["notes"]
    assert document["flows"]


@pytest.mark.slow
def test_a_report_that_cannot_be_written_says_so_in_one_line(run: Run, tmp_path: Path):
    done = run("explain", POLICED, "--charts", POLICED)
    assert done.returncode == 2
    done = run("explain", POLICED, "--charts", POLICED / "below-a-file")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "below-a-file" in done.stderr


@pytest.mark.slow
def test_a_capture_without_tcp_is_explained_and_has_a_report_and_no_charts(run: Run, tmp_path: Path):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    done = run("explain", empty, "--report", tmp_path / "r.html", "--charts", tmp_path / "charts")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No verdict")
    assert "there is no TCP data to draw" in done.stdout
    assert "No verdict" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_reader_that_stops_early_causes_no_complaint():
    command = f"{sys.executable} -m whydrop explain {POLICED} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert done.stderr == ""
    assert "policer" in done.stdout


@pytest.mark.parametrize(("closed", "shown"), [("<&- >&-", ""), ("<&- 2>&-", '"verdicts"')])
def test_streams_that_the_caller_closed_are_no_mistake(closed: str, shown: str):
    command = f"{sys.executable} -m whydrop explain --json {POLICED} {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout


def on_a_terminal(columns: int, **environment: str) -> str:
    """The output of explain on a terminal of so many columns."""
    leader, follower = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "whydrop", "explain", str(POLICED)],
        stdin=follower, stdout=follower, stderr=follower, env=env, cwd=ROOT,
    )  # fmt: skip
    os.close(follower)
    output = b""
    while True:
        try:
            chunk = os.read(leader, 65_536)
        except OSError:  # Linux says EIO when the other end is closed
            break
        if not chunk:
            break
        output += chunk
    os.close(leader)
    assert process.wait(120) == 0
    return output.decode()


@pytest.mark.slow
def test_a_terminal_gets_colour_unless_it_is_not_wanted():
    assert "\x1b[" in on_a_terminal(100)
    assert "\x1b[3" not in on_a_terminal(100, NO_COLOR="1")


def test_a_narrow_terminal_gets_lines_that_fit():
    lines = on_a_terminal(60, NO_COLOR="1").replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[2m", "")
    for line in lines.splitlines():
        # Commands to paste stay whole.
        if not line.strip().startswith("$ "):
            assert len(line.rstrip()) <= 60, line


@pytest.mark.slow
def test_ctrl_c_stops_with_the_status_of_a_signal(tmp_path: Path):
    pipe = tmp_path / "endless.pcap"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "whydrop", "explain", str(pipe)], stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    feed(pipe, interrupt=lambda: process.send_signal(signal.SIGINT))
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said == "whydrop: stopped\n"


def feed(pipe: Path, interrupt: Callable[[], None]) -> None:
    """Write packets, interrupt where the reader reads them, and go on until it is gone."""
    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    records = (bytes.fromhex("00000000000000000e0000000e000000") + bytes(14)) * 1000
    descriptor = os.open(pipe, os.O_WRONLY)
    deadline = time.monotonic() + PATIENCE_S
    try:
        os.write(descriptor, header)
        # More than fits into the pipe: what is written was read, and the analysis goes on.
        for _ in range(200):
            os.write(descriptor, records)
        interrupt()
        while time.monotonic() < deadline:
            os.write(descriptor, records)
        pytest.fail(f"the program went on reading for {PATIENCE_S:g} s after the interrupt")
    except BrokenPipeError:
        pass
    finally:
        os.close(descriptor)


def interrupted_pipe(interrupts: int) -> tuple[subprocess.Popen[bytes], str, str]:
    """Explain a capture from a pipe that stays open, and interrupt so often; then the pipe ends."""
    with pyarrow.CompressedInputStream(str(POLICED), "zstd") as packed:
        raw = packed.read()
    process = subprocess.Popen(
        [sys.executable, "-m", "whydrop", "explain", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(raw)
    process.stdin.flush()
    # All is read when the pipe is empty, and then the program's first thread waits for the one that reads.
    wait_until(lambda: not unread_bytes(process.stdin.fileno()) and is_asleep(process.pid))
    received = b""
    for _ in range(interrupts):
        process.send_signal(signal.SIGINT)
        # It says that it received the first one behind an empty line, or that it stops.
        while line := process.stderr.readline():
            received += line
            if line.strip():
                break
    out, err = process.communicate(timeout=120)
    return process, out.decode(), (received + err).decode()


def is_asleep(pid: int) -> bool:
    """True if a process's first thread waits."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def unread_bytes(descriptor: int) -> int:
    """How much is in a pipe."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.slow
def test_ctrl_c_on_a_pipe_explains_what_was_captured():
    process, said, complained = interrupted_pipe(1)
    assert process.returncode == 0
    assert "policer" in said.splitlines()[0]
    assert "explaining what has been captured" in complained


@pytest.mark.slow
def test_ctrl_c_twice_stops_even_while_a_pipe_is_silent():
    process, said, complained = interrupted_pipe(2)
    assert process.returncode == 130
    assert said == ""
    assert complained.endswith("whydrop: stopped\n")


@pytest.mark.slow
def test_every_help_text_has_an_example(run: Run):
    for arguments in (["--help"], ["explain", "--help"], ["match", "--help"]):
        done = run(*arguments)
        assert done.returncode == 0
        assert "Example" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.pcap.zst")))
def test_every_example_in_the_repository_is_explained(run: Run, name: str):
    done = run("explain", EXAMPLES / name)
    assert done.returncode == 0, done.stderr
