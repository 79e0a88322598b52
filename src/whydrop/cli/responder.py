"""``whydrop responder``: the far end of tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

import whydrop
from whydrop.cli import ending, far_end, options, quantities
from whydrop.cli.command import Command
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from whydrop.measure.responding import Responder

EXAMPLES = """
\b
Examples:
  head -c 24 /dev/urandom | base64 > secret
  whydrop responder --secret-file secret
  whydrop responder --open --max-rate 100M
  whydrop responder --secret-file secret --port 4000
"""


@click.command("responder", cls=Command, epilog=EXAMPLES)
@click.option("--secret-file", type=options.FILE, metavar="FILE",
              help="Serve clients with this secret.  [default: $WHYDROP_SECRET]")  # fmt: skip
@click.option("--open", "is_open", is_flag=True, help="Serve everyone, within hard limits.")
@click.option("--listen", "addresses", multiple=True, metavar="ADDRESS",
              help="Address of this host. Repeatable.  [default: all]")  # fmt: skip
@click.option("-p", "--port", type=quantities.Whole(0, 65535), default=17370, show_default=True, metavar="PORT",
              help="TCP and UDP port; open both in the firewall.")  # fmt: skip
@click.option("--max-sessions", type=quantities.Whole(1, 10_000), metavar="N",
              help="Tests at the same time.  [default: 32; open: 8]")  # fmt: skip
@click.option("--max-duration", type=quantities.DURATION, metavar="TIME",
              help="Duration of one test.  [default: 4h; open: 10min]")  # fmt: skip
@click.option("--max-rate", type=quantities.RATE, metavar="RATE",
              help="Rate of one test, all flows together.  [default: any; open: 1G]")  # fmt: skip
@click.option("--no-metadata", is_flag=True, help="Send clients no metadata of this host.")
def command(
    secret_file: Path | None,
    is_open: bool,
    addresses: tuple[str, ...],
    port: int,
    max_sessions: int | None,
    max_duration: float | None,
    max_rate: float | None,
    no_metadata: bool,
) -> None:
    """Answer the tests of other hosts, until Ctrl-C or SIGTERM."""
    if is_open and secret_file is not None:
        raise click.UsageError("Give --secret-file FILE, or --open to serve everyone; not both.")
    secret = None if is_open else far_end.secret(secret_file)
    if secret is None and not is_open:
        raise click.UsageError("Give --secret-file FILE (or set WHYDROP_SECRET), or --open to serve everyone.")
    from whydrop._core import TrafficError

    try:
        responder = whydrop.responder(
            secret=secret,
            open=is_open,
            addresses=[_address(one) for one in addresses],
            port=port,
            max_sessions=max_sessions,
            max_duration_s=max_duration,
            max_rate_bps=max_rate,
            describe_host=not no_metadata,
        )
    except (TrafficError, ValueError, OSError) as reason:
        sys.exit(ending.status(reason))
    who = "everyone, within limits" if is_open else "clients with the secret"
    sys.exit(_serve(responder, f"TCP and UDP port {responder.port}, open to {who}"))


def _address(text: str) -> str:
    """An address of IPv4 or IPv6, as it was given."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        raise click.UsageError(
            f"--listen {ending.printable(repr(text))}: expected an address of this host, such as 192.0.2.7 or "
            "2001:db8::7."
        ) from None


def _serve(responder: Responder, ready: str) -> int:
    """Wait for a signal, or for the end of the responder; return the exit status."""
    from whydrop._core import TrafficError

    try:
        with cancelling.deferred() as signals:
            # It serves even if nothing reads its output.
            _say(ready)
            with signals.ending_block(), signals.allowed():
                while not responder.wait(1.0):
                    if (problem := responder.problem()) is not None:
                        _say(f"metadata of this host: {ending.printable(' '.join(problem.splitlines()))}", sys.stderr)
            responder.stop()
            responder.wait()
    except TrafficError as reason:
        return ending.status(reason)
    connections, proved, foreign, wrong_proof, expired, _ = responder.statistics()
    _say(
        f"stopped after {connections} connections: {proved} authenticated, {wrong_proof} with another secret, "
        f"{foreign} of another protocol, {expired} silent"
    )
    return 0


def _say(what: str, where: TextIO | None = None) -> None:
    try:
        print(f"whydrop responder: {what}", file=where or sys.stdout, flush=True)
    except BrokenPipeError as reason:
        if where is None:
            ending.status(reason)
    except OSError:
        pass
