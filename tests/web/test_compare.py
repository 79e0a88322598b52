"""Tests of the view of comparisons: pictures, the options of plots, sets, and the whole state in the address."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import recordings
from patience import wait_until
from web.conftest import Server, client_of, running

pytestmark = pytest.mark.slow

TITLES = ("fifo run 1", "fifo run 2", "fq run 1", "fq run 2")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two recordings before a change and two after it."""
    folder = tmp_path_factory.mktemp("four")
    for number, title in enumerate(TITLES):
        variables = {"qdisc": title.split()[0], "rtt": f"{10 * (number % 2 + 1)}ms"}
        recordings.rrul(
            folder / f"{number}.recording", scale=1.0 + number // 2 + number / 10, title=title,
            batch={"variables": variables},
        )  # fmt: skip
    with running(folder) as started:
        yield started


@pytest.fixture(scope="module")
def client(four: Server) -> httpx.Client:
    return client_of(four)


@pytest.fixture(scope="module")
def ids(client: httpx.Client) -> list[str]:
    """The identifiers of the recordings, in the order of their titles."""
    found: list[dict[str, Any]] = []

    def are_listed() -> bool:
        found[:] = client.get("/api/library", params={"q": "kind:recording", "sort": "title"}).json()["entries"]
        return len(found) == len(TITLES)

    wait_until(are_listed, "the recordings")
    assert [one["title"] for one in found] == list(TITLES)
    return [one["id"] for one in found]


@pytest.fixture(scope="module")
def comparison(client: httpx.Client, ids: list[str]) -> str:
    """The address of the comparison of all."""
    own = client.post("/api/comparisons", json={"source": ids}).raise_for_status().json()["id"]
    client.get(f"/api/comparisons/{own}/page").raise_for_status()
    return f"/api/comparisons/{own}"


def test_a_file_of_several_pictures_holds_all_of_them(client: httpx.Client, comparison: str):
    asked = {"plot": "ping", "figure_by": ["title", "series"], "kind": "csv"}
    answer = client.get(f"{comparison}/picture", params=asked).raise_for_status()
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="ping.zip"'
    files = zipfile.ZipFile(io.BytesIO(answer.content))
    # Two queues, each with two probes and their mean.
    assert len(files.namelist()) == 6
    assert all(name.endswith(".csv") and files.read(name).count(b"\n") > 10 for name in files.namelist())
    page = client.get(f"{comparison}/picture", params={**asked, "kind": "html"}).raise_for_status().text
    assert page.count("ICMP") > 1


def test_one_of_several_pictures_is_saved_by_its_key(client: httpx.Client, comparison: str):
    asked = {"plot": "ping", "figure_by": "title", "kind": "svg", "note": "Second floor"}
    answer = client.get(f"{comparison}/picture", params={**asked, "figure": "ping-Latency-fq"}).raise_for_status()
    assert answer.content.startswith(b"<svg")
    refused = client.get(f"{comparison}/picture", params={**asked, "figure": "../x"})
    assert refused.status_code == 422
    assert "no picture" in refused.json()["error"]


def test_one_picture_is_a_file_of_its_own(client: httpx.Client, comparison: str):
    answer = client.get(f"{comparison}/picture", params={"plot": "ping_cdf", "kind": "svg"}).raise_for_status()
    assert answer.headers["content-type"].startswith("image/svg")
    assert answer.content.startswith(b"<svg")


def test_words_of_the_reader_are_in_the_picture(client: httpx.Client, comparison: str):
    asked = {"plot": "ping", "kind": "svg", "title": "The <b>office</b>", "note": "Second floor"}
    drawn = client.get(f"{comparison}/picture", params=asked).raise_for_status().text
    assert "The &lt;b&gt;office&lt;/b&gt;" in drawn
    assert "Second floor" in drawn
    bare = client.get(f"{comparison}/picture", params={**asked, "legend": False}).raise_for_status().text
    assert "Second floor" in bare
    assert bare.count("fifo") < drawn.count("fifo")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limits": "5:2"}, "two numbers that rise"),
        ({"limits": "x"}, "and a unit, such as 0:100 ms"),
        ({"limits": "1:2 K"}, "no axis in K"),
        ({"zoom": "5:500"}, "two percentiles"),
        ({"time": "3:1"}, "two numbers that rise"),
        ({"baseline": 4}, "recording 5 is not there: this comparison has 4"),
        ({"sets": "xxxx"}, "choose one to be drawn"),
        ({"ratio": True}, "needs a baseline"),
        ({"reduce": "pct90"}, "did you mean 'pct9"),
        ({"group_by": "qdsc", "combine": "groups"}, "did you mean batch.variables.qdisc"),
    ],
)
def test_an_option_without_meaning_is_answered_by_what_to_do(
    client: httpx.Client, comparison: str, options: dict[str, Any], words: str
):
    answer = client.get(f"{comparison}/figures", params={"plot": "ping", **options})
    assert 400 <= answer.status_code < 500
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "py", "baseline": 7}, "this comparison has 4"),
        ({"kind": "csv", "combine": "groups-points", "reduce": "meta:nothing"}, "nothing to draw"),
        ({"kind": "csv", "filters": "[", "limits": "0:1"}, "nothing to draw"),
    ],
)
def test_a_picture_that_cannot_be_says_why(client: httpx.Client, comparison: str, options: dict[str, Any], words: str):
    answer = client.get(f"{comparison}/picture", params={"plot": "ping", **options})
    assert answer.status_code == 422
    assert words in answer.json()["error"]


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_many_recordings_are_drawn_from_one_link_and_the_words_say_how_to_compare_them(
    client: httpx.Client, ids: list[str], count: int
):
    many = [ids[number % 4] for number in range(count)]
    link = "/compare?" + "&".join(f"source={one}" for one in many)
    assert client.get(link).status_code == 200
    own = client.post("/api/comparisons", json={"source": many}).raise_for_status().json()["id"]
    assert len(client.get(f"/api/comparisons/{own}/page").raise_for_status().json()["labels"]) == count
    client.get(f"/api/comparisons/{own}/figures", params={"plot": "ping"}).raise_for_status()
    words = client.get(f"/api/comparisons/{own}/words").raise_for_status().json()
    assert "put them into sets A and B" in words["answer"]
    grouped = client.get(f"/api/comparisons/{own}/words", params={"group_by": "batch.variables.qdisc"})
    assert "fq against fifo" in grouped.raise_for_status().json()["answer"]
