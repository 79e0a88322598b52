"""``whydrop responder``: the far end of tests."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

import click

from whydrop.cli import ending, quantities
from whydrop.runtime import cancelling

EXAMPLES = """
\b
Examples:
  head -c 24 /dev/urandom | base64 > secret   (copy it to both ends)
  whydrop responder --secret-file secret
  whydrop responder --open --max-rate 100mbit --max-duration 2min
  whydrop responder --secret-file secret --listen 192.0.2.7 --port 4000
"""


@click.command(
    "responder",
    epilog=EXAMPLES,
)
@click.option("--secret-file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Serve those who know the secret in FILE.")  # fmt: skip
@click.option("--open", "is_open", is_flag=True, help="Serve everybody, within hard limits.")
@click.option("--listen", "addresses", multiple=True, metavar="ADDRESS",
              help="An address of this host; may be given again.  [default: all]")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=17370, show_default=True,
              help="Of TCP and of UDP; open both in the firewall.")  # fmt: skip
@click.option("--max-sessions", type=click.IntRange(1, 10_000), metavar="N",
              help="Tests at the same time.  [default: 32; open: 8]")  # fmt: skip
@click.option("--max-duration", type=quantities.DURATION, metavar="TIME",
              help="Of one test.  [default: 4h; open: 10min]")  # fmt: skip
@click.option("--max-rate", type=quantities.RATE, metavar="RATE",
              help="Sent, and taken, in one test, all flows together.  [default: any; open: 1gbit]")  # fmt: skip
@click.option("--no-metadata", is_flag=True, help="Tell clients nothing about this host.")
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
    """Answer the tests of other hosts, until Ctrl-C or SIGTERM.

    One port, of TCP and of UDP, serves everything. Exits with 0 when it was asked to stop, and with 1 when it cannot
    begin.
    """
    if is_open == (secret_file is not None):
        raise click.UsageError("Give --secret-file FILE, or --open to serve everybody within hard limits.")
    from whydrop._core import Responder, TrafficError

    config = {
        "addresses": [_address(one) for one in addresses],
        "port": port,
        "max_sessions": max_sessions,
        "max_duration_s": max_duration,
        "max_rate_bps": max_rate,
    }
    try:
        if secret_file is not None:
            config["secret"] = read_secret(secret_file)
        responder = Responder(json.dumps(config), None if no_metadata else _describe)
    except (TrafficError, ValueError, OSError) as reason:
        sys.exit(ending.status(reason))
    who = "everybody, within limits" if is_open else "those who know the secret"
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


def read_secret(path: Path) -> str:
    """The secret in a file.

    Raises:
        OSError: it cannot be read.
        click.UsageError: it is no text.
    """
    try:
        return path.read_text("utf-8").strip()
    except OSError as reason:
        raise OSError(
            reason.errno, f"{reason.strerror}; expected the file of the secret (--secret-file)", path
        ) from None
    except UnicodeDecodeError:
        raise click.UsageError(
            f"{ending.printable(str(path))}: no text in UTF-8; make a secret with: head -c 24 /dev/urandom | base64"
        ) from None


def secret_or_leave(path: Path | None) -> str | None:
    """The secret in a file, if there is one; the program ends where it cannot be read."""
    try:
        return None if path is None else read_secret(path)
    except OSError as reason:
        sys.exit(ending.status(reason))


def _serve(responder: Any, ready: str) -> int:
    """Serve in a thread of its own until a signal arrives here."""
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
        f"stopped; of {connections} connections {proved} were proved, {wrong_proof} had another secret, "
        f"{foreign} spoke something else, {expired} said nothing"
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
