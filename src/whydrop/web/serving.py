"""The server: its address, its token, and its end."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from whydrop.web import tokens
from whydrop.web.access import Access
from whydrop.web.application import application
from whydrop.web.listening import ListenError, Listening
from whydrop.web.site import Settings

# Of TLS 1.2; those of TLS 1.3 are all good.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"


def serve(
    folders: Iterable[Path],
    uploads: Path,
    listening: Listening,
    *,
    token: str | None = None,
    allow_changes: bool = False,
    started: Callable[[str], None],
) -> None:
    """Serve until a signal comes.

    Args:
        folders: their files may be opened.
        uploads: where files go that a page sends.
        listening: where.
        token: by default a random one.
        allow_changes: pages may do what changes this host, or reads the traffic of its users.
        started: called with the address: with the token, if that is a random one.

    Raises:
        ListenError: it cannot listen there, or not safely, or has no folder for uploads.
    """
    import uvicorn

    from whydrop.web import connections

    listening.check()
    bound = listening.bound()
    port = bound.getsockname()[1]
    access = Access(
        tokens.new() if token is None else token, listening.hosts(port), listening.scheme == "https", port,
        listening.networks(),
    )  # fmt: skip
    try:
        uploads.mkdir(parents=True, exist_ok=True)
        if not os.access(uploads, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        app = application(Settings([*folders, uploads], uploads.resolve(), access, allow_changes))
    except OSError as reason:
        raise ListenError(
            f"{uploads}: {reason.strerror or reason}: files that pages send, and recordings of tests, go there; "
            f"choose another folder with --uploads FOLDER"
        ) from None
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=3, lifespan="on",
        ssl_certfile=listening.certificate, ssl_keyfile=listening.key, ssl_ciphers=_CIPHERS, proxy_headers=False,
        **connections.limits(),
    )  # fmt: skip
    started(listening.place(port) + ("" if token else f"?token={access.token}"))
    connections.allow_files()
    uvicorn.Server(config).run(sockets=[bound])
