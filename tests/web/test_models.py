"""Paths that a reader tries by hand: the answers of the server about them."""

from __future__ import annotations

import json
import shlex
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import recordings
import whydrop
from web.conftest import EXAMPLES, Server, client_of, running
from web.hostile import hostile_names

pytestmark = pytest.mark.slow

NAMES = ("policed-download.pcap.zst", "policed-download-far.pcap.zst")
SPEC = "policer:rate=20M,burst=40kB"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of this file, with two captures of one path, under a name with a space and quotes."""
    folder = tmp_path_factory.mktemp("it's here")
    for name in NAMES:
        shutil.copy(EXAMPLES / name, folder)
    recordings.rrul(folder / "a.recording", title="fifo run 1")
    with running(folder) as started:
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with client_of(server) as opened:
        yield opened


def analysis(client: httpx.Client, *names: str, **selection: Any) -> str:
    """The address of an analysis that is ready."""
    ids = client.post("/api/paths", json={"path": names}).raise_for_status().json()["ids"]
    job = client.post("/api/analyses", json={"source": ids, **selection}).raise_for_status().json()["id"]
    client.get(f"/api/analyses/{job}/page").raise_for_status()
    return f"/api/analyses/{job}"


def replayed(client: httpx.Client, address: str, model: str, verdict: int = 0) -> httpx.Response:
    return client.get(f"{address}/replay", params={"model": model, "verdict": verdict})


def drawn(content: bytes) -> dict[str, Any]:
    """The only figure of an answer."""
    length = struct.unpack("<I", content[:4])[0]
    (choice,) = json.loads(content[4 : 4 + length])["parts"]["model"]
    (figure,) = choice["figures"]
    return dict(figure)


def test_the_numbers_are_those_of_a_replay_beside_the_winner(client: httpx.Client, server: Server):
    address = analysis(client, *NAMES)
    offered = client.get(f"{address}/models").raise_for_status().json()
    assert [(one["verdict"], one["packets"]) for one in offered["verdicts"]] == [(0, 10_663)]
    answer = replayed(client, address, SPEC).raise_for_status().json()
    packets = whydrop.explain(*(server.folder / name for name in NAMES)).replay(SPEC)
    winner, given = answer["models"]
    assert (winner["role"], given["role"]) == ("winner", "given")
    assert given["dropped"] == packets["predicted_drop"].sum() == 447
    assert given["hits"] == packets.filter("predicted_drop", "lost").height == 77
    longest_ns = packets["predicted_wait_ns"].max()
    assert given["longest_wait_s"] == pytest.approx(longest_ns / 1e9)  # type: ignore[operator]
    assert "77 of 96" in answer["html"]
    files = [str(server.folder / name) for name in NAMES]
    assert shlex.split(answer["command"]) == ["whydrop", "explain", *files, "--model", SPEC]


def test_the_fit_of_one_capture_is_replayed_beside_and_the_command_has_the_selection(client: httpx.Client):
    address = analysis(client, NAMES[0], filter="tcp.port == 5201", begin=0, end=4.5)
    (offered,) = client.get(f"{address}/models").json()["verdicts"]
    answer = replayed(client, address, offered["fitted"]).json()
    fitted, given = answer["models"]
    assert (fitted["role"], given["role"], given["fates"]) == ("fitted", "given", "inferred")
    assert [fitted[name] for name in ("dropped", "hits", "passed_right")] == [
        given[name] for name in ("dropped", "hits", "passed_right")
    ]
    words = shlex.split(answer["command"])
    assert words[-8:] == ["--filter", "tcp.port == 5201", "--from", "0.0", "--to", "4.5", "--model", offered["fitted"]]


def test_the_figure_is_that_of_the_path_and_small(client: httpx.Client):
    address = analysis(client, *NAMES)

    def figure(model: str, **options: Any) -> bytes:
        given = {"part": "model", "choice": 0, "model": model, "columns": 800, **options}
        return client.get(f"{address}/figures", params=given).raise_for_status().content

    shown = drawn(figure(SPEC))
    assert shown["title"].startswith("The winner drops 83 of the 96 lost packets and 13 others, yours 77 and 370")
    assert [panel["title"] for panel in shown["panels"]][1] == f"Yours: {SPEC}"
    # A path that drops nearly everything is thinned as any other.
    (wrong,) = (layer for layer in drawn(figure("policer:rate=1M,burst=9kB"))["panels"][1]["layers"]
                if layer["name"].startswith("wrong: predicted"))  # fmt: skip
    assert wrong["shown"] < wrong["rows"] == 9874
    assert len(figure("policer:rate=1M,burst=9kB")) < 150_000
    picture = {"part": "model", "choice": 0, "model": SPEC, "figure": "your-model-0", "kind": "svg"}
    assert b"Yours" in client.get(f"{address}/picture", params=picture).raise_for_status().content


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("policer:rate=20M", '"policer:rate=20M": burst: is missing: expected a size with its unit, such as 80kB'),
        ("policer:rate=0,burst=9kB", "policer: rate: 0: expected at least 1 bit/s"),
        ("", '"" is no element'),
        ("policer:" * 500, "at most 1000 characters"),
        ("+".join(["line:rate=1G"] * 9), "at most 8 elements"),
        ('{"elements": 1}', "invalid type"),
        ("[" * 900, "is no element"),
    ],
)
def test_a_wrong_path_is_refused_in_words(client: httpx.Client, model: str, words: str):
    answer = replayed(client, analysis(client, NAMES[0]), model)
    assert answer.status_code == 400
    assert words in answer.json()["fields"]["model"]


def test_hostile_texts_are_answered_by_words_and_the_analysis_goes_on(client: httpx.Client):
    address = analysis(client, NAMES[0])
    for name in hostile_names(100):
        answer = replayed(client, address, f"policer:rate=20M,burst={name}"[:1000])
        assert answer.status_code == 400
        assert answer.json()["error"]
    figure = {"part": "model", "choice": 0}
    for model, status in (("nothing", 422), ("x" * 1001, 400), ("+" * 9, 400)):
        assert client.get(f"{address}/figures", params={**figure, "model": model}).status_code == status
    for extreme in ("tick-shaper:rate=1,burst=64B,tick=1ns", "batches:turn=1ns,most=1packets", "cake:rate=1,limit=64B"):
        assert replayed(client, address, extreme).status_code == 200


def test_a_verdict_without_packets_has_no_replay(client: httpx.Client):
    address = analysis(client, "a.recording")
    assert client.get(f"{address}/models").json()["verdicts"] == []
    assert "has no packets to replay" in replayed(client, address, SPEC).json()["error"]
    assert replayed(client, analysis(client, NAMES[0]), SPEC, verdict=99).status_code == 422


def test_of_several_elements_each_is_replayed(client: httpx.Client, server: Server):
    text = f"line:rate=1G,overhead=38B+{SPEC}+delay:time=1ms"
    given = replayed(client, analysis(client, *NAMES), text).json()["models"][-1]
    found = whydrop.explain(*(Path(server.folder) / name for name in NAMES)).replay(text)
    assert given["dropped"] == found["predicted_drop"].sum() > 0


def test_a_page_has_what_usual_changes_would_bring_and_what_the_reader_types(client: httpx.Client):
    address = analysis(client, *NAMES)

    def predicted(*changes: str) -> httpx.Response:
        return client.get(f"{address}/prediction", params={"change": changes}, timeout=120)

    usual = predicted().raise_for_status().json()
    assert "would help most" in usual["html"]
    assert "cc=bbr" in usual["html"]
    own = predicted(f"path={SPEC}", "cc=reno").raise_for_status().json()
    assert "Goodput would be" in own["html"]
    assert shlex.split(own["command"])[-4:] == ["--change", f"path={SPEC}", "--change", "cc=reno"]
    wrong = predicted("cc=magic")
    assert wrong.status_code >= 400
    assert "expected one of cubic, reno, bbr" in wrong.text


def test_a_prediction_for_a_part_of_captures_has_no_command(client: httpx.Client):
    address = analysis(client, NAMES[0], filter="tcp.port == 5201")
    answer = client.get(f"{address}/prediction", params={"change": ["cc=reno"]}, timeout=120).raise_for_status().json()
    assert answer["command"] == ""
    assert answer["html"]
