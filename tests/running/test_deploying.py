"""The script of `whydrop deploy` in the shells of far hosts; a program in place of ssh runs them here."""

from __future__ import annotations

import contextlib
import os
import signal
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

# `ssh [OPTIONS] -T -- HOST COMMAND`: the login shell runs COMMAND, and every `sh` there is the shell under test.
STAND_IN = """#!/bin/sh
[ "$1" = -G ] && echo hostname 127.0.0.1 && exit
export PATH={folder}:$PATH TMPDIR={temporary}
printf 'Welcome!\\n'
while [ $# -gt 1 ]; do shift; done
exec {shell} -c "$(printf %s "$1" | sed "s#/bin/sh#{shell}#")"
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


@deploys
def test_a_full_folder_is_passed_over(ssh: Ssh, temporary: Path, tmp_path: Path) -> None:
    # A file system of 64 kB, in a mount namespace of this "far host".
    home = tmp_path / "home"
    home.mkdir()
    mount = f"export HOME={home} XDG_RUNTIME_DIR={temporary}; mount -t tmpfs -o size=64k none {temporary} || exit\n"
    program = ssh(before=mount)
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespaces here")
    with whydrop.deploy("far", ssh=["unshare", "-m", *program], port=free_port(), program=static_program()) as far:
        wait_until(lambda: not list(home.iterdir()), "the removal of the program's file")
        assert far.running


def pids_of(text: str) -> list[int]:
    """The processes with this text in their command line, the first one first."""
    found = subprocess.run(["pgrep", "-f", text], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


@pytest.mark.parametrize("shell", SHELLS)
@deploys
def test_a_responder_ends_with_its_watcher(shell: str, ssh: Ssh) -> None:
    port = free_port()
    far = whydrop.deploy("far", ssh=ssh(shell), port=port, program=static_program())
    [responder] = pids_of(f"whydrop-responder --port {port}$")
    parent = Path(f"/proc/{responder}/stat").read_text().rpartition(")")[2].split()[1]
    [watcher] = [child for child in children(int(parent)) if child != responder]
    # Its `cat` may run: it keeps the input, and is no part of the question.
    os.kill(watcher, signal.SIGKILL)
    wait_until(lambda: not pids_of(f"whydrop-responder --port {port}$"), "the end of the responder")
    wait_until(lambda: not far.running, "the end of the connection")
    with pytest.raises(DeployError, match="ended before it was stopped"):
        far.stop()


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@deploys
def test_the_folder_of_a_killed_shell_is_removed_by_the_next_one(ssh: Ssh, temporary: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    old, live = (temporary / f"whydrop-responder.{pid}.abcdef" for pid in (gone.pid, os.getpid()))
    other = temporary / "notes"
    for folder in (old, live, other):
        folder.mkdir()
    with whydrop.deploy("far", ssh=ssh(), port=free_port(), program=static_program()):
        wait_until(lambda: {*temporary.iterdir()} == {live, other}, "the removal of both folders")


def test_options_of_ssh_come_before_the_defaults(tmp_path: Path) -> None:
    printing = tmp_path / "printing"
    printing.write_text('#!/bin/sh\necho "$*" >&2\nexit 255\n')
    printing.chmod(0o755)
    with pytest.raises(DeployError, match=r"-o ConnectTimeout=3 -o ConnectTimeout=15 -o ServerAliveInterval=10 -T --"):
        whydrop.deploy("far", ssh=[str(printing), "-o", "ConnectTimeout=3"], program=Path("/bin/true"))


def test_ssh_prompts_on_the_terminal_of_whydrop(tmp_path: Path) -> None:
    asking = tmp_path / "asking"
    asking.write_text("#!/bin/sh\n[ -t 2 ] && echo 'Confirm user presence' >&2\nexit 255\n")
    asking.chmod(0o755)
    command = [sys.executable, "-m", "whydrop", "deploy", "--program", "/bin/true", "--ssh", str(asking), "far"]
    main, far_side = os.openpty()
    process = subprocess.Popen(command, stdin=far_side, stdout=far_side, stderr=far_side)
    os.close(far_side)
    shown = read_all(main)
    assert process.wait() == 1
    assert "Confirm user presence" in shown
    assert f"ssh refused or lost the connection. Try: {asking} far true" in shown.replace("\r\n", " ")


def read_all(terminal: int) -> str:
    """Read up to the end of a terminal, at which Linux reports an error."""
    data = b""
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 4096):
            data += piece
    os.close(terminal)
    return data.decode()


def test_a_mistyped_command_is_named_before_a_connection(tmp_path: Path) -> None:
    made = tmp_path / "connected"
    words = ["--ssh", f"touch {made}", "far", "--", "whydorp", "run", "rrul", "--to", "{}"]
    done = subprocess.run(
        [sys.executable, "-m", "whydrop", "deploy", *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (127, "whydrop: whydorp: no such program\n")
    assert not made.exists()


@deploys
def test_a_relative_secret_file_is_printed_with_its_folder(ssh: Ssh, tmp_path: Path) -> None:
    whydrop.new_secret(tmp_path / "secret")
    options = [
        "--program",
        str(static_program()),
        "--ssh",
        *ssh(),
        "--port",
        str(free_port()),
        "--secret-file",
        "secret",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "whydrop", "deploy", *options, "far"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    shown = "".join(process.stdout.readline() for _ in range(3))
    process.send_signal(signal.SIGINT)
    assert process.wait() == 0
    assert f"--secret-file {tmp_path}/secret\n" in shown


def test_a_program_for_another_machine_is_not_copied(ssh: Ssh, tmp_path: Path) -> None:
    wrong = elf_for(40, tmp_path / "wrong")
    with pytest.raises(
        DeployError,
        match=rf"far runs Linux {os.uname().machine}, but {wrong} is for Linux ELF machine 40\. Name the file",
    ):
        whydrop.deploy("far", ssh=ssh(), program=wrong)


def test_a_file_that_is_no_program_is_named(ssh: Ssh, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no program")
    with pytest.raises(
        DeployError, match=r"notes\.txt: not a Linux program \(ELF\); expected a static whydrop-responder"
    ):
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
