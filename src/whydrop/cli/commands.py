"""The commands; the module of each is imported when the command is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from whydrop.cli import ending
from whydrop.errors import Error
from whydrop.runtime import cancelling

# The module of each command, and its line in `whydrop --help`, which is shown without importing the module.
GROUPS = {
    "Explain": {
        "explain": ("whydrop.cli.explain", "Explain why packets were dropped or delayed."),
        "match": ("whydrop.cli.match", "Match the packets of two captures of one path."),
        "emulate": ("whydrop.cli.emulate", "Run a program over an emulated path."),
        "predict": ("whydrop.cli.predict", "Predict what a change of path or senders would bring."),
    },
    "Measure": {
        "run": ("whydrop.cli.run", "Measure a path with a test."),
        "depth": ("whydrop.cli.depth", "Measure the size and rate of the bottleneck queue."),
        "batch": ("whydrop.cli.batch", "Run many tests from one file."),
        "tests": ("whydrop.cli.tests", "List the tests, or explain one."),
        "watch": ("whydrop.cli.watch", "Record the TCP connections of this host."),
        "roll": ("whydrop.cli.roll", "Hold the last seconds of packets for triggers."),
        "responder": ("whydrop.cli.responder", "Answer the tests of other hosts."),
        "deploy": ("whydrop.cli.deploy", "Run a responder on another host by ssh, for one command."),
        "secret": ("whydrop.cli.secret", "Make a secret for a responder and its clients."),
    },
    "Change": {
        "pace": ("whydrop.cli.pace", "Pace packets to one host, and prove that it helps."),
        "fix": ("whydrop.cli.fix", "Measure, explain, and try the mildest fix."),
    },
    "Results": {
        "show": ("whydrop.cli.show", "Show what recordings measured."),
        "plot": ("whydrop.cli.plot", "Draw recordings, one or many together."),
        "report": ("whydrop.cli.report", "Write an HTML page of a recording."),
        "stats": ("whydrop.cli.stats", "Print statistics of recordings."),
        "compare": ("whydrop.cli.compare", "Compare recordings, with confidence intervals."),
        "metadata": ("whydrop.cli.metadata", "Show the metadata of a recording."),
        "import": ("whydrop.cli.importing", "Convert files of other tools to recordings."),
        "export": ("whydrop.cli.export", "Convert a recording to Flent, CSV or JSON."),
    },
    "Switches and stores": {
        "collect": ("whydrop.cli.collect", "Poll switches, and store their counters."),
        "store": ("whydrop.cli.store", "Show, fill and compact a store."),
        "study": ("whydrop.cli.study", "Answer a question from a store."),
    },
    "Page": {
        "web": ("whydrop.cli.web", "Open captures and recordings in a browser."),
        "mcp": ("whydrop.cli.mcp", "Answer a language model (Model Context Protocol)."),
    },
    "This host": {
        "doctor": ("whydrop.cli.doctor", "Show what whydrop can do on this host."),
        "completion": ("whydrop.cli.completion", "Print a completion script for a shell."),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

EPILOG = """
\b
Examples:
  whydrop explain capture.pcap
  whydrop run rrul --to server.example
  whydrop COMMAND --help

\b
Exit status:
  0    done
  1    failed, or only a part could be done
  2    wrong command line or configuration
  3    study discards watch: a port discards too much
  130  stopped by Ctrl-C (143: SIGTERM, 129: SIGHUP); the
       measurements so far are kept
"""


class Lazy(click.Group):
    """A group that imports a command's module only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Name every command."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown name, suggest a similar one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            if name == "ingest":
                from whydrop.cli.old_spellings import OldSpelling

                raise OldSpelling("ingest is now spelled `whydrop store import STORE FILE...`", ctx)
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"No such command {ending.printable(name)!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, which returns its exit status.

        Errors, signals, a closed pipe and a full disk end every command with one line and the documented status. Click
        exits with 1 after all of them, and prints "Aborted!" on Ctrl-C.
        """
        with cancelling.signals_raised():
            try:
                status = super().invoke(ctx)
                sys.stdout.flush()
            except (KeyboardInterrupt, OSError, Error) as reason:
                with cancelling.deferred():
                    status = ending.status(reason)
                    if status:
                        sys.exit(status)
        if status:
            sys.exit(status)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table, without importing them."""
        widest = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), line) for name, (_, line) in group.items()])


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from whydrop import _core

        click.echo(f"whydrop {_core.__version__}")
        ctx.exit()


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
def whydrop() -> None:
    """Measure network paths, read packet captures, and explain why packets are dropped or delayed."""
