"""The responder, which answers the tests of other hosts, in a thread of its own."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from os import PathLike

from whydrop import _core
from whydrop.errors import Error


class ResponderError(Error, ValueError):
    """The responder cannot begin as it was asked to; the message says what to do."""


class NoSecretError(ResponderError):
    """There is no secret, and the responder is not to be open."""


class Responder:
    """A responder that answers until it is stopped.

    Attributes:
        port: of TCP and of UDP.
        clients: that are served, in words.
    """

    def __init__(
        self,
        *,
        keyring: _core.Keyring | None = None,
        addresses: Sequence[str] = (),
        port: int,
        max_sessions: int | None = None,
        max_duration_s: float | None = None,
        max_rate_bps: float | None = None,
        describe_host: bool = True,
        metrics: str | PathLike[str] | None = None,
    ) -> None:
        """Listen, and answer; :func:`whydrop.responder` describes the arguments."""
        config = {
            "addresses": list(addresses),
            "port": port,
            "max_sessions": max_sessions,
            "max_duration_s": max_duration_s,
            "max_rate_bps": max_rate_bps,
            "metrics": None if metrics is None else os.fspath(metrics),
        }
        self.clients = "everyone, within limits" if keyring is None else keyring.clients()
        self._serving = _core.Responder(json.dumps(config), keyring, _described if describe_host else None)
        self._failure: BaseException | None = None
        self.port = self._serving.port
        self._thread = threading.Thread(target=self._serve, name="whydrop responder", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._serving.run()
        except _core.TrafficError as reason:
            self._failure = reason

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it has ended, or for a time; return whether it has ended.

        Raises:
            whydrop.Error: it could not go on.
        """
        self._thread.join(timeout_s)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def problem(self) -> str | None:
        """The reason why this host could not be described the last time, given once; ``None`` if it could."""
        return self._serving.problem()

    def notes(self) -> list[str]:
        """Lines for a log, each given once: refused connections, changed secrets, unwritable metrics."""
        return self._serving.notes()

    def statistics(self) -> tuple[int, int, int, int, int, int, int]:
        """Connections: all, authenticated, of another protocol, with another secret, above the rate, silent.

        The rate is that of handshakes. The last number is that of the sessions now.
        """
        return self._serving.statistics()

    def summary(self) -> str:
        """The numbers of connections in one line, for the end."""
        return self._serving.summary()

    def stop(self) -> None:
        """End its sessions, and stop answering."""
        self._serving.stop()
        self._thread.join()

    def __enter__(self) -> Responder:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = f"port {self.port}" if self._thread.is_alive() else "stopped"
        return f"<whydrop.Responder: {state}>"


def _described(address: str) -> str:
    from whydrop.measure import host_context

    return host_context.described(address)
