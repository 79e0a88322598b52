"""The server of the Model Context Protocol: what its tools answer, and what they refuse."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import mcp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whydrop
from base_install import run_without
from whydrop.mcp.bounding import MOST_CHARACTERS, bounded
from whydrop.mcp.server import server

EXAMPLES = Path(__file__).parents[1] / "examples"
CAPTURE = "policed-download.pcap.zst"


def asked(tool: str, folder: Path = EXAMPLES, **arguments: Any) -> Any:
    """The answer of a tool: its JSON, or the words of its error."""

    async def ask() -> Any:
        async with mcp.Client(server([folder])) as client:
            return await client.call_tool(tool, arguments)

    answer = asyncio.run(ask())
    return answer.content[-1].text if answer.is_error else json.loads(answer.content[-1].text)


def test_every_tool_says_that_it_only_reads():
    async def listed() -> Any:
        async with mcp.Client(server([EXAMPLES])) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(listed())
    assert {tool.name for tool in tools} == {"list_files", "open", "explain", "segments", "packets", "figure"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)


def test_a_verdict_cites_lost_packets_by_the_numbers_of_their_frames():
    answer = asked("explain", paths=[CAPTURE])
    (verdict,) = answer["verdicts"]
    assert (verdict["cause"], verdict["lost"]) == ("policer", 96)
    cited = verdict["lost_packets"]
    assert len(cited) == 10
    frames = whydrop.packets(EXAMPLES / CAPTURE, most=100_000).table
    by_number = {row["frame_number"]: row for row in frames.to_dicts()}
    assert all(by_number[one["frame_number"]]["time_ns"] == one["time_ns"] for one in cited)


def test_of_two_captures_the_frame_that_left_and_never_arrived_is_cited():
    far = "policed-download-far.pcap.zst"
    (verdict,) = asked("explain", paths=[CAPTURE, far])["verdicts"]
    assert verdict["place"] == "between capture 1 and capture 2"
    cited = verdict["lost_packets"]
    assert len(cited) == 10
    assert all(one["frame_number_2"] is None for one in cited)
    frames = whydrop.packets(EXAMPLES / CAPTURE, most=100_000).table
    sequences = dict(frames.select("frame_number", "sequence").rows())
    assert all((one["sequence"] - sequences[one["frame_number_1"]]) % 1448 == 0 for one in cited)


def test_segments_of_a_flow_have_the_numbers_of_the_frames_that_hold_them():
    answer = asked("segments", path=CAPTURE, flow=0, fate="lost", most=200)
    assert (len(answer["rows"]), answer["more_rows"]) == (96, 0)
    frames = whydrop.packets(EXAMPLES / CAPTURE, most=100_000).table.to_dicts()
    by_number = {row["frame_number"]: row for row in frames}
    starts = {row["sequence"] - by_number[row["frame_number"]]["sequence"] for row in answer["rows"]}
    # A super-segment has several segments in one frame: its later ones lie further on.
    assert len({start % 1448 for start in starts}) == 1
    assert "no data packets" in asked("segments", path=CAPTURE, flow=7)


def test_what_a_capture_holds_is_described_and_its_packets_listed():
    opened = asked("open", path=CAPTURE)
    assert (opened["kind"], opened["flows"][0]["number"]) == ("capture", 0)
    assert asked("open", path=CAPTURE, end_s=1.0)["flows"][0]["packets"] < opened["flows"][0]["packets"]
    first = asked("packets", path=CAPTURE, filter="tcp", most=2)
    assert [row["flags"] for row in first["rows"]] == ["SYN", "SYN ACK"]
    assert first["has_more"]


@pytest.mark.slow
def test_a_figure_is_a_picture_with_its_words():
    async def draw() -> Any:
        async with mcp.Client(server([EXAMPLES])) as client:
            return await client.call_tool("figure", {"path": CAPTURE, "name": "time-sequence"})

    picture, words = asyncio.run(draw()).content
    png = base64.b64decode(picture.data)
    assert png.startswith(b"\x89PNG")
    assert len(png) <= 1_000_000
    assert json.loads(words.text)["title"]


def test_nothing_outside_the_folders_is_opened(tmp_path: Path):
    inside = tmp_path / "inside"
    inside.mkdir()
    shutil.copy(EXAMPLES / CAPTURE, tmp_path / "secret.pcap.zst")
    (inside / "link.pcap.zst").symlink_to(tmp_path / "secret.pcap.zst")
    for path in ("../secret.pcap.zst", str(tmp_path / "secret.pcap.zst"), "link.pcap.zst", "a\0b", "", "/etc/passwd"):
        answer = asked("packets", folder=inside, path=path)
        assert isinstance(answer, str), path
    assert "list_files" in asked("packets", folder=inside, path="../secret.pcap.zst")


def test_an_error_says_what_was_expected():
    assert "expected a field" in asked("explain", paths=[CAPTURE], filter="foo")
    assert "time-sequence" in asked("figure", path=CAPTURE, name="nothing")
    assert "no source given" in asked("explain", paths=[])
    assert "different points of one path" in asked("explain", paths=[CAPTURE, CAPTURE])


def test_files_are_listed_by_their_path():
    assert len(asked("list_files")["files"]) == 4
    (one,) = asked("list_files", containing="QUEUE-FAR")["files"]
    assert one["kind"] == "capture"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3000),
    lambda inner: st.lists(inner, max_size=300) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=40,
)


@given(json_values, st.integers(200, 5000))
def test_an_answer_is_never_longer_than_allowed(value: Any, most: int):
    assert len(json.dumps(bounded(value, most))) <= most


def test_a_list_that_is_cut_says_how_much_is_missing():
    cut = bounded({"rows": [{"number": n} for n in range(10_000)]})
    assert cut["rows"][-1] == {"left_out": 9_800}
    assert len(json.dumps(cut)) <= MOST_CHARACTERS


@pytest.mark.slow
def test_the_command_answers_on_standard_input_and_output():
    parameters = mcp.StdioServerParameters(command=sys.executable, args=["-m", "whydrop", "mcp", str(EXAMPLES)])

    async def ask() -> Any:
        async with mcp.Client(parameters) as client:
            return await client.call_tool("explain", {"paths": [CAPTURE]})

    assert json.loads(asyncio.run(ask()).content[0].text)["verdicts"][0]["cause"] == "policer"


@pytest.mark.slow
def test_without_its_package_the_command_says_what_to_install():
    done = run_without(["mcp"], "mcp", EXAMPLES)
    assert done.returncode == 1
    assert "pip install 'whydrop[mcp]'" in done.stderr
