"""Who may talk to the server: the holder of its token, from a page of its own, under a name of its own.

A page of another site can make a browser send requests here (cross-site request forgery), and can make its own name
lead to this host (DNS rebinding). The former fails by the cookie, which is not sent across sites, and by Origin; the
latter by Host. Nothing is shared with other origins, and a page may run and load only what this server has.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whydrop.web.listening import Network

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Access:
    """Who is let in.

    Attributes:
        token: the secret in the address that the program prints; empty: everybody is let in (a proxy decides).
        hosts: ``Host`` headers that are answered, in lower case, with the port where it is not that of the scheme.
        secure: whether the page is reached by https: its cookie must not travel otherwise, and its origin is another.
        port: names the cookie: cookies of one host are shared by all its ports.
        proxies: only they are answered, if there are any, and only what they received by https.
    """

    token: str
    hosts: frozenset[str]
    secure: bool = False
    port: int = 0
    proxies: tuple[Network, ...] = ()
    _cookie: str = field(init=False, default="")

    def __post_init__(self) -> None:
        # The cookie is not the token: who reads a browser's cookies cannot make an address of it.
        made = hmac.new(self.token.encode(), b"cookie", hashlib.sha256).hexdigest()
        object.__setattr__(self, "_cookie", made)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie."""
        # The prefix keeps other names of the same domain from setting this cookie.
        return f"__Host-whydrop-{self.port}" if self.secure else f"whydrop-{self.port}"

    def is_own_host(self, headers: Headers) -> bool:
        """True if a request is for a name that this server has."""
        return headers.get("host", "").lower() in self.hosts

    def is_from_proxy(self, peer: str) -> bool:
        """True if a request comes from one of the proxies, or if there are none."""
        if not self.proxies:
            return True
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return any(address in network for network in self.proxies)

    def is_own_origin(self, headers: Headers) -> bool:
        """True if a request was made by a page of this server, or by no page at all."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin, scheme = headers.get("origin"), "https" if self.secure else "http"
        return origin is None or origin.lower() == f"{scheme}://{headers.get('host', '').lower()}"

    def is_holder(self, headers: Headers) -> bool:
        """True if a request has the cookie, or the token as a bearer's."""
        if not self.token:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return any(_same(value, self._cookie) for value in _cookies(headers, self.cookie_name))

    def is_token(self, given: str) -> bool:
        """True if this is the token."""
        return bool(self.token) and _same(given, self.token)

    def let_in(self, path: str, query: str) -> Response:
        """The answer to the address with the token: the cookie, and the same address without it."""
        rest = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "token"]
        # Two slashes would begin the name of another host.
        target = "/" + path.lstrip("/\\")
        answer = RedirectResponse(target + (f"?{urlencode(rest)}" if rest else ""), status_code=303)
        answer.set_cookie(
            self.cookie_name, self._cookie, httponly=True, samesite="strict", secure=self.secure, path="/"
        )
        return answer


def _cookies(headers: Headers, name: str) -> Iterator[str]:
    """The values of a cookie. They are read plainly: whatever else a browser holds for this host is not looked at."""
    for header in headers.getlist("cookie"):
        for pair in header.split(";"):
            own, _, value = pair.partition("=")
            if own.strip() == name:
                yield value.strip()


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


class Guard:
    """Lets requests through to an application as :class:`Access` says, and adds headers to its answers."""

    def __init__(self, app: ASGIApp, access: Access, open_paths: Iterable[str] = ()) -> None:
        """Guard ``app``; ``open_paths`` need no token, as for a load balancer that asks whether the server lives."""
        self._app = app
        self._access = access
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refused = self._refused(scope)
        await (refused or self._app)(scope, receive, _with_headers(send, scope["path"]))

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that is not let through."""
        access, headers, path = self._access, Headers(scope=scope), scope["path"]
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy before this server may have read the other one, and seen two requests here (request smuggling).
            return _refusal(400, "The request has two lengths: Transfer-Encoding and Content-Length.", close=True)
        if len(headers.getlist("host")) != 1:
            return _refusal(400, "The request has no single Host header.", close=True)
        peer, _ = scope.get("client") or ("", 0)
        if not access.is_from_proxy(peer):
            return _refusal(403, "This server answers its proxy only (--behind-proxy). Open the proxy's address.")
        if access.proxies and headers.getlist("x-forwarded-proto") != ["https"]:
            return _refusal(
                400, "The proxy did not receive this request by https, or does not say so: it must set the header "
                "X-Forwarded-Proto (docs/web.md).",
            )  # fmt: skip
        if not access.is_own_host(headers):
            return _refusal(
                421, "This server does not have the name in the request's Host header. "
                "Open the address that `whydrop web` printed, or start it with --host-name NAME.",
            )  # fmt: skip
        if scope["method"] not in _SAFE_METHODS and not access.is_own_origin(headers):
            return _refusal(403, "The request was made by a page of another site.")
        query = scope["query_string"].decode("latin-1")
        given = dict(parse_qsl(query)).get("token")
        if given is not None and scope["method"] == "GET" and access.is_token(given):
            return access.let_in(path, query)
        if path in self._open or access.is_holder(headers):
            return None
        return _refusal(401, "Open the address that `whydrop web` printed: it contains the token of this server.")


def _refusal(status: int, words: str, *, close: bool = False) -> Response:
    return PlainTextResponse(f"{words}\n", status, {"Connection": "close"} if close else None)


def _with_headers(send: Send, path: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if not path.startswith("/assets/"):
                headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
