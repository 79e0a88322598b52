"""Manual pages and completions: they say what the help says, and man formats them without a warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from click.testing import CliRunner

from example_files import ROOT
from whydrop.cli.commands import whydrop


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("manual_pages", ROOT / "tools" / "manual_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed(roff: str) -> str:
    """The words of a page without requests and escapes."""
    text = re.sub(r"^\.\w+ ?", "", roff.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\"), flags=re.MULTILINE)
    return re.sub(r"\\\[u([0-9A-F]+)\]", lambda found: chr(int(found[1], 16)), text)


def words(text: str) -> list[str]:
    return text.lower().replace(":", "").split()


def test_each_page_has_the_words_of_its_help_in_their_order(tool: ModuleType) -> None:
    for context in tool.contexts(tool.made(whydrop, "whydrop", None)):
        called = context.command_path.split()[1:]
        help_text = CliRunner().invoke(whydrop, [*called, "--help"], prog_name="whydrop", terminal_width=200).output
        _, _, wanted = help_text.partition("\n\n")
        _, _, body = tool.page(context).partition(".SH DESCRIPTION\n")
        got = words(printed(body))
        wanted_words = words(wanted)
        assert got[: len(wanted_words)] == wanted_words, context.command_path


def test_each_page_has_a_name_a_synopsis_options_and_exit_statuses(tool: ModuleType) -> None:
    for name, text in tool.pages().items():
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES?", "EXIT STATUS"):
            assert len(re.findall(rf"^\.SH {section}$", text, re.MULTILINE)) == 1, (name, section)


def test_a_line_that_roff_would_read_as_a_request_is_text(tool: ModuleType) -> None:
    formatter = tool.Roff()
    formatter.write_text(".so /etc/passwd \\n -x é")
    assert formatter.getvalue() == ".PP\n\\&.so /etc/passwd \\en \\-x \\[u00E9]\n"
    assert isinstance(formatter, click.HelpFormatter)


@pytest.mark.slow
@pytest.mark.needs_program("man")
def test_man_formats_every_page_without_a_warning(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "manual_pages.py", tmp_path], check=True)
    pages = sorted((tmp_path / "man1").glob("*.1"))
    assert pages
    done = subprocess.run(["man", "--warnings", "-l", *pages], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    scripts = {path.relative_to(tmp_path / "completions").as_posix() for path in tmp_path.glob("completions/*/*")}
    assert scripts == {"bash/whydrop", "zsh/_whydrop", "fish/whydrop.fish"}
