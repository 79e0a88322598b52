"""``whydrop-responder``, the static program: where it runs, and what it has in common with ``whydrop responder``."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from running.conftest import needs_cargo
from running.responders import ROOT, WHYDROP, ended, responder, static_program
from whydrop.recording.recording import Recording

pytestmark = [pytest.mark.slow, needs_cargo]

Run = Callable[..., subprocess.CompletedProcess[str]]

LARGEST_BYTES = 5_000_000
PT_INTERP = 3


@pytest.mark.needs_root
def test_it_serves_in_a_root_folder_that_has_nothing_else(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    shutil.copy(static_program(), root)
    chroot = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin") or "chroot"
    with responder("--open", prefix=(chroot, str(root)), program=("/whydrop-responder",)) as far:
        done = run(
            "run", "tcp_1up", "--to", far.place, "--duration", "1s", "--set", "delay=0", "--output", tmp_path,
            "--no-plot",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "0 of another protocol" in far.ask_to_stop()
        assert far.process.returncode == 0
    (found,) = tmp_path.glob("*.recording")
    recording = Recording.open(found)
    assert recording.table("intervals")["payload_bytes"].sum() > 0
    hosts = recording.metadata["hosts"]
    assert hosts["127.0.0.1"]["kernel"] == hosts["local"]["kernel"]
    assert hosts["127.0.0.1"]["egress"]["127.0.0.1"]["interface"] == "lo"


def test_its_help_is_that_of_the_command_but_for_the_name() -> None:
    of_command, of_program = ended((*WHYDROP, "responder"), "--help"), ended((str(static_program()),), "--help")
    assert (of_program.returncode, of_program.stderr) == (0, "")
    # Secrets are made by whydrop; the command has no version of its own.
    expected = of_command.stdout.replace("    whydrop secret -o secret\n", "").replace(
        "whydrop responder", "whydrop-responder"
    )
    kept = [line for line in of_program.stdout.splitlines() if "--version" not in line]
    assert kept == expected.rstrip("\n").splitlines()


@pytest.mark.exhaustive
def test_the_released_program_is_small_and_needs_no_other_file() -> None:
    script = 'export PATH="$PATH:$HOME/.cargo/bin"; exec tools/build-responder'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    content = Path(done.stdout.strip()).read_bytes()
    assert len(content) < LARGEST_BYTES
    (at,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    kinds = {struct.unpack_from("<I", content, at + size * place)[0] for place in range(count)}
    assert PT_INTERP not in kinds
