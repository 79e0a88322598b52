"""Options that several commands share, one spelling for one meaning, and checks of the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from whydrop.cli import quantities
from whydrop.cli.ending import printable

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
ANY_PATH = click.Path(path_type=Path)

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output, and nothing else.")
text_or_csv = click.option("-f", "--format", "kind", type=click.Choice(["text", "csv"]), default="text",
                           metavar="FORMAT", show_default=True, help="text or csv.")  # fmt: skip
title = click.option("--title", default="", help="Title of the recording.")
note = click.option("--note", default="", help="Text kept with the recording.")


def together(*decorators: Decorator) -> Decorator:
    """Several options as one decorator, in this order in the help."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for each in reversed(decorators):
            function = each(function)
        return function

    return decorate


recording = click.argument("recording", type=ANY_PATH)
recordings = click.argument("recordings", metavar="RECORDING...", nargs=-1, required=True, type=ANY_PATH)


def secret(path: Path | None) -> str | None:
    """The secret in a file, or that of the environment."""
    from whydrop.measure.secret_files import shared_secret

    return shared_secret(path)


far_end = together(
    click.option("-p", "--port", type=quantities.PORT, metavar="PORT",
                 help="Port of the responder.  [default: 17370]"),
    click.option("--secret-file", "secret", type=FILE, metavar="FILE",
                 callback=lambda context, _, path: None if context.resilient_parsing else secret(path),
                 help="Secret of the responder.  [default: $WHYDROP_SECRET]"),
    click.option("-4", "ip_version", flag_value=4, type=int, help="Use IPv4."),
    click.option("-6", "ip_version", flag_value=6, type=int, help="Use IPv6."),
)  # fmt: skip


def duration(help_text: str, **settings: Any) -> Decorator:
    """``-t/--duration``, in seconds."""
    return click.option("-t", "--duration", "duration_s", type=quantities.DURATION, metavar="TIME", help=help_text,
                        **settings)  # fmt: skip


def interval(help_text: str, name: str = "interval_s", **settings: Any) -> Decorator:
    """``-i/--interval``, in seconds."""
    return click.option("-i", "--interval", name, type=quantities.DURATION, metavar="TIME", help=help_text,
                        **settings)  # fmt: skip


quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")


def output_folder(help_text: str = "Folder for the recording.  [default: here]", **settings: Any) -> Decorator:
    """``-o/--output`` of a folder, by default the current one."""
    return click.option("-o", "--output", type=FOLDER, metavar="DIR", help=help_text,
                        **{"default": Path(), **settings})  # fmt: skip


def backend(help_text: str, default: str) -> Decorator:
    """``--backend``: the engine that reads a store."""
    return click.option("--backend", default=default, show_default=True, metavar="ENGINE", help=help_text)


def output_file(help_text: str) -> Decorator:
    """``-o/--output`` of a file."""
    return click.option("-o", "--output", type=FILE, metavar="FILE", help=help_text)


def settings(name: str, help_text: str, metavar: str = "NAME=VALUE") -> Decorator:
    """``--set``, as a dictionary."""

    def assigned(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
        found = {}
        for text in given:
            key, equals, value = text.partition("=")
            if not equals or not key.strip():
                raise click.UsageError(f"--set {printable(text)!r}: expected {metavar}, such as flows=4.")
            found[key.strip()] = value
        return found

    return click.option("--set", name, multiple=True, callback=assigned, metavar=metavar, help=help_text)


# --- checks; an error names the argument (exit status 2) ---


def different_files(captures: Sequence[Path]) -> None:
    """Refuse a capture that is given twice: a path has different points."""
    for number, path in enumerate(captures):
        for other in captures[:number]:
            if str(path) == str(other) == "-":
                raise click.UsageError("- is given twice, but standard input can be read only once.")
            if same_file(path, other):
                raise click.UsageError(
                    f"{printable(str(other))!r} and {printable(str(path))!r} are the same file. Several captures are "
                    "taken at different points of one path. If these are one capture in several files (tcpdump -C), "
                    "say so with --sequence."
                )


def same_file(path: Path, other: Path) -> bool:
    """True if two paths lead to one file; ``False`` where one of them does not exist."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def folder_exists(option: str, path: Path) -> None:
    """Refuse an output file in a folder that does not exist, before the work begins."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise click.UsageError(f"{option}: there is no folder {printable(str(folder))!r}.")


def above_zero(name: str, seconds: float | None) -> None:
    """Refuse a time of nothing."""
    if seconds is not None and seconds <= 0:
        raise click.UsageError(f"{name}: expected a time above zero, such as 5min.")
