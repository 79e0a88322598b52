"""Mutated captures end in a verdict or in one line: ``tools/fuzz_packets.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from example_files import ROOT

sys.path.insert(0, str(ROOT / "tools"))

from fuzzing import cases, frames


def fuzz(keep: Path, *options: str) -> None:
    """Run the fuzzer; its findings are in what the failed test says."""
    command = [sys.executable, ROOT / "tools" / "fuzz_packets.py", "--keep", keep, *options, ROOT / "examples"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout


@pytest.mark.slow
def test_a_few_hundred_mutated_captures_are_explained(tmp_path: Path) -> None:
    fuzz(tmp_path, "--cases", "300", "--workers", "1", "--seconds", "10", "--limit-s", "120")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_minute_of_mutated_captures_is_explained(tmp_path: Path) -> None:
    seed = str(Random().randrange(1 << 30))
    fuzz(tmp_path, "--seed", seed, "--cases", "100000", "--seconds", "60", "--limit-s", "120")


def test_a_case_is_the_same_at_each_time() -> None:
    assert [cases.case(3, number, []) for number in range(20)] == [cases.case(3, number, []) for number in range(20)]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    for number in range(20):
        (content, *_) = cases.case(5, number, []).files
        file = tmp_path / "a.pcap"
        file.write_bytes(content)
        again = frames.read(file, 10_000)
        assert again is not None
        assert frames.written(again)[:24] == content[:24]
