"""``whydrop secret``, and which files of secrets are accepted."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import whydrop
from running.responders import Program, ended, responder, wait_until
from whydrop.measure.secret_files import SecretFileError, shared_secret, write_secret

Run = Callable[..., subprocess.CompletedProcess[str]]

GOOD = "a secret of some length"


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_new_secret_is_printed_or_written_into_a_new_file_of_its_owner_alone(run: Run, tmp_path: Path) -> None:
    printed = run("secret")
    assert re.fullmatch(r"whydrop-[a-z2-7]{36}\n", printed.stdout)
    path = tmp_path / "secret"
    done = run("secret", "-o", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert path.stat().st_mode & 0o777 == 0o600
    assert shared_secret(path) == path.read_text().strip() != printed.stdout.strip()
    before = path.read_text()
    again = run("secret", "-o", path)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert path.read_text() == before


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o640, 0o620, 0o644, 0o666])
def test_a_file_that_others_can_read_or_change_is_refused_with_the_command_that_corrects_it(
    tmp_path: Path, mode: int
) -> None:
    path = written(tmp_path / "the secret", GOOD, mode)
    with pytest.raises(SecretFileError, match=f"chmod 600 '{path}'"):
        shared_secret(path)
    path.chmod(0o400)
    assert shared_secret(path) == GOOD


@pytest.mark.needs_root
def test_a_group_may_read_the_file_of_another_user(tmp_path: Path) -> None:
    # systemd gives the user of a service access to a credential by an access list, which the group's bits show.
    path = written(tmp_path / "secret", GOOD, 0o440)
    os.chown(path, os.geteuid() + 1, -1)
    assert shared_secret(path) == GOOD
    path.chmod(0o444)
    with pytest.raises(SecretFileError):
        shared_secret(path)


def test_a_pipe_is_read_whatever_its_mode(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    writer = threading.Thread(target=pipe.write_text, args=(GOOD,))
    writer.start()
    assert shared_secret(pipe) == GOOD
    writer.join()


def test_a_file_that_holds_no_secret_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    for name, content in (("binary", b"\xff" * 20), ("large", b"a" * 70_000)):
        path = tmp_path / name
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(SecretFileError, match=f"whydrop secret -o {path}"):
            shared_secret(path)


def test_weak_secrets_are_refused_in_one_line(program: Program, tmp_path: Path) -> None:
    made = whydrop.new_secret()
    for text, expected in (("short", "5 bytes"), ("password" * 3, "easy to guess"), (made[:-1], "copy it again")):
        path = written(tmp_path / "secret", text)
        done = ended(program, "--secret-file", str(path), "--listen", "127.0.0.1", "--port", "0")
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert expected in done.stderr
        assert "whydrop secret -o FILE" in done.stderr


def test_a_client_checks_the_mode_of_the_file(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "secret", GOOD, 0o644)
    done = run("run", "tcp_1up", "--to", "127.0.0.1:9", "--secret-file", path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"chmod 600 {path}" in done.stderr


def test_every_responder_checks_the_mode_of_the_file(program: Program, tmp_path: Path) -> None:
    path = written(tmp_path / "secret", GOOD, 0o644)
    done = ended(program, "--secret-file", str(path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"chmod 600 {path}" in done.stderr


@pytest.mark.slow
def test_a_secret_that_was_made_serves_at_both_ends(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    whydrop.new_secret(path)
    with responder("--secret-file", str(path)) as far:
        done = run(
            "run", "tcp_1up", "--to", far.place, "--secret-file", path, "--duration", "1s", "--set", "delay=0.2",
            "--output", tmp_path, "--no-plot",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "0 with another secret" in far.ask_to_stop()


def test_a_secret_with_a_name_is_written_for_its_client_and_added_to_the_file_of_the_responder(
    run: Run, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets"
    for name in ("alice", "bob"):
        done = run("secret", "--name", name, "-o", tmp_path / name, "--add", secrets)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert re.fullmatch(rf"{name} whydrop-[a-z2-7]{{36}}\n", (tmp_path / name).read_text())
    assert secrets.read_text() == (tmp_path / "alice").read_text() + (tmp_path / "bob").read_text()
    assert secrets.stat().st_mode & 0o777 == 0o600
    again = run("secret", "--name", "bob", "-o", tmp_path / "again", "--add", secrets)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "line 3: the name bob is that of line 2" in again.stderr
    assert not (tmp_path / "again").exists()


def test_a_secret_is_not_added_to_a_file_that_is_no_text(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"\xff\xfe\n")
    done = run("secret", "--name", "bob", "-o", tmp_path / "bob", "--add", other)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "not UTF-8 text" in done.stderr
    assert other.read_bytes() == b"\xff\xfe\n"
    assert not (tmp_path / "bob").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [(("--name", "a b"), "expected letters, digits"), (("--add", "secrets"), "give its name with --name")],
)
def test_a_secret_without_a_valid_name_is_not_made(run: Run, words: tuple[str, ...], expected: str) -> None:
    done = run("secret", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr


def test_every_responder_names_the_invalid_line_of_its_file(program: Program, tmp_path: Path) -> None:
    path = written(tmp_path / "secrets", f"# all\n{whydrop.new_secret(name='alice')}\nbob\n")
    done = ended(program, "--secret-file", str(path), "--listen", "127.0.0.1", "--port", "0")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"whydrop: {path}, line 3: expected a name and a secret")


def test_a_client_with_several_secrets_is_refused(run: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "secrets", f"{whydrop.new_secret(name='a')}\n{whydrop.new_secret(name='b')}\n")
    done = run("run", "tcp_1up", "--to", "127.0.0.1:9", "--secret-file", path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{path}, line 2: a further secret" in done.stderr


@pytest.mark.slow
def test_a_client_is_refused_from_the_removal_of_its_line_on(run: Run, program: Program, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    for name in ("alice", "bob"):
        whydrop.new_secret(tmp_path / name, name=name, add_to=secrets)

    def served(name: str) -> subprocess.CompletedProcess[str]:
        return run(
            "run", "tcp_1up", "--to", far.place, "--secret-file", tmp_path / name, "--duration", "1s",
            "--set", "delay=0", "--output", tmp_path, "--no-plot",
        )  # fmt: skip

    with responder("--secret-file", str(secrets), program=program) as far:
        assert served("bob").returncode == 0
        written(tmp_path / "new", (tmp_path / "alice").read_text()).rename(secrets)
        wait_until(lambda: served("bob").returncode == 1)
        assert "does not know this secret of bob" in served("bob").stderr
        assert served("alice").returncode == 0


def test_a_file_that_exists_is_kept_and_the_answer_says_what_to_do(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("precious")
    done = run("secret", "-o", path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"whydrop: {path}: File exists; ")
    assert "name a new one" in done.stderr
    assert path.read_text() == "precious"


def test_a_secret_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"

    def full(descriptor: int, *_: object, **__: object) -> None:
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(OSError, match="No space left") as reason:
        write_secret(path, "secret")
    assert reason.value.filename == path
    assert not path.exists()


def test_an_empty_file_is_named_instead_of_taken_for_no_secret(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    done = ended(program, "--secret-file", str(path))
    assert done.returncode != 0
    assert done.stderr.startswith(f"whydrop: {path}: holds no secret; ")
