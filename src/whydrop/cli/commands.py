"""The group of commands; each command's module is imported when the command is called."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from whydrop.cli import ending
from whydrop.runtime import cancelling

# The command's module, and the line that `whydrop --help` shows without importing it, by what people do.
GROUPS = {
    "Explain": {
        "explain": ("whydrop.cli.explain", "Say why the packets of a capture were dropped or had to wait."),
        "match": ("whydrop.cli.match", "Match the packets of two captures of one path."),
    },
    "Measure": {
        "run": ("whydrop.cli.run", "Measure a path by a test."),
        "depth": ("whydrop.cli.depth", "Measure how much the queue of a path holds, and how fast it drains."),
        "batch": ("whydrop.cli.batch", "Run many tests from one file."),
        "tests": ("whydrop.cli.tests", "List the tests, or explain one."),
        "watch": ("whydrop.cli.watch", "Record what this host's kernel knows of its connections."),
        "responder": ("whydrop.cli.responder", "Answer the tests of other hosts."),
    },
    "Change": {
        "pace": ("whydrop.cli.pace", "Pace packets to one host, prove that it helps, and take it back."),
        "fix": ("whydrop.cli.fix", "Measure, explain, try the mildest fix, and prove it."),
    },
    "Results": {
        "show": ("whydrop.cli.show", "Say what a recording measured, in figures."),
        "plot": ("whydrop.cli.plot", "Draw recordings, one or many together."),
        "report": ("whydrop.cli.report", "Write one page of a recording: verdicts, plots, statistics."),
        "stats": ("whydrop.cli.stats", "Print statistics of recordings and their series."),
        "compare": ("whydrop.cli.compare", "Say what differs between recordings, and how sure that is."),
        "metadata": ("whydrop.cli.metadata", "Show what a recording knows of its test and its hosts."),
        "import": ("whydrop.cli.importing", "Read files of other tools, and of measurement platforms."),
        "export": ("whydrop.cli.export", "Write a recording for Flent, as CSV or as JSON."),
    },
    "Switches and stores": {
        "collect": ("whydrop.cli.collect", "Poll switches, and keep how their counters grow."),
        "store": ("whydrop.cli.store", "Say what a store holds."),
        "study": ("whydrop.cli.study", "Ask a store of switches' counters and tests a question."),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

# Names of before, which still work; help does not show them.
_OLD_NAMES = {"ingest": "import"}


class Lazy(click.Group):
    """A group that imports a command's module only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Name every command."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        cmd_name = _OLD_NAMES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for a name that is none, say which one is near."""
        if args[0] not in {*COMMANDS, *_OLD_NAMES} and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"No such command {ending.printable(args[0])!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; signals, a reader that closes the pipe, and a full disk end every command in the same way.

        click itself exits with 1 for all of them, and prints "Aborted!" on Ctrl-C.
        """
        with cancelling.signals_raised():
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
            except (KeyboardInterrupt, OSError) as reason:
                with cancelling.deferred():
                    sys.exit(ending.status(reason))
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table, so that help loads none of them."""
        # All groups in the same columns.
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
    epilog="Examples: whydrop run rrul --to server.example; whydrop explain capture.pcap.zst",
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
    """Measure a network path, and explain why its packets drop or wait."""
