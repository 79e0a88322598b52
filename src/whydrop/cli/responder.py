"""``whydrop responder``: the far end of tests."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

import click

from whydrop.cli import ending, far_end, options, quantities
from whydrop.cli.command import Command
from whydrop.runtime import cancelling

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
    from whydrop._core import Responder, TrafficError

    config = {
        "addresses": [_address(one) for one in addresses],
        "port": port,
        "max_sessions": max_sessions,
        "max_duration_s": max_duration,
        "max_rate_bps": max_rate,
    }
    if secret is not None:
        config["secret"] = secret
    try:
        responder = Responder(json.dumps(config), None if no_metadata else _describe)
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


def _serve(responder: Any, ready: str) -> int:
    """Serve in another thread until a signal arrives here; return the exit status."""
    from whydrop._core import TrafficError

    ended = threading.Event()
    problem: list[BaseException] = []

    def serve() -> None:
        try:
            responder.run()
        except TrafficError as reason:
            problem.append(reason)
        ended.set()

    thread = threading.Thread(target=serve, name="responder")
    with cancelling.deferred() as signals:
        thread.start()
        # It serves also where its output is not read.
        _say(ready)
        with signals.ending_block(), signals.allowed():
            while not ended.wait(1.0):
                if (found := responder.problem()) is not None:
                    _say(f"metadata of this host: {ending.printable(ending.one_line(Exception(found)))}", sys.stderr)
        responder.stop()
        thread.join()
    if problem:
        return ending.status(problem[0])
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


def _describe(address: str) -> str:
    from whydrop.measure import host_context

    return host_context.described(address)
