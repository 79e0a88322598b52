"""The configuration of a server at ``/.well-known/nq``: the three URLs of the test, and what is wrong with them."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from whydrop.measure.runners.registry import bracketed

WELL_KNOWN = "/.well-known/nq"
PORT = 443
_LONGEST_BYTES = 1 << 16
_WITHIN_S = 10.0
# The draft's names, and those that servers had before it.
_NAMES = {
    "small": ("small_download_url", "small_https_download_url"),
    "large": ("large_download_url", "large_https_download_url"),
    "upload": ("upload_url", "https_upload_url"),
}
_SEE = "see docs/measuring.md for a server"


class ConfigurationError(Exception):
    """The server's configuration is of no use; the message says where, why and what to try."""


@dataclass(frozen=True)
class Configuration:
    """The URLs of a server, and where they are served.

    Attributes:
        host, port: to connect to.
        name: of the server in the URLs, for its certificate.
    """

    small_url: str
    large_url: str
    upload_url: str
    host: str
    port: int
    name: str


def read(text: bytes, where: str, asked: str, *, other_host: bool) -> Configuration:
    """The configuration in an answer.

    Args:
        where: it came from, for messages.
        asked: the host that was asked.
        other_host: accept URLs, or an endpoint, of another host.

    Raises:
        ConfigurationError: it is not one that a client may use.
    """
    document = _document(text, where)
    if document.get("version") not in (1, "1") or isinstance(document.get("version"), bool):
        raise ConfigurationError(f"{where}: version is {document.get('version')!r}; this client knows version 1 only")
    urls = document.get("urls")
    if not isinstance(urls, dict):
        raise ConfigurationError(f"{where}: it has no object 'urls' with the three URLs: {_SEE}")
    found = {key: _url(urls, key, where) for key in _NAMES}
    places = {urlsplit(url).netloc for url in found.values()}
    if len(places) > 1:
        raise ConfigurationError(f"{where}: its URLs name different hosts ({', '.join(sorted(places))}): one is needed")
    parts = urlsplit(found["small"])
    name, port = parts.hostname or "", parts.port or PORT
    endpoint = document.get("test_endpoint")
    if endpoint is not None and not (isinstance(endpoint, str) and _is_host(endpoint)):
        raise ConfigurationError(f"{where}: test_endpoint is {str(endpoint)[:80]!r}; expected the name of a host")
    for host in filter(None, (name, endpoint)):
        if host.lower() != asked.strip("[]").lower() and not other_host:
            raise ConfigurationError(
                f"{where}: it sends the load to another host, {host}: if that host may be loaded, set other_host = true"
            )
    return Configuration(found["small"], found["large"], found["upload"], endpoint or name, port, name)


def _document(text: bytes, where: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"{where}: {twice[0][:80]!r} is there more than once")
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as reason:
        problem = " ".join(str(reason).split())[:200]
        raise ConfigurationError(f"{where}: the answer is no JSON ({problem}): {_SEE}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{where}: the answer is no JSON object: {_SEE}")
    return document


def _url(urls: dict[str, Any], key: str, where: str) -> str:
    name = next((name for name in _NAMES[key] if name in urls), None)
    if name is None:
        raise ConfigurationError(f"{where}: urls.{_NAMES[key][0]} is missing: {_SEE}")
    url = urls[name]
    if not isinstance(url, str) or not url.isprintable() or not url.isascii() or " " in url:
        raise ConfigurationError(f"{where}: urls.{name} is {str(url)[:80]!r}; expected a URL of https")
    try:
        parts = urlsplit(url)
        is_right = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        is_right = False
    if not is_right:
        raise ConfigurationError(f"{where}: urls.{name} is {url[:80]!r}; expected a URL of https: the test needs TLS")
    return url


def _is_host(text: str) -> bool:
    return bool(text) and all(character.isalnum() or character in ".-:_" for character in text)


def fetch(
    host: str,
    port: int,
    path: str,
    *,
    verify: bool,
    other_host: bool,
    local_address: str | None = None,
    interface: str | None = None,
) -> Configuration:
    """Ask a server for its configuration.

    Raises:
        ConfigurationError: it does not answer, or not with one.
    """
    import urllib3

    url = f"https://{bracketed(host)}:{port}{path}"
    settings: dict[str, Any] = {"timeout": urllib3.Timeout(total=_WITHIN_S), "retries": False}
    if local_address is not None:
        settings["source_address"] = (local_address, 0)
    if interface is not None:
        binding = (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
        settings["socket_options"] = [*urllib3.connection.HTTPConnection.default_socket_options, binding]
    if not verify:
        settings["cert_reqs"] = "CERT_NONE"
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        with urllib3.PoolManager(**settings) as pool:
            answer = pool.request("GET", url, preload_content=False, headers={"Accept-Encoding": "identity"})
            try:
                text = answer.read(_LONGEST_BYTES + 1)
            finally:
                answer.close()
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as reason:
        raise ConfigurationError(f"{url}: {_advice(reason)}") from None
    if answer.status != 200:
        raise ConfigurationError(f"{url}: status {answer.status}; expected 200 and a configuration in JSON: {_SEE}")
    if len(text) > _LONGEST_BYTES:
        raise ConfigurationError(f"{url}: the answer is longer than {_LONGEST_BYTES} bytes; a configuration is shorter")
    return read(text, url, host, other_host=other_host)


def _advice(reason: BaseException) -> str:
    """The innermost reason, with what to try where that is known."""
    innermost = reason
    for _ in range(10):
        inner = getattr(innermost, "reason", None)
        inner = inner if isinstance(inner, BaseException) else innermost.__cause__ or innermost.__context__
        if not isinstance(inner, BaseException):
            break
        innermost = inner
    text = " ".join(str(innermost).split())[:300] or type(innermost).__name__
    said = f"{text} {reason}".lower()
    if "certificate" in said and "verif" in said:
        return "the certificate is not trusted; if that is known, set verify_certificate=false"
    if "refused" in said:
        return f"connection refused: is there a server? {_SEE}"
    if "timed out" in said or "timeout" in said:
        return f"no answer within {_WITHIN_S:g} s: is there a server, and does a firewall let TCP pass?"
    if "wrong_version_number" in said or "wrong version number" in said or "record layer" in said:
        return "the server speaks no TLS on this port: the test needs HTTPS"
    return text
