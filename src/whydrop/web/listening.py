"""Where the server listens, and what that demands: other hosts reach it by TLS only, its own or a proxy's."""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from whydrop.errors import Error

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.IGNORECASE)


class ListenError(Error):
    """The server cannot listen as asked; the message says why, and what to type."""


@dataclass(frozen=True)
class Listening:
    """Where a server listens.

    Attributes:
        address: an IP address.
        port: 0 for any that is free.
        host_names: further names of it, as behind a proxy, with a port where theirs is another.
        certificate: of TLS, with ``key``; ``None`` without TLS.
        key: of the certificate.
        proxies: addresses and networks of proxies that do TLS for this server; nothing else may ask it then.
    """

    address: str = "127.0.0.1"
    port: int = 0
    host_names: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        """The scheme by which browsers reach the page."""
        return "https" if self.certificate or self.proxies else "http"

    def networks(self) -> tuple[Network, ...]:
        """The proxies.

        Raises:
            ListenError: one is no address or network.
        """
        try:
            return tuple(map(ipaddress.ip_network, self.proxies))
        except ValueError as reason:
            raise ListenError(f"--behind-proxy: {reason}; such as 127.0.0.1 or 10.0.0.0/24") from None

    def check(self) -> None:
        """Refuse what would let others read along, or would answer under no name.

        Raises:
            ListenError: something is missing.
        """
        own = ipaddress.ip_address(self.address)
        for name in self.host_names:
            if not _HOST_NAME.fullmatch(name):
                raise ListenError(f"--host-name {name!r}: expected a name or an address, such as lab.example:8443")
        if (self.certificate is None) != (self.key is None):
            raise ListenError("a certificate comes with its key: give both --tls-certificate FILE and --tls-key FILE")
        self.networks()
        if self.certificate and self.key:
            _check_certificate(self.certificate, self.key)
        if not own.is_loopback and self.scheme == "http":
            raise ListenError(self._without_tls())
        if (own.is_unspecified or self.proxies) and not self.host_names:
            why = "behind a proxy" if self.proxies else f"on {self.address}"
            raise ListenError(f"say by which name browsers reach the page {why}: add --host-name NAME")

    def _without_tls(self) -> str:
        port = self.port or 8080
        return (
            f"{self.address}: other hosts reach this address, and the page would be sent in the clear. Add "
            f"--tls-certificate FILE --tls-key FILE (docs/web.md makes a certificate), or --behind-proxy ADDRESS if a "
            f"proxy does TLS; or listen on 127.0.0.1:{port} and forward the port: ssh -L {port}:127.0.0.1:{port} HOST"
        )

    def bound(self) -> socket.socket:
        """A socket that listens.

        Raises:
            ListenError: the address is not of this host, or its port is taken.
        """
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        try:
            bound = socket.create_server((self.address, self.port), family=family)
            # Its connections inherit it; asyncio sets it only for sockets that name their protocol. Without it the end
            # of an answer is delayed by 40 ms, until its beginning is acknowledged (RFC 896, RFC 1122 4.2.3.2).
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return bound
        except OSError as reason:
            place = f"{self.address}, port {self.port}"
            raise ListenError(
                f"cannot listen on {place}: {reason.strerror or reason}; try --listen with another port"
            ) from None

    def hosts(self, port: int) -> frozenset[str]:
        """The Host headers of the server: names of this host only by which no other site can be meant."""
        own = {"127.0.0.1", "localhost", "[::1]", _in_address(self.address)}
        named = {name.lower() for name in self.host_names}
        # A name without a port is meant with this server's, too.
        hosts = named | {f"{name}:{port}" for name in own | {one for one in named if not re.search(r":\d+$", one)}}
        if port == {"http": 80, "https": 443}[self.scheme]:
            hosts |= own
        return frozenset(hosts)

    def place(self, port: int) -> str:
        """The beginning of the page's address."""
        name = next(iter(self.host_names), _in_address(self.address))
        has_port = self.proxies or re.search(r":\d+$", name)
        return f"{self.scheme}://{name}{'' if has_port else f':{port}'}/"


def _in_address(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _check_certificate(certificate: Path, key: Path) -> None:
    """Refuse what a server could not use, or a key that others on this host can read."""
    for file in (certificate, key):
        try:
            file.read_bytes()
        except OSError as reason:
            raise ListenError(f"{file}: {reason.strerror or reason}") from None
    if key.stat().st_mode & 0o007:
        raise ListenError(f"{key}: every user of this host may read the key; type: chmod o= {key}")
    try:
        # Without a password, of which OpenSSL would ask the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as reason:
        words = "the key is not that of the certificate" if "MISMATCH" in str(reason.reason) else str(reason.reason)
        raise ListenError(f"{certificate}, {key}: {words}; expected PEM files, and a key without a password") from None
    except OSError as reason:
        raise ListenError(f"{certificate}, {key}: {reason.strerror or reason}") from None
