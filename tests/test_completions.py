"""Completions in the shells themselves: a command, a subcommand and an option are completed as a user types them."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from example_files import ROOT
from patience import PATIENCE_S

pytestmark = pytest.mark.slow

PROMPT = "ready>"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
ENVIRONMENT = {**os.environ, "PATH": PATH, "PS1": PROMPT, "PROMPT": PROMPT, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
COMPLETED = [
    ("whydrop expl", "whydrop explain"),
    ("whydrop study disc", "whydrop study discards"),
    ("whydrop explain --repo", "whydrop explain --report"),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The completions as they are installed."""
    folder = tmp_path_factory.mktemp("manual")
    subprocess.run([sys.executable, ROOT / "tools" / "manual_pages.py", folder], check=True)
    return folder / "completions"


class Typist:
    """A shell in a terminal."""

    def __init__(self, *words: str) -> None:
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.chdir(ROOT)
            os.execvpe(words[0], words, ENVIRONMENT)
        self.shown = ""

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read until the terminal has shown the pattern, and forget what it showed before."""
        limit = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.shown)) is None:
            ready, _, _ = select.select([self.terminal], [], [], max(limit - time.monotonic(), 0))
            assert ready, f"no {pattern!r} in {self.shown!r}"
            self.shown += os.read(self.terminal, 65536).decode(errors="replace")
        self.shown = self.shown[found.end() :]
        return found

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def completed(self, line: str) -> str:
        """The line after the Tab key, as the command `echo` prints it."""
        self.type(f"{line}\t\x01echo '[' \x05 ']'\r")
        return " ".join(self.wait_for(r"\n\[ (.*?) \]")[1].split())

    def close(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.process, 0)


@pytest.fixture
def bash(scripts: Path) -> Iterator[Typist]:
    typist = Typist("bash", "--norc", "--noprofile", "-i")
    typist.wait_for(PROMPT)
    typist.type(f"bind 'set bell-style none'; source {scripts}/bash/whydrop; echo so''urced\r")
    typist.wait_for("sourced\r?\n")
    yield typist
    typist.close()


@pytest.fixture
def zsh(scripts: Path) -> Iterator[Typist]:
    typist = Typist("zsh", "-f", "-i")
    typist.wait_for(PROMPT)
    typist.type(f"fpath=({scripts}/zsh $fpath); autoload -U compinit; compinit -u -D; unsetopt beep; echo lo''aded\r")
    typist.wait_for("loaded\r?\n")
    yield typist
    typist.close()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(("typed", "completed"), COMPLETED)
def test_bash_completes(bash: Typist, typed: str, completed: str) -> None:
    assert bash.completed(typed) == completed


@pytest.mark.needs_program("zsh")
@pytest.mark.parametrize(("typed", "completed"), COMPLETED)
def test_zsh_completes(zsh: Typist, typed: str, completed: str) -> None:
    assert zsh.completed(typed) == completed


@pytest.mark.needs_program("fish")
@pytest.mark.parametrize(("typed", "completed"), COMPLETED)
def test_fish_completes(scripts: Path, tmp_path: Path, typed: str, completed: str) -> None:
    words = ["fish", "--no-config", "-c", f"set fish_complete_path {scripts}/fish; complete -C '{typed}'"]
    environment = {**ENVIRONMENT, "HOME": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    offered = {line.partition("\t")[0] for line in done.stdout.splitlines()}
    assert completed.split()[-1] in offered
