"""``whydrop deploy``: a responder on a far host for the time of one command."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import whydrop
from whydrop.cli import ending, options, progress, quantities
from whydrop.cli.command import Command as CliCommand
from whydrop.cli.started import Command, check_program
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whydrop.measure.deploying import Deployed

EXAMPLES = """
\b
Examples:
  whydrop deploy a.example -- whydrop run rrul --to {}
  whydrop deploy root@a.example -- whydrop depth {}
  whydrop deploy root@a.example
  whydrop deploy --ssh 'ssh -p 2222' admin@a.example
"""

_FAR_END = "{}"
# As crates/traffic/src/secret_file.rs reads them.
_SECRET, _SECRET_FILE = "WHYDROP_SECRET", "WHYDROP_SECRET_FILE"
_COPYING = "Copying the responder"
_LOOK_AGAIN_S = 0.05


def _words(_: click.Context, __: click.Parameter, given: str | None) -> list[str] | None:
    try:
        words = None if given is None else shlex.split(given)
    except ValueError as reason:
        raise click.UsageError(f"--ssh {ending.printable(repr(given))}: {reason}.") from None
    if words == []:
        raise click.UsageError("--ssh: expected a program, such as 'ssh -p 2222'.")
    return words


@click.command("deploy", cls=CliCommand, epilog=EXAMPLES, context_settings={"allow_interspersed_args": False})
@click.option("-p", "--port", type=quantities.PORT, default=17370, show_default=True, metavar="PORT",
              help="TCP and UDP port of the responder.")  # fmt: skip
@click.option("--secret-file", type=options.FILE, metavar="FILE",
              help="Secret of the responder.  [default: a new one]")  # fmt: skip
@click.option("--address", metavar="ADDRESS", help="Address for the tests.  [default: the one ssh uses]")
@click.option("--program", type=options.FILE, metavar="FILE",
              help="Responder to copy.  [default: the installed one]")  # fmt: skip
@click.option("--ssh", metavar="PROGRAM", callback=_words,
              help="Program to connect with, and its options.  [default: ssh]")  # fmt: skip
@options.quiet
@click.argument("host", metavar="[USER@]HOST")
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def command(
    host: str,
    words: tuple[str, ...],
    secret_file: Path | None,
    quiet: bool,
    **given: Any,
) -> int:
    """Run COMMAND with a responder on another host, copied there by ssh; in COMMAND, {} is its address and port."""
    if words and words[0] != "--" and words[0].startswith("-"):
        raise click.UsageError(f"{ending.printable(words[0])}: options go before HOST.")
    words = words[words[:1] == ("--",) :]
    if words and not any(_FAR_END in word for word in words):
        raise click.UsageError("COMMAND needs {} for the far end, such as: whydrop run rrul --to {}")
    if words and _FAR_END not in words[0]:
        check_program(words[0])
    secret = None if secret_file is None else options.secret(secret_file)
    with _deployed(host, quiet, secret=secret, **given) as far_end:
        if words:
            return _run(words, far_end)
        # Ctrl-C ends it from its first line on.
        with cancelling.deferred() as signals, signals.ending_block(), signals.allowed():
            _show(far_end, secret_file)
            while far_end.running:
                time.sleep(_LOOK_AGAIN_S)
    return 0


def _deployed(host: str, quiet: bool, **given: Any) -> Deployed:
    """Deploy, with a display of the copying: while ssh connects, the terminal is free for its prompts."""
    with contextlib.ExitStack() as shown:
        update: Callable[..., None] | None = None

        def copied(done_bytes: int, total_bytes: int) -> None:
            nonlocal update
            if update is None:
                display = shown.enter_context(progress.bars("spinner", "text", "bar", "elapsed", quiet=quiet))
                update = _ignore if display is None else partial(display.update, display.add_task(_COPYING))
            update(completed=done_bytes, total=total_bytes)

        return whydrop.deploy(host, progress=copied, **given)


def _ignore(**_: Any) -> None:
    pass


def _run(words: Sequence[str], far_end: Deployed) -> int:
    """Run COMMAND; return its exit status."""
    environment = {**os.environ, _SECRET: far_end.secret}
    environment.pop(_SECRET_FILE, None)
    with Command([word.replace(_FAR_END, far_end.place) for word in words], environment) as started:
        started.go()
        while not started.has_ended():
            time.sleep(_LOOK_AGAIN_S)
    return started.status


def _show(far_end: Deployed, secret_file: Path | None) -> None:
    print("The responder runs until Ctrl-C. In another terminal:\n")
    option = "" if secret_file is None else f" --secret-file {shlex.quote(os.fspath(secret_file.absolute()))}"
    if secret_file is None:
        print(f"  export {_SECRET}={shlex.quote(far_end.secret)}")
    print(ending.printable(f"  whydrop run rrul --to {shlex.quote(far_end.place)}{option}"), flush=True)
