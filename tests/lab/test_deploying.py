"""`whydrop deploy` to another host's sshd: a test is measured, and nothing is left there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import Lab
from lab.network import Host, Network
from patience import wait_until
from running.responders import static_program
from whydrop.recording.recording import Recording

pytestmark = [pytest.mark.slow, pytest.mark.needs_program("sshd")]

WHYDROP = [sys.executable, "-m", "whydrop"]


class Far:
    """A client, a server with sshd, and the folder in which the server's programs put temporary files."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.client, self.server = network.host("client"), network.host("server")
        network.link(self.client, self.server)
        network.start()
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.ssh = _sshd(self.server, folder)

    def words(self, *words: str) -> list[str]:
        target = f"root@{self.server.address}"
        return [*WHYDROP, "deploy", "--program", str(static_program()), "--ssh", self.ssh, target, *words]

    def responders(self) -> list[int]:
        """The processes at the server that are no part of sshd."""
        found = []
        for pid in subprocess.check_output(["ip", "netns", "pids", self.server.namespace], text=True).split():
            try:
                name = Path(f"/proc/{pid}/comm").read_text().strip()
            except OSError:
                continue
            found += [int(pid)] if name not in ("sshd", "tcpdump") else []
        return found

    def check_that_nothing_is_left(self) -> None:
        wait_until(lambda: not self.responders(), "the end of the responder")
        assert list(self.temporary.iterdir()) == []


def _sshd(server: Host, folder: Path) -> str:
    """Start sshd; return how to connect to it."""
    for name in ("host-key", "user-key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "sshd_config").write_text(
        f"HostKey {folder}/host-key\nAuthorizedKeysFile {folder}/user-key.pub\nStrictModes no\nUsePAM no\n"
        f"PidFile none\nSetEnv TMPDIR={folder}/temporary\n"
    )
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert sshd is not None
    server.popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")])
    server.wait_listening(22)
    known = f"-o StrictHostKeyChecking=no -o UserKnownHostsFile={folder}/known-hosts"
    return f"ssh -F none {known} -i {folder}/user-key"


@pytest.fixture
def far(lab: Lab, tmp_path: Path) -> Iterator[Far]:
    with lab.network() as network:
        yield Far(network, tmp_path)


def test_a_test_is_measured_at_a_deployed_responder_of_which_nothing_is_left(far: Far) -> None:
    measuring = ["run", "tcp_download", "--to", "{}", "-t", "1", "--no-plot", "-o", str(far.folder)]
    done = far.client.run(far.words("--", *WHYDROP, *measuring))
    [folder] = far.folder.glob("*.recording")
    assert Recording.open(folder).status == "complete", done.stderr
    far.check_that_nothing_is_left()


def test_the_status_is_that_of_the_command(far: Far) -> None:
    done = far.client.run(far.words("sh", "-c", "echo {} $WHYDROP_SECRET; exit 7"), check=False)
    place, secret = done.stdout.split()
    assert (done.returncode, place) == (7, f"{far.server.address}:17370")
    assert secret.startswith("whydrop-")
    far.check_that_nothing_is_left()


@pytest.mark.parametrize(("ending", "status"), [("INT", 0), ("KILL", -9)])
def test_a_responder_ends_with_whydrop_however_that_ends(far: Far, ending: str, status: int) -> None:
    process = far.client.popen(far.words())
    process.wait_for("whydrop run rrul --to")
    assert far.responders()
    # The program runs without its file.
    wait_until(lambda: not list(far.temporary.iterdir()), "the removal of the program's file")
    subprocess.run(["kill", f"-{ending}", str(process.pid)], check=True)
    wait_until(lambda: process.returncode is not None, "the end of whydrop")
    assert process.returncode == status, process.output()
    far.check_that_nothing_is_left()


def test_a_port_in_use_is_named(far: Far) -> None:
    far.server.popen([*WHYDROP, "responder", "--open"]).wait_for("port")
    done: Any = far.client.run(far.words("--", "true", "{}"), check=False)
    assert done.returncode == 1
    assert "17370" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(far.temporary.iterdir()) == []
