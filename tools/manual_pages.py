"""Manual pages (man(7)) from the help of the commands, and completions for shells, written into a folder.

Click writes the help of a command by calls to a formatter. Here the formatter writes roff: a page says what the help
says.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from click.testing import CliRunner

from whydrop import __version__
from whydrop.cli.commands import EPILOG, whydrop
from whydrop.cli.completion import SHELLS

VERBATIM = "\b"
EXAMPLE = "Example:"
# Where each shell looks for the completions of a program.
COMPLETIONS = {"bash": "whydrop", "zsh": "_whydrop", "fish": "whydrop.fish"}


def escaped(text: str) -> str:
    """The text as roff prints it unchanged, line by line."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(letter if letter.isascii() else f"\\[u{ord(letter):04X}]" for letter in text)
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


class Roff(click.HelpFormatter):
    """The help of one command as the body of a manual page."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:  # noqa: ARG002 (click's)
        """Write the synopsis; the description follows it."""
        self.write(f".SH SYNOPSIS\n.B {escaped(prog)}\n{escaped(args)}\n.SH DESCRIPTION\n")

    def write_heading(self, heading: str) -> None:
        """Begin a section."""
        self.write(f".SH {escaped(heading.upper())}\n")

    def write_paragraph(self) -> None:
        """Write nothing: paragraphs of text begin with their own request."""

    def write_text(self, text: str) -> None:
        """Write paragraphs. The first line of a verbatim one is the heading of a section; an example is one too."""
        for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
            lines = paragraph.strip("\n").split("\n")
            if lines[0].strip(" ") == VERBATIM:
                self._write_verbatim(lines[1:])
            elif lines[0].strip().startswith(EXAMPLE):
                example = " ".join(line.strip() for line in lines)
                self._write_verbatim([EXAMPLE, example.removeprefix(EXAMPLE).strip()])
            else:
                self.write(f".PP\n{escaped(' '.join(line.strip() for line in lines))}\n")

    def _write_verbatim(self, lines: Sequence[str]) -> None:
        if lines and re.fullmatch(r"\w[\w ]*:", lines[0]):
            self.write_heading(lines[0].rstrip(":"))
            lines = lines[1:]
        body = "\n".join(line.removeprefix("  ") for line in lines if line.strip())
        self.write(f".nf\n{escaped(body)}\n.fi\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:  # noqa: ARG002
        """Write terms, each with its text."""
        for term, text in rows:
            self.write(f".TP\n.B {escaped(term.strip())}\n{escaped(text)}\n")


def contexts(context: click.Context) -> Iterator[click.Context]:
    """The context of a command, then those of the commands below it, each named as it is called."""
    yield context
    command = context.command
    below = dict(getattr(command, "subcommands", {}))
    for name, one in below.items():
        # As `Command.make_context` names them: the arguments of the command above are not part of the call.
        yield from contexts(made(one, f"{context.info_name} {name}", context.parent))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from contexts(made(found, name, context))


def made(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """The context in which a command shows its help."""
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def page(context: click.Context) -> str:
    """The manual page of a command."""
    formatter = Roff()
    context.command.format_help(context, formatter)
    body = formatter.getvalue()
    if ".SH EXIT STATUS" not in body:
        formatter = Roff()
        formatter.write_text(VERBATIM + EPILOG.rpartition(VERBATIM)[2])
        body += formatter.getvalue()
    name = page_name(context)
    sentence = context.command.get_short_help_str(1000).removesuffix(".")
    return (
        f'.TH {escaped(name.upper())} 1 "" "whydrop {__version__}" "whydrop"\n.nh\n'
        f".SH NAME\n{escaped(name)} \\- {escaped(sentence)}\n{body}"
    )


def page_name(context: click.Context) -> str:
    """The name of a command's page: its words, joined."""
    return context.command_path.replace(" ", "-")


def pages() -> dict[str, str]:
    """Every manual page by the name of its file."""
    return {f"{page_name(context)}.1": page(context) for context in contexts(made(whydrop, "whydrop", None))}


def completion(shell: str) -> str:
    """The script that ``whydrop completion`` prints for a shell."""
    done = CliRunner().invoke(whydrop, ["completion", shell], prog_name="whydrop", catch_exceptions=False)
    return done.output


def main() -> None:
    """Write the pages into FOLDER/man1, and the completions into FOLDER/completions, a folder for each shell."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    (folder / "man1").mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / "man1" / name).write_text(text, encoding="ascii")
    for shell in SHELLS:
        place = folder / "completions" / shell / COMPLETIONS[shell]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(completion(shell), encoding="utf-8")


if __name__ == "__main__":
    main()
