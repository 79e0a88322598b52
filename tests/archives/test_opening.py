"""Opening files by their content: compression, archives, damage, bombs."""

from __future__ import annotations

import gzip
import io
import os
import random
import tarfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.written import flipped, tar, zstd
from whydrop.formats.archives import opening, tarring
from whydrop.formats.archives.streams import Buffered, Gunzip, Plain
from whydrop.recording.errors import RecordingError

TEXT = b"".join(b"%d: %d\n" % (number, number * number % 7919) for number in range(20_000))


def read(tmp_path: Path, content: bytes, name: str = "file.tgz") -> list[opening.Member]:
    path = tmp_path / name
    path.write_bytes(content)
    return list(opening.members(path))


def gunzipped(content: bytes) -> tuple[bytes, str | None]:
    stream = Buffered(Gunzip(Plain(io.BytesIO(content))), 1 << 30)
    return stream.read(1 << 30), stream.damage


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd, lambda plain: zstd(gzip.compress(plain))])
def test_a_file_is_unpacked_whatever_its_name_says(tmp_path: Path, pack) -> None:
    for name in ("x.json", "x.gz", "x.zst"):
        (member,) = read(tmp_path, pack(TEXT), name)
        assert (member.name, member.content, member.damage, member.archived) == (name, TEXT, None, False)


@pytest.mark.parametrize("outer", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("inner", [bytes, gzip.compress, zstd])
def test_archives_and_their_members_may_both_be_packed(tmp_path: Path, outer, inner) -> None:
    members = read(tmp_path, outer(tar({"a/one": inner(TEXT), "two": inner(b"2")})))
    assert [(member.name, member.content, member.damage) for member in members] == [
        ("a/one", TEXT, None),
        ("two", b"2", None),
    ]


def test_only_wanted_members_are_given(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(tar({"one": b"1", "two": b"2", "three": b"3"}))
    assert [member.content for member in opening.members(path, lambda name: name.startswith("t"))] == [b"2", b"3"]


def test_an_archive_without_members_is_none_the_less_one(tmp_path: Path) -> None:
    assert read(tmp_path, tar({}, packed=True)) == []


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=200)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(NAMES, st.binary(max_size=2000), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_archives_that_python_wrote_are_read_with_their_names(members: dict[str, bytes], form: int) -> None:
    stream = Buffered(Plain(io.BytesIO(tar(members, form=form))), 1 << 30)
    found = {}
    for entry in tarring.entries(stream):
        assert isinstance(entry, tarring.Entry), entry
        found[entry.name] = stream.read(entry.size)
    assert found == members


def test_folders_links_and_devices_are_no_members(tmp_path: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            info = tarfile.TarInfo(f"kind {kind!r}")
            info.type, info.linkname = kind, "elsewhere"
            archive.addfile(info)
        info = tarfile.TarInfo("file")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"!"))
    assert [member.name for member in read(tmp_path, file.getvalue())] == ["file"]


def test_archives_one_behind_the_other_are_read_as_one(tmp_path: Path) -> None:
    members = read(tmp_path, tar({"one": b"1"}) + tar({"two": b"2"}))
    assert [(member.name, member.content) for member in members] == [("one", b"1"), ("two", b"2")]


def test_parts_of_gzip_one_behind_the_other_are_one_content() -> None:
    assert gunzipped(gzip.compress(b"one, ") + gzip.compress(b"two")) == (b"one, two", None)
    assert gunzipped(gzip.compress(b"one, ") + b"\0" * 100_000 + gzip.compress(b"two")) == (b"one, two", None)


def test_what_follows_gzip_and_is_none_is_named() -> None:
    content, damage = gunzipped(gzip.compress(b"one") + b"garbage")
    assert content == b"one"
    assert damage == "something that is not gzip follows at byte 23"


def test_a_gzip_that_was_cut_off_gives_all_that_was_before() -> None:
    packed = gzip.compress(TEXT)
    for cut in range(20, len(packed), 997):
        content, damage = gunzipped(packed[:cut])
        expected = zlib.decompressobj(wbits=31).decompress(packed[:cut])
        assert content == expected
        assert damage == f"gzip's data end too early, after {cut} bytes"


def test_a_damaged_gzip_gives_all_that_was_before() -> None:
    noise = random.Random(7).randbytes(200_000)
    packed = gzip.compress(noise)  # stored, as it cannot be packed: a flipped bit shows at the check sum
    content, damage = gunzipped(flipped(packed, [8 * 150_000]))
    assert len(content) == len(noise)
    assert damage is not None
    assert "incorrect data check" in damage
    packed = gzip.compress(TEXT)
    middle = len(packed) // 2
    content, damage = gunzipped(packed[:middle] + b"\xff" * 300 + packed[middle + 300 :])
    assert damage is not None
    assert content[:50_000] == TEXT[:50_000]


def test_a_damaged_zstd_gives_the_blocks_before(tmp_path: Path) -> None:
    # Blocks are of 128 KiB. What cannot be packed is stored, and its damage cannot be seen: so half of it can.
    noise = b"".join(os.urandom(20) * 3 for _ in range(20_000))
    packed = bytearray(zstd(noise))
    packed[len(packed) * 3 // 4 :] = b"\xff" * (len(packed) - len(packed) * 3 // 4)
    (member,) = read(tmp_path, bytes(packed), "x.zst")
    assert member.damage is not None
    assert member.damage.startswith("zstd's data are damaged")
    assert len(member.content) >= 0.74 * len(noise) - (128 << 10)
    assert member.content == noise[: len(member.content)]


def test_a_zstd_that_was_cut_off_gives_the_blocks_before(tmp_path: Path) -> None:
    noise = b"".join(os.urandom(20) * 3 for _ in range(20_000))
    packed = zstd(noise)
    (member,) = read(tmp_path, packed[: len(packed) // 2], "x.zst")
    assert member.damage is not None
    assert member.damage.startswith("zstd's data end too early")
    assert len(member.content) >= 0.49 * len(noise) - (128 << 10)
    assert member.content == noise[: len(member.content)]


def test_a_damaged_header_costs_one_member_not_those_behind_it(tmp_path: Path) -> None:
    content = tar({"one": b"1" * 600, "two": b"2" * 600, "three": b"3" * 600})
    broken = flipped(content, [8 * (512 + 1024) + 3])
    one, gap, three = read(tmp_path, broken)
    assert (one.content, three.content) == (b"1" * 600, b"3" * 600)
    assert gap.name == ""
    assert gap.damage == "no header of tar at offset 1536: 1536 bytes, up to the next one, were left out"


def test_an_archive_that_was_cut_off_says_what_may_be_missing(tmp_path: Path) -> None:
    content = tar({"one": b"1" * 600, "two": b"2" * 600})
    one, two, gap = read(tmp_path, content[: 1536 + 512 + 100])
    assert one.damage is None
    assert two.content == b"2" * 100
    assert two.damage == "ends after 100 of 600 bytes: the archive was cut off"
    assert gap.damage is not None
    one, gap = read(tmp_path, content[:1536])
    assert gap.damage == "at offset 1536: the archive has no end mark: members may be missing"


def test_a_member_of_a_size_that_is_a_lie_ends_with_the_archive(tmp_path: Path) -> None:
    content = bytearray(tar({"one": b"1", "two": b"2"}))
    content[124:136] = b"\x80" + (1 << 60).to_bytes(11, "big")
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    one, _ = read(tmp_path, bytes(content))
    assert one.damage is not None
    assert one.damage.startswith("1152921504606846976 bytes: more than 256 MiB")


def test_bombs_are_read_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MOST_MEMBER_BYTES", 1 << 20)
    monkeypatch.setattr(opening, "MOST_FILE_BYTES", 4 << 20)
    bomb = b"x" * (20 << 20)
    for pack in (gzip.compress, zstd):
        (member,) = read(tmp_path, pack(bomb), "bomb")
        assert len(member.content) == 1 << 20
        assert member.damage == "more than 1 MiB unpacked: the rest was not read"
        inner, _ = read(tmp_path, tar({"bomb": pack(bomb), "more": b"1"}))
        assert len(inner.content) == 1 << 20
    outer = read(tmp_path, gzip.compress(tar({str(n): b"x" * (6 << 20) for n in range(3)})))
    assert all(len(member.content) <= 1 << 20 for member in outer)
    assert outer[-1].damage is not None
    assert "unpacks to far more" in outer[-1].damage


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"nowhere\.tgz: No such file or directory"):
        list(opening.members(tmp_path / "nowhere.tgz"))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_however_an_archive_is_damaged_it_is_read_without_an_error(tmp_path_factory, data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from(list(ARCHIVES)))
    content = ARCHIVES[whole]
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    if content:
        bits = st.lists(st.integers(0, 8 * len(content) - 1), max_size=8)
        content = flipped(content, data.draw(bits))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    total = sum(len(member.content) for member in opening.members(path))
    assert total <= 4 << 20


ARCHIVES = {
    "tar": tar({"one": TEXT[:3000], "two": b"2", "x" * 150: b"long"}, form=tarfile.GNU_FORMAT),
    "tgz": tar({"one": TEXT[:3000], "two": gzip.compress(TEXT)}, packed=True),
    "zst": zstd(TEXT),
    "pax": tar({"one": TEXT[:3000], "ä" * 150: zstd(TEXT)}, packed=True, form=tarfile.PAX_FORMAT),
}
