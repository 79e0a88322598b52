"""``whydrop completion``: the script with which a shell completes commands and options."""

from __future__ import annotations

import click

from whydrop.cli.command import Command

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """
\b
Examples:
  source <(whydrop completion bash)
  source <(whydrop completion zsh)
  whydrop completion fish | source
"""


@click.command("completion", cls=Command, epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script for bash, zsh or fish that completes the commands and options of whydrop."""
    from click.shell_completion import get_completion_class

    from whydrop.cli.commands import whydrop

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(whydrop, {}, "whydrop", "_WHYDROP_COMPLETE").source())
