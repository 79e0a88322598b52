"""The help of every command: its shape, its width, and the answers to spellings of earlier versions."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from whydrop.cli.commands import whydrop
from whydrop.cli.old_spellings import OLD

NARROW, WIDE = 60, 100


def commands(command: click.Command = whydrop, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and subcommand, by the words that call it."""
    yield words
    below = dict(getattr(command, "subcommands", {}))
    if isinstance(command, click.Group):
        context = click.Context(command)
        below |= {name: command.get_command(context, name) for name in command.list_commands(context)}
    for name, one in below.items():
        yield from commands(one, (*words, name))


def shown(*words: str, width: int = WIDE) -> str:
    done = CliRunner().invoke(whydrop, [*words, "--help"], prog_name="whydrop", terminal_width=width)
    assert done.exit_code == 0, done.output
    return done.output


ALL = list(commands())


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_keeps_within_a_narrow_terminal(words: tuple[str, ...]) -> None:
    assert [line for line in shown(*words, width=NARROW).splitlines() if len(line) > NARROW] == []


@pytest.mark.parametrize("words", ALL[1:], ids=" ".join)
def test_help_is_a_sentence_then_examples_then_options_of_one_line(words: tuple[str, ...]) -> None:
    text = shown(*words)
    sentence, example, options = (text.index(part) for part in ("\n\n  ", "Example", "Options:"))
    assert sentence < example < options
    assert text[sentence:example].strip().count(". ") == 0
    for line in text[options:].splitlines():
        # A metavar that is longer than its column pushes the help into the next line.
        assert not line.startswith(" " * 4) or line.lstrip()[0].isupper(), line


@pytest.mark.parametrize(
    ("command", "option"), [(command, option) for command, options in OLD.items() for option in options]
)
def test_an_old_spelling_is_answered_by_one_line_with_the_new_one(command: str, option: str) -> None:
    done = CliRunner().invoke(whydrop, [*command.split(), option], prog_name="whydrop")
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert f"{option} is now spelled `{OLD[command][option]}`" in done.output


def test_a_wrong_flag_suggests_the_near_one() -> None:
    done = CliRunner().invoke(whydrop, ["run", "rrul", "--duratoin", "5"], prog_name="whydrop")
    assert done.exit_code == 2
    assert "Did you mean" in done.output
    assert "'--duration'" in done.output


def test_a_subcommand_behind_options_is_no_argument() -> None:
    done = CliRunner().invoke(whydrop, ["pace", "--json", "status"], prog_name="whydrop")
    assert done.exit_code == 2
    assert "Write the subcommand first: whydrop pace status." in done.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    done = CliRunner().invoke(whydrop, ["completion", shell], prog_name="whydrop")
    assert done.exit_code == 0
    assert "_WHYDROP_COMPLETE" in done.output


def test_completion_knows_subcommands_and_options() -> None:
    def completed(words: str) -> list[str]:
        environment = {"_WHYDROP_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "2"}
        return CliRunner().invoke(whydrop, [], prog_name="whydrop", env=environment).output.split()

    assert "plain,status" in completed("whydrop pace st")
    assert "plain,--duration" in completed("whydrop run --dur")
