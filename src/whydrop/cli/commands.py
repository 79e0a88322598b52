"""The group of commands; each command's module is imported when the command is called."""

from __future__ import annotations

from importlib import import_module

import click

# The command's module, and the line that `whydrop --help` shows without importing it.
COMMANDS = {
    "explain": ("whydrop.cli.explain", "Say why the packets of a capture were dropped or had to wait."),
    "match": ("whydrop.cli.match", "Match the packets of two captures of one path."),
}


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands from the table, so that help loads none of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from whydrop import _core

        click.echo(f"whydrop {_core.__version__}")
        ctx.exit()


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: whydrop explain capture.pcap.zst --report report.html",
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
    """Explain from TCP packet captures why packets drop or wait."""
