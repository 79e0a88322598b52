"""Any published file, read by its content: all of the published ones, and archives of everything."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.outcomes import check, outcome, tables
from archives.published import MLAB, folders
from archives.written import flipped, snaplog, tar, tcp_info_lines, zstd
from whydrop.formats.archives import Piece, json_text, sidestream, tcp_info, web100
from whydrop.formats.archives import pieces as pieces_module
from whydrop.formats.archives.pieces import pieces
from whydrop.recording.errors import RecordingError
from whydrop.store.tables import NDT, TCP

SNAPLOG = "20170922T23:51:06.885503000Z_client.example:34794.s2c_snaplog"
META = b"""Date/Time: 20170922T23:51:06.885503000Z
s2c_snaplog file: 20170922T23:51:06.885503000Z_client.example:34794.s2c_snaplog.gz
server hostname: mlab3-dfw07.mlab-oti.measurement-lab.org
Summary data: 0,17,297,10
 * Additional data:
server hostname: evil.example
"""
FOLDERS = ("ndt-web100-archives", "web100", "ndt5", "ndt7", "sidestream", "tcpinfo")


def records_of_the_readme() -> dict[str, int]:
    """How many snapshots the folder's own list counts in each file; what it counts otherwise is not among them."""
    counts = {}
    for line in (MLAB / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 4 and cells[1].startswith("`"):
            snapshots = [int(number) for number in re.findall(r"(\d+) snapshots", cells[3].replace(",", ""))]
            counts[cells[1].strip("`")] = sum(snapshots)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("path", folders(*FOLDERS) or [None], ids=lambda path: path.name if path else "missing")
def test_every_published_file_is_read_without_damage(path: Path | None) -> None:
    if path is None:
        pytest.skip(f"Measurement Lab's files are not in {MLAB}: only synthetic files are read")
    found = outcome(path)
    assert isinstance(found, list), found
    assert [piece.damage for piece in found if piece.damage] == []
    assert found, "not even a note says what is in it"
    expected = records_of_the_readme()[path.name]
    if "web100" in str(path) or (path.suffix == ".zst" and expected):
        assert sum(piece.frame.height for piece in found if piece.table == "tcp") == expected
        tests = {test for piece in found if piece.table == "tcp" for test in piece.frame["test_id"].unique()}
        if "web100" in str(path):
            assert sum(piece.frame.height for piece in found if piece.table == "ndt") == len(tests)


@pytest.mark.parametrize("path", folders("pcap") or [None], ids=lambda path: path.name if path else "missing")
def test_captures_are_left_to_explain(path: Path | None) -> None:
    if path is None:
        pytest.skip(f"Measurement Lab's files are not in {MLAB}: only synthetic files are read")
    (piece,) = pieces(path)
    assert piece.frame.is_empty()
    assert piece.notes == ["Captures of packets left out: 1 (`whydrop explain` reads them)"]


@pytest.mark.parametrize("path", folders("disco") or [None], ids=lambda path: path.name if path else "missing")
def test_disco_s_files_are_rows_of_counters(path: Path | None) -> None:
    if path is None:
        pytest.skip(f"Measurement Lab's files are not in {MLAB}: only synthetic files are read")
    found = list(pieces(path))
    assert {piece.table for piece in found} == {"counters"}
    assert sum(piece.frame.height for piece in found) > 0


def archive(tmp_path: Path, members: dict[str, bytes]) -> list[Piece]:
    path = tmp_path / "20170922T000000Z-mlab1-los01-ndt-0004.tgz"
    path.write_bytes(tar(members, packed=True))
    return list(pieces(path))


def test_an_archive_of_everything_is_read_member_by_member(tmp_path: Path) -> None:
    found = archive(
        tmp_path,
        {
            f"1/{SNAPLOG}": snaplog([{}] * 3),
            "1/a.cputime": b"0.00 0 0 0 0\n",
            "1/b.s2c_ndttrace": b"\xd4\xc3\xb2\xa1" + bytes(20),
            "1/damaged.jsonl.zst": zstd(tcp_info_lines([("2019-05-16T00:00:05Z", bytes(232))]) + b"{"),
            "1/whole.jsonl.zst": zstd(tcp_info_lines([("2019-05-16T00:00:06Z", bytes(232))])),
            "1/what.is.this": b"?",
            "1/empty.json": b"",
        },
    )
    damaged, tcp, ndt = found
    assert damaged.source.endswith("-0004.tgz: 1/damaged.jsonl.zst")
    assert damaged.damage is not None
    assert damaged.frame.height == 1
    assert (tcp.table, tcp.frame.height) == ("tcp", 4)
    assert (ndt.table, ndt.frame.height) == ("ndt", 1)
    assert tcp.notes == [
        "Captures of packets left out: 1 (`whydrop explain` reads them)",
        "Logs of CPU time left out: 1",
        "Files of kinds not known here left out: 1 (1/what.is.this)",
        "Empty files: 1",
    ]


@pytest.mark.parametrize("behind", [True, False])
def test_a_meta_names_the_server_before_or_behind_its_snaplog(tmp_path: Path, behind: bool) -> None:
    members = {"1/client.meta": META, f"1/{SNAPLOG}.gz": gzip.compress(snaplog([{}]))}
    tcp, ndt = archive(tmp_path, dict(reversed(members.items())) if behind else members)
    (test,) = ndt.frame.to_dicts()
    assert test["server"] == "mlab3-dfw07.mlab-oti.measurement-lab.org"
    assert (test["machine"], test["site"], test["metro"]) == ("mlab3", "dfw07", "dfw")
    assert test["mean_throughput_bps"] == 17_000.0
    assert tcp.frame.select("machine", "site").rows() == [("mlab3", "dfw07")]


def test_a_snaplog_without_its_meta_is_of_the_archive_s_server(tmp_path: Path) -> None:
    other = META.replace(b"client.example", b"other.example").replace(b"06.885503", b"07.885503")
    _, ndt = archive(tmp_path, {"1/other.meta": other, f"1/{SNAPLOG}": snaplog([{}])})
    assert ndt.frame.select("server", "machine", "site").rows() == [
        ("mlab1.los01.measurement-lab.org", "mlab1", "los01")
    ]


def test_the_same_snaplog_alone_or_packed_has_the_same_test(tmp_path: Path) -> None:
    names = (SNAPLOG, SNAPLOG.replace(":", "%3A") + ".gz")
    identities = []
    for name in names:
        path = tmp_path / name
        path.write_bytes(snaplog([{}]))
        tcp, ndt = tables(path)
        identities += [tcp["test_id"][0], ndt["test_id"][0]]
    assert set(identities) == {SNAPLOG}


def test_rows_of_many_members_are_given_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "_MOST_ROWS", 5)
    monkeypatch.setattr(pieces_module, "_MOST_OBJECTS", 2)
    line = tcp_info_lines([("2019-05-16T00:00:05Z", bytes(232))])
    found = archive(tmp_path, {f"{number}.jsonl": line for number in range(13)})
    heights = [piece.frame.height for piece in found]
    assert sum(heights) == 13
    assert len(heights) > 1
    assert max(heights) <= 6


def test_a_file_of_no_known_kind_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "photo\x1b[2J.jpeg"
    path.write_bytes(b"\xff\xd8\xff\xe0 JFIF")
    with pytest.raises(RecordingError, match=r"expected a web100 snaplog, SideStream's \.web100, tcp-info's"):
        list(pieces(path))


def test_an_archive_that_is_damaged_from_its_beginning_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    path.write_bytes(tar({"a": b"1"}, packed=True)[:40])
    with pytest.raises(RecordingError, match=r"a\.tgz: gzip's data end too early, after 40 bytes"):
        list(pieces(path))


@pytest.mark.parametrize("content", [tar({}), tar({}, packed=True), bytes(5 << 20)])
def test_an_archive_without_files_and_a_file_of_zeros_say_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.tgz"
    path.write_bytes(content)
    (piece,) = pieces(path)
    assert piece.frame.is_empty()
    assert piece.notes == ["An archive without a file in it."]


def test_a_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="Is a directory"):
        list(pieces(tmp_path))


def test_a_damaged_archive_gives_the_members_before_the_damage(tmp_path: Path) -> None:
    noise = random.Random(5)
    names = [f"{number}/{SNAPLOG}" for number in range(4)]
    members = {name: snaplog([{"PktsOut": noise.getrandbits(32)} for _ in range(50)]) for name in names}
    content = tar(members, packed=True)
    path = tmp_path / "a.tgz"
    path.write_bytes(content[: len(content) * 3 // 4])
    found = list(pieces(path))
    damages = [piece.damage for piece in found if piece.damage]
    assert len(damages) == 2  # the member's, and the archive's: what was behind it is not known
    assert all("gzip's data end too early" in damage for damage in damages)
    whole = next(piece for piece in found if piece.table == "tcp" and not piece.damage)
    assert whole.frame.height in (100, 150)
    cut = next(piece for piece in found if piece.table == "tcp" and piece.damage and piece.frame.height)
    assert whole.frame.height + cut.frame.height < 200


def test_files_of_far_more_rows_than_real_ones_are_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web100, "_MOST_RECORDS", 3)
    monkeypatch.setattr(tcp_info, "MOST_SNAPSHOTS", 3)
    monkeypatch.setattr(sidestream, "_MOST_CONNECTIONS", 3)
    connections = b"K: cid RemAddress RemPort\n" + b"C: 1 192.0.2.7 5\n" * 5
    contents = {
        SNAPLOG: (snaplog([{}] * 5), "more than 3 records"),
        "x.jsonl": (tcp_info_lines([("2019-05-16T00:00:06Z", bytes(232))] * 5), "more than 3 snapshots"),
        "x.web100": (connections, "more than 3 connections"),
    }
    for name, (content, expected) in contents.items():
        (tmp_path / name).write_bytes(content)
        piece, *_ = pieces(tmp_path / name)
        assert piece.frame.height == 3
        assert piece.damage is not None
        assert expected in piece.damage


def test_a_document_of_far_more_json_than_a_result_is_read_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "MOST_BYTES", 5000)
    one = '{"TCPInfo": {"BytesAcked": 5}}, '
    path = tmp_path / "ndt7-x.json"
    path.write_text('{"Download": {"UUID": "a", "ServerMeasurements": [' + one * 10_000)
    piece, *_ = pieces(path)
    assert 100 < piece.frame.height < 5000 / len(one)
    assert piece.damage is not None


def test_every_column_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "archives.md").read_text()
    assert [column for schema in (TCP, NDT) for column in schema if f"`{column}`" not in text] == []


EVERYTHING = {
    f"1/{SNAPLOG}": snaplog([{"PktsOut": 7}] * 3),
    "1/client.meta": META,
    "1/x.jsonl.zst": zstd(tcp_info_lines([("2019-05-16T00:00:06Z", bytes(232))] * 3)),
    "1/ndt7-x.json": b'{"Download": {"UUID": "a", "ServerMeasurements": [{"TCPInfo": {"BytesAcked": 5}}]}}',
    "1/ALL0.web100": b"K: cid RemAddress RemPort\nC: 1 192.0.2.7 5\n",
    "1/20170203T00:00:00-switch.json": (
        b'{"experiment": "s1.svg01.measurement-lab.org", "hostname": "mlab3.svg01.measurement-lab.org", '
        b'"metric": "switch.octets.uplink.tx", "sample": [{"timestamp": 1463072400, "value": 5.0}]}\n'
    ),
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_however_an_archive_is_damaged_its_rows_or_one_line_come_of_it(tmp_path_factory, data: st.DataObject) -> None:
    content = tar(EVERYTHING, packed=data.draw(st.booleans()))
    bits = data.draw(st.lists(st.integers(0, 8 * len(content) - 1), max_size=8))
    path = tmp_path_factory.getbasetemp() / "20170922T000000Z-mlab1-los01-ndt-0004.tgz"
    path.write_bytes(flipped(content, bits)[: data.draw(st.none() | st.integers(0, len(content)))])
    check(path, most_rows=20)
