"""Every command line of the documents and of the help is one that the program takes; every link leads somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.core import ParameterSource

from example_files import Run
from whydrop.cli.commands import COMMANDS, whydrop

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path for folder in ("", "docs", "examples", "packaging", "bench", "fuzz") for path in (ROOT / folder).glob("*.md")
)
# A line of an indented block, or of the help, that is for a shell; there may be a pipe into it.
FOR_A_SHELL = re.compile(r"(    |  |Examples?: )(\$ )?([a-z]+ [^`|]*[|;] )?(\S*/)?whydrop ")
# What ends a command within such a line.
END = re.compile(r"[|;&<>]+")


def command_lines(text: str, indentation: int = 4) -> Iterator[list[str]]:
    """The words behind ``whydrop`` of every line that runs it."""
    for line in text.replace("\\\n", " ").splitlines():
        if not FOR_A_SHELL.match(line) or (line[0] == " " and not line.startswith(" " * indentation)):
            continue
        # Words in brackets behind an example are for people.
        lexer = shlex.shlex(re.sub(r" {2,}\([^)]*\)$", "", line), posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)
        for start in (number for number, word in enumerate(words) if Path(word).name == "whydrop"):
            behind = words[start + 1 :]
            end = next((number for number, word in enumerate(behind) if END.fullmatch(word)), len(behind))
            yield behind[:end]


def taken(command: click.Command, words: list[str], parent: click.Context | None = None) -> None:
    """Parse words as the command does, but for what depends on files that an example only imagines."""
    below = getattr(command, "subcommands", {})
    if words and words[0] in below:
        taken(below[words[0]], words[1:], parent)
        return
    # With its settings: Click keeps the help option that it makes at first, and other tests print it.
    context = click.Context(command, info_name=command.name, parent=parent, **command.context_settings)
    if isinstance(command, click.Group):
        _, inner, rest = command.resolve_command(context, words)
        assert inner is not None
        taken(inner, rest, context)
        return
    values, left, _ = command.make_parser(context).parse_args(list(words))
    assert not left, f"left over: {left}"
    for parameter in command.params:
        if isinstance(parameter.type, click.Path | click.File) or parameter.name not in values:
            continue
        value: Any = values[parameter.name]
        if isinstance(parameter, click.Argument) and not isinstance(value, str | tuple):
            continue  # one that may be left out, and is
        context.set_parameter_source(parameter.name or "", ParameterSource.COMMANDLINE)
        if value is not None and not isinstance(value, bool):
            parameter.type_cast_value(context, value)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_document_is_taken(path: Path) -> None:
    refused = []
    for words in command_lines(path.read_text("utf-8")):
        try:
            taken(whydrop, words)
        except click.UsageError as reason:
            refused.append(f"whydrop {' '.join(words)}: {reason.format_message()}")
    assert not refused, "\n".join(refused)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_the_help_is_taken(name: str) -> None:
    command = whydrop.get_command(click.Context(whydrop, **whydrop.context_settings), name)
    assert command is not None
    lines = list(command_lines(command.epilog or "", indentation=2))
    assert lines, "help without an example"
    for words in lines:
        taken(whydrop, words)


def test_the_documents_have_command_lines_at_all() -> None:
    found = [words for path in DOCUMENTS for words in command_lines(path.read_text("utf-8"))]
    assert {words[0] for words in found} >= set(COMMANDS)


def test_a_command_line_that_is_none_is_refused() -> None:
    (words,) = command_lines("    .venv/bin/whydrop run rrul --too server.example    # no such option")
    assert words == ["run", "rrul", "--too", "server.example"]
    with pytest.raises(click.UsageError, match="No such option"):
        taken(whydrop, words)


def heading_names(text: str) -> set[str]:
    """The anchors that a Markdown viewer makes of headings."""
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_document_leads_somewhere(path: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, heading = link.partition("#")
        target = (path.parent / file) if file else path
        if not target.exists() or (heading and heading not in heading_names(target.read_text("utf-8"))):
            lost.append(link)
    assert not lost


def test_every_document_is_in_the_navigation_of_the_site() -> None:
    listed = re.findall(r'^ +(?:\{ "[^"]+" = )?"(\S+\.md)"', (ROOT / "zensical.toml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == [str(path.relative_to(ROOT)) for path in DOCUMENTS]


def test_the_output_that_the_readme_quotes_is_what_the_command_prints(run_here: Run) -> None:
    quoted = [line[2:] for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line[:2] == "> "]
    printed = run_here("explain", "examples/policed-download.pcap.zst").stdout
    assert quoted
    assert all(line in printed for line in quoted)
