"""Files with names that are hostile, or no text."""

from __future__ import annotations

import os
from pathlib import Path

from archives.test_disco import file_of, metric, windows
from whydrop.formats.archives.ingesting import ingest
from whydrop.store.store import Store

NAMES = (b"\xff\xfe-switch.jsonl", b"new\nline\x1b[2J-switch.jsonl", b"\xff-readme", b"a b*[?]'\"=-switch.jsonl")


def test_names_of_files_are_text_in_what_is_said_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        (folder / os.fsdecode(name)).write_bytes(file_of(metric(f"octets.p{number}.tx", windows([1.0]))))
    (folder / os.fsdecode(NAMES[2])).write_bytes(b"no telemetry")
    named = Path(os.fsdecode(os.fsencode(folder) + b"/not there \xff"))
    report = ingest(Store.create(tmp_path / "store"), [folder, named])
    assert report.tables()["counters"].rows == len(NAMES) - 1
    assert [file.status for file in report.files].count("left out") == 1
    for file in report.files:
        for text in (file.path, *file.damage, *map(str, file.notes)):
            assert text.encode()
            assert text.count("readme") <= 1
