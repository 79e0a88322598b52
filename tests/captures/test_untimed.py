"""Timestamps that show no time: nothing is said of delay, rate, or a cause that only times show."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import whydrop
from captures.test_explaining import EXAMPLES
from example_files import Run

SECOND = 1_000_000


def stamped(folder: Path, name: str, stamp: Callable[[int], int], example: str = "policed-download") -> Path:
    """The example with other timestamps, which are microseconds since its first packet."""
    import pyarrow

    with pyarrow.CompressedInputStream(str(EXAMPLES / f"{example}.pcap.zst"), "zstd") as packed:
        content = bytearray(packed.read())
    first, at = None, 24
    while at < len(content):
        seconds, fraction, length = struct.unpack_from("<III", content, at)
        time = seconds * SECOND + fraction
        first = time if first is None else first
        struct.pack_into("<II", content, at, *divmod(stamp(time - first), SECOND))
        at += 16 + length
    path = folder / name
    path.write_bytes(content)
    return path


KINDS: dict[str, tuple[str, Callable[[int], int]]] = {
    "zero": ("equal", lambda _: 0),
    "same": ("equal", lambda _: 1_800_000_000 * SECOND),
    "seconds": ("coarse", lambda time: time // SECOND * SECOND),
    "tenths": ("coarse", lambda time: time // (SECOND // 10) * (SECOND // 10)),
    "one step": ("coarse", lambda time: (time > 4 * SECOND) * SECOND),
    "backwards": ("backwards", lambda time: 100 * SECOND - time),
}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_time(kind: str, tmp_path: Path, run_here: Run) -> None:
    reason, stamp = KINDS[kind]
    path = stamped(tmp_path, "one.pcap", stamp)
    document = whydrop.explain(path, tables=False).document
    assert document["captures"][0]["timeless"] == reason
    assert [verdict["cause"] for verdict in document["verdicts"]] == ["unknown"]
    assert "shows no times" in document["verdicts"][0]["sentence"]
    assert document["transfers"] == []
    assert all(flow["rtt_min_s"] is None and flow["limits"] is None for flow in document["flows"])
    printed = run_here("explain", path).stdout
    resolution = {"coarse": r"resolution of [\d.]+.m?s"}.get(reason, "$")
    assert not re.search(r"\d.(m|µ|n)?s\b|bit/s", re.sub(resolution, "", printed).partition("Captures")[0]), printed


def test_two_captures_need_times(tmp_path: Path) -> None:
    near = stamped(tmp_path, "near.pcap", lambda _: 0)
    far = stamped(tmp_path, "far.pcap", lambda _: 0, "policed-download-far")
    with pytest.raises(whydrop.Error, match="all timestamps are equal"):
        whydrop.explain(near, far)


def test_a_file_in_reverse_order_has_its_times(tmp_path: Path) -> None:
    path = stamped(tmp_path, "one.pcap", lambda time: time)
    content, at, records = path.read_bytes(), 24, []
    while at < len(content):
        end = at + 16 + struct.unpack_from("<I", content, at + 8)[0]
        records.append(content[at:end])
        at = end
    path.write_bytes(content[:24] + b"".join(reversed(records)))
    assert whydrop.explain(path, tables=False).verdicts[0].cause == "policer"
