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
  whydrop web /srv/captures --uploads ~/uploads
"""

# Who may read the log of a service is not let in by it.
_WITH_TOKEN = "?token=TOKEN, with the token of the file"
_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


def _place(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, int]:
    """An address and a port."""
    address, _, port = value.rpartition(":")
    try:
        own, number = ipaddress.ip_address(address.strip("[]")), int(port)
    except ValueError:
        own, number = None, -1
    if own is None or not 0 <= number <= 65_535:
        raise click.BadParameter(f"{value!r}: expected ADDRESS:PORT, such as 127.0.0.1:8080 or [::1]:8080", ctx, param)
    return str(own), number


@click.command("web", cls=Command, epilog=_EXAMPLES)
@click.argument(
    "folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path, file_okay=False, exists=True)
)
@click.option(
    "--listen",
    "place",
    default="127.0.0.1:0",
    metavar="ADDRESS:PORT",
    show_default=True,
    callback=_place,
    help="Needs TLS beyond this host.",
)
@click.option("--uploads", type=_FOLDER, metavar="FOLDER", help="Files sent, tests run.  [default: FOLDER/uploads]")
@click.option("--tls-certificate", type=_FILE, metavar="FILE", help="Certificate, with its chain (PEM).")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Key of the certificate (PEM).")
@click.option(
    "--behind-proxy", multiple=True, metavar="ADDRESS", help="A proxy that does TLS; nothing else is answered."
)
@click.option("--host-name", multiple=True, metavar="NAME", help="Name by which browsers reach the page.")
@click.option("--token-file", type=_FILE, metavar="FILE", help="Token that lets in.  [default: a random one]")
@click.option("--allow-changes", is_flag=True, help="Let the page capture packets of this host.")
def command(
    folders: tuple[Path, ...],
    place: tuple[str, int],
    uploads: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    behind_proxy: tuple[str, ...],
    host_name: tuple[str, ...],
    token_file: Path | None,
    allow_changes: bool,
) -> None:
    """Open captures and recordings of FOLDERs (here: the current one) in a browser."""
    from whydrop.web import listening, serving, tokens

    where = listening.Listening(*place, host_name, tls_certificate, tls_key, behind_proxy)
    try:
        where.check()
        token = tokens.from_file(token_file) if token_file else None
    except (listening.ListenError, tokens.TokenError) as reason:
        raise click.UsageError(str(reason)) from None
    serving.serve(
        folders or [Path()], uploads or (folders[0] if folders else Path()) / "uploads", where, token=token,
        allow_changes=allow_changes,
        started=lambda url: print(f"Open {url}{_WITH_TOKEN if token else ''}", file=sys.stderr, flush=True),
    )  # fmt: skip
