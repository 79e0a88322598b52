"""``whydrop web``: the page in a browser."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path

import click

from whydrop.cli.command import Command

_EXAMPLES = """
\b
Examples:
  whydrop web
  whydrop web ~/recordings /var/captures
  whydrop web --listen 127.0.0.1:8080
"""


def _loopback(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, int]:
    """An address of this host that other hosts cannot reach, and a port: the page is served without TLS."""
    address, _, port = value.rpartition(":")
    try:
        own, number = ipaddress.ip_address(address.strip("[]")), int(port)
    except ValueError:
        own, number = None, -1
    if own is None or not 0 <= number <= 65_535:
        raise click.BadParameter(f"{value!r}: expected ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080", ctx, param)
    if not own.is_loopback:
        raise click.BadParameter(
            f"{value!r}: the page has no TLS and listens on loopback addresses only. Listen on 127.0.0.1:{number}, and "
            f"forward the port: ssh -L {number or 8080}:127.0.0.1:{number or 8080} HOST",
            ctx, param,
        )  # fmt: skip
    return str(own), number


@click.command("web", cls=Command, epilog=_EXAMPLES)
@click.argument(
    "folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path, file_okay=False, exists=True)
)
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="ADDRESS:PORT",
    show_default=True,
    callback=_loopback,
    help="Loopback address and port.",
)
def command(folders: tuple[Path, ...], listen: tuple[str, int]) -> None:
    """Open captures and recordings of FOLDERs (here: the current one) in a browser."""
    from whydrop.web import serving

    uploads = (folders[0] if folders else Path()) / "uploads"
    serving.serve(
        folders or [Path()], uploads, serving.Listening(*listen),
        started=lambda url: print(f"Open {url}", file=sys.stderr, flush=True),
    )  # fmt: skip
