"""``whydrop responder``: the far end of tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

import whydrop
from whydrop.cli import ending, options, quantities
from whydrop.cli.command import Command
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.responding import Responder

EXAMPLES = """
\b
Examples:
  whydrop secret -o secret
  whydrop responder --secret-file secret
  whydrop responder --open --max-rate 100M
  whydrop responder --secret-file secret --port 4000
"""


def _addresses(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> list[str]:
    import ipaddress

    found = []
    for text in given:
        try:
            found.append(str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))))
        except ValueError:
            raise click.UsageError(
                f"--listen {ending.printable(repr(text))}: expected an address of this host, such as 192.0.2.7 or "
                "2001:db8::7."
            ) from None
    return found


@click.command("responder", cls=Command, epilog=EXAMPLES)
@click.option("--secret-file", type=options.FILE, metavar="FILE",
              help="Serve clients with a secret in this file.  [default: $WHYDROP_SECRET]")  # fmt: skip
@click.option("--open", is_flag=True, help="Serve clients without a secret, within the limits below.")
@click.option("--listen", "addresses", multiple=True, callback=_addresses, metavar="ADDRESS",
              help="Address of this host. Repeatable.  [default: all]")  # fmt: skip
@click.option("-p", "--port", type=quantities.Whole(0, 65535), default=17370, show_default=True, metavar="PORT",
              help="TCP and UDP port; the firewall must let both in.")  # fmt: skip
@click.option("--max-sessions", type=quantities.Whole(1, 10_000), metavar="N",
              help="Number of tests at the same time, at most.  [default: 32; open: 8]")  # fmt: skip
@click.option("--max-duration", "max_duration_s", type=quantities.DURATION, metavar="TIME",
              help="Longest duration of one test.  [default: 4h; open: 10min]")  # fmt: skip
@click.option("--max-rate", "max_rate_bps", type=quantities.RATE, metavar="RATE",
              help="Highest rate of one test, all flows together.  [default: any; open: 1G]")  # fmt: skip
@click.option("--no-metadata", "describe_host", is_flag=True, flag_value=False, default=True,
              help="Send clients no metadata of this host.")  # fmt: skip
@click.option("--metrics", type=options.FILE, metavar="FILE",
              help="Keep counts in this file, in the text format of Prometheus.")  # fmt: skip
def command(open: bool, secret_file: Path | None, **given: Any) -> None:
    """Answer the tests of other hosts, until Ctrl-C or SIGTERM."""
    if open and secret_file is not None:
        raise click.UsageError("Give --secret-file FILE, or --open to serve everyone; not both.")
    from whydrop.measure.responding import NoSecretError

    try:
        responder = whydrop.responder(secret_file=secret_file, open=open, **given)
    except NoSecretError:
        message = "Give --secret-file FILE (or set WHYDROP_SECRET), or --open to serve everyone."
        raise click.UsageError(message) from None
    _serve(responder, f"TCP and UDP port {responder.port}, open to {responder.clients}")


def _serve(responder: Responder, ready: str) -> None:
    """Wait for a signal, or for the end of the responder."""
    with cancelling.deferred() as signals:
        # It serves even if nothing reads its output.
        _say(ready)
        with signals.ending_block(), signals.allowed():
            while not responder.wait(1.0):
                if (problem := responder.problem()) is not None:
                    _say(f"metadata of this host: {ending.printable(' '.join(problem.splitlines()))}", sys.stderr)
                for note in responder.notes():
                    _say(ending.printable(note), sys.stderr)
        responder.stop()
        responder.wait()
    _say(responder.summary())


def _say(what: str, where: TextIO | None = None) -> None:
    try:
        print(f"whydrop responder: {what}", file=where or sys.stdout, flush=True)
    except BrokenPipeError as reason:
        if where is None:
            ending.status(reason)
    except OSError:
        pass
