"""The script of `whydrop deploy` in the shells of far hosts; a program in place of ssh runs them here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import whydrop
from patience import wait_until
from running.responders import free_port, static_program
from whydrop.measure.deploying import DeployError


def deploys(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that starts the program itself."""
    return pytest.mark.slow(pytest.mark.needs_program("cargo", str(Path.home() / ".cargo/bin/cargo"))(test))


SHELLS = [
    pytest.param(words, marks=pytest.mark.needs_program(words.split()[0])) for words in ("dash", "bash", "busybox sh")
]

# `ssh -T -- HOST COMMAND`: the login shell runs COMMAND, and every `sh` there is the shell under test.
STAND_IN = """#!/bin/sh
[ "$1" = -G ] && echo hostname 127.0.0.1 && exit
export PATH={folder}:$PATH TMPDIR={temporary}
printf 'Welcome!\\n'
exec {shell} -c "$(printf %s "$4" | sed "s#/bin/sh#{shell}#")"
"""

Ssh = Callable[..., list[str]]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def ssh(tmp_path: Path, temporary: Path) -> Ssh:
    def made(shell: str = "dash", before: str = "") -> list[str]:
        path = tmp_path / "stand-in"
        text = STAND_IN.format(folder=tmp_path, temporary=temporary, shell=shell)
        path.write_text(text.replace("exec ", f"{before}\nexec ", 1))
        path.chmod(0o755)
        return [str(path)]

    return made


def elf_for(machine: int, path: Path) -> Path:
    """A copy of a program, as if it was built for another machine."""
    content = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
    content[18:20] = machine.to_bytes(2, "little")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("shell", SHELLS)
@deploys
def test_a_responder_is_deployed_through_every_shell(shell: str, ssh: Ssh, temporary: Path, tmp_path: Path) -> None:
    port = free_port()
    with whydrop.deploy("far", ssh=ssh(shell), port=port, program=static_program()) as far:
        assert far.running
        assert far.place == f"127.0.0.1:{port}"
        wait_until(lambda: not list(temporary.iterdir()), "the removal of the program's file")
        recording = whydrop.run("ping", to=far.place, secret=far.secret, duration_s=0.5, output=tmp_path)
        assert recording.status == "complete"
    assert not far.running


@deploys
def test_a_folder_without_programs_is_passed_over(ssh: Ssh, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    before = f"export HOME={home} XDG_RUNTIME_DIR=/nowhere TMPDIR=/proc"
    with whydrop.deploy("far", ssh=ssh(before=before), port=free_port(), program=static_program()) as far:
        wait_until(lambda: not list(home.iterdir()), "the removal of the program's file")
        assert far.running


@deploys
def test_a_full_disk_is_named_with_the_bytes_that_it_took(ssh: Ssh, temporary: Path) -> None:
    with pytest.raises(DeployError, match=rf"far: {temporary} took \d+ of \d+ bytes"):
        whydrop.deploy("far", ssh=ssh(before="ulimit -f 16"), port=free_port(), program=static_program())
    assert list(temporary.iterdir()) == []


def test_a_program_for_another_machine_is_not_copied(ssh: Ssh, tmp_path: Path) -> None:
    wrong = elf_for(40, tmp_path / "wrong")
    with pytest.raises(
        DeployError, match=rf"far: Linux {os.uname().machine}, but {wrong} is for Linux another machine"
    ):
        whydrop.deploy("far", ssh=ssh(), program=wrong)


def test_a_file_that_is_no_program_is_named(ssh: Ssh, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no program")
    with pytest.raises(DeployError, match=r"notes\.txt: no program of Linux"):
        whydrop.deploy("far", ssh=ssh(), program=text)


def test_a_far_host_that_refuses_is_named_with_what_ssh_said(tmp_path: Path) -> None:
    refusing = tmp_path / "refusing"
    refusing.write_text("#!/bin/sh\necho 'far: Permission denied (publickey).' >&2\nexit 255\n")
    refusing.chmod(0o755)
    with pytest.raises(DeployError, match=r"Permission denied \(publickey\)\. Try: .*refusing far true"):
        whydrop.deploy("far", ssh=[str(refusing)], program=Path("/bin/true"))


def test_a_host_is_never_taken_for_an_option_of_ssh() -> None:
    with pytest.raises(DeployError, match="expected a host of ssh"):
        whydrop.deploy("-oProxyCommand=reboot", program=Path("/bin/true"))


@deploys
def test_the_end_of_ssh_ends_the_responder_and_is_an_error_at_the_end(ssh: Ssh, temporary: Path) -> None:
    far = whydrop.deploy("far", ssh=ssh(), port=free_port(), program=static_program())
    far._connection.process.kill()
    wait_until(lambda: not far.running)
    with pytest.raises(DeployError, match="ended before it was stopped"):
        far.stop()


@deploys
def test_a_secret_with_spaces_arrives_whole(ssh: Ssh, tmp_path: Path) -> None:
    secret = "four score and seven \\ years $HOME ago"
    with whydrop.deploy("far", ssh=ssh(), port=free_port(), program=static_program(), secret=secret) as far:
        recording = whydrop.run("ping", to=far.place, secret=secret, duration_s=0.5, output=tmp_path)
    assert recording.status == "complete"


@deploys
def test_a_responder_can_be_stopped_twice(ssh: Ssh) -> None:
    with whydrop.deploy("far", ssh=ssh(), port=free_port(), program=static_program()) as far:
        far.stop()
    assert not far.running


@deploys
def test_the_secret_is_in_no_command_line(ssh: Ssh) -> None:
    with whydrop.deploy("far", ssh=ssh(), port=free_port(), program=static_program()) as far:
        lines = subprocess.check_output(["ps", "-ww", "-eo", "args"], text=True)
        assert far.secret not in lines
