"""The server: its address, its token, and its end."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from whydrop.errors import Error
from whydrop.web.access import Access
from whydrop.web.application import application
from whydrop.web.site import Settings


class ListenError(Error):
    """The server cannot listen as asked; the message says why."""


@dataclass(frozen=True)
class Listening:
    """Where a server listens.

    Attributes:
        address: a name or an IP address.
        port: 0 for any that is free.
        host_names: further names of it, as behind a proxy, with a port where theirs is not 80 or 443.
        certificate: of TLS, with ``key``; ``None`` without TLS.
        key: of the certificate.
    """

    address: str = "127.0.0.1"
    port: int = 0
    host_names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None


def serve(
    folders: Iterable[Path],
    uploads: Path,
    listening: Listening,
    *,
    token: str | None = None,
    started: Callable[[str], None],
) -> None:
    """Serve until a signal comes.

    Args:
        folders: their files may be opened.
        uploads: where files go that a page sends.
        listening: where.
        token: by default a random one.
        started: called with the address that lets its holder in.

    Raises:
        ListenError: the address is not of this host, or its port is taken.
    """
    import uvicorn

    from whydrop.web import connections

    bound = _bound(listening)
    port = bound.getsockname()[1]
    token = secrets.token_urlsafe(18) if token is None else token
    scheme = "https" if listening.certificate else "http"
    access = Access(token, _hosts(listening, port, scheme), scheme == "https", port)
    uploads.mkdir(parents=True, exist_ok=True)
    app = application(Settings([*folders, uploads], uploads, access))
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3, lifespan="on",
        ssl_certfile=listening.certificate, ssl_keyfile=listening.key, proxy_headers=False, **connections.limits(),
    )  # fmt: skip
    name = f"[{listening.address}]" if ":" in listening.address else listening.address
    started(f"{scheme}://{name}:{port}/" + (f"?token={token}" if token else ""))
    connections.allow_files()
    uvicorn.Server(config).run(sockets=[bound])


def _bound(listening: Listening) -> socket.socket:
    try:
        return socket.create_server(
            (listening.address, listening.port), family=socket.AF_INET6 if ":" in listening.address else socket.AF_INET
        )
    except OSError as reason:
        place = f"{listening.address}, port {listening.port}"
        raise ListenError(
            f"cannot listen on {place}: {reason.strerror or reason}; try --listen with another port"
        ) from None


def _hosts(listening: Listening, port: int, scheme: str) -> frozenset[str]:
    """The Host headers of the server: names of this host only by which no other site can be meant."""
    own = {"127.0.0.1", "localhost", "[::1]"}
    own.add(f"[{listening.address}]" if ":" in listening.address else listening.address)
    hosts = {f"{name}:{port}" for name in own} | {name.lower() for name in listening.host_names}
    if port == {"http": 80, "https": 443}[scheme]:
        hosts |= own
    return frozenset(hosts)
