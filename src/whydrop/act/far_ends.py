"""Far ends that take data: the responder, or what stands there already, and the program here that sends to it."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from whydrop.errors import Mistake
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.registry import SUPPORT

Kind = Literal["responder", "iperf3", "nuttcp", "http", "ssh"]

EXPECTED = "responder, iperf3, nuttcp, ssh (each with :PORT), ssh:USER@HOST, or the URL of an upload"

# Data without an end; a shell only to give it to the program as its standard input.
_FROM_ZEROS = ("sh", "-c", 'exec "$@" </dev/zero', "sh")
_SHELL = re.compile(r"sh ended with status \d+: ")
# Programs that the registry knows as runners.
_RUNNERS = ("iperf3", "nuttcp")
_CONNECTS_WITHIN_S = 10
# As curl prints them.
_NO_SUCH_METHOD = ("returned error: 405", "returned error: 501")
# The server ended the connection while curl sent; its answer, if there was one, may be lost with it. Other failures
# with these numbers are the path's: timeouts, no route.
_CUT_OFF = re.compile(r"curl: \(5[56]\).*(broken pipe|connection reset)", re.IGNORECASE)


class FarEndError(Mistake):
    """A far end that is not valid; the message says what was expected."""


@dataclass(frozen=True)
class FarEnd:
    """The server that takes the data at the far end.

    Attributes:
        kind: of server.
        port: of it; ``None``: the usual one.
        place: the URL of an upload; or the destination as ``ssh`` knows it, where it is not the host's name.
        method: of an upload.
        asks: curl asks before it sends data (``Expect: 100-continue``, RFC 9110, section 10.1.1). It waits for the
            answer then, so it does so only to learn why a server ends the connection.
    """

    kind: Kind = "responder"
    port: int | None = None
    place: str = ""
    method: Literal["PUT", "POST"] = "PUT"
    asks: bool = False

    def __str__(self) -> str:
        return self.place if self.kind == "http" else self.kind + (f":{self.place}" if self.place else "")

    @property
    def program(self) -> str:
        """The program that sends from here."""
        return {"responder": "whydrop", "http": "curl"}.get(self.kind, self.kind)

    @property
    def paces_its_socket(self) -> bool:
        """True if the program can pace its own socket (``SO_MAX_PACING_RATE``)."""
        return self.kind == "responder" or (self.kind in _RUNNERS and "pacing_rate_bps" in SUPPORT[self.kind].honours)

    def length_s(self, wanted_s: float) -> float:
        """The duration of a flow: whole seconds, which every program takes."""
        return wanted_s if self.kind == "responder" else math.ceil(wanted_s)

    def flow(self, planned: PlannedFlow, host: str) -> PlannedFlow:
        """The flow as the program here sends it."""
        if self.kind == "responder":
            return planned
        if self.kind in _RUNNERS:
            return dataclasses.replace(planned, runner=self.kind, port=self.port)
        return dataclasses.replace(planned, runner="command", options={"command": self._command(planned, host)})

    def _command(self, planned: PlannedFlow, host: str) -> list[str]:
        version = [f"-{planned.ip_version}"] if planned.ip_version else []
        if self.kind == "http":
            words = ["curl", "-sS", "--fail", "--globoff", "--connect-timeout", str(_CONNECTS_WITHIN_S)]
            words += ["-H", "Expect: 100-continue" if self.asks else "Expect:"]
            return [*words, *version, "-o", "/dev/null", "-X", self.method, "-T", "/dev/zero", self.place]
        options = ["BatchMode=yes", f"ConnectTimeout={_CONNECTS_WITHIN_S}", "Compression=no", "ControlPath=none"]
        words = ["ssh", *version, *(word for option in options for word in ("-o", option))]
        port = [] if self.port is None else ["-p", str(self.port)]
        return [*_FROM_ZEROS, *words, *port, "--", self.place or host, "cat >/dev/null"]

    def otherwise(self, message: str) -> FarEnd | None:
        """The same far end in another manner, where this one failed with the message; ``None``: there is none."""
        if self.kind == "http" and not self.asks and _CUT_OFF.search(message):
            return dataclasses.replace(self, asks=True)
        if self.kind == "http" and self.method == "PUT" and any(code in message for code in _NO_SUCH_METHOD):
            return dataclasses.replace(self, method="POST")
        return None

    def advice(self, message: str) -> str:
        """The program's message, with what to do about it where that is known."""
        if self.kind == "http" and _CUT_OFF.search(message):
            return f"{message}: {_ENDED}"
        for words, what in _ADVICE.get(self.kind, {}).items():
            if words in message.lower():
                return f"{_SHELL.sub('', message)}: {what}"
        return message


RESPONDER = FarEnd()

_ENDED = "the server ended the connection while data was sent: give a URL that takes uploads of any length"
_ADVICE = {
    "http": {
        "ended after": "the server answered before all was sent: give a URL that takes an upload of any length, and is "
        "no redirection",
        "returned error: 405": "the server takes neither PUT nor POST there: give a URL that takes uploads",
        "returned error: 501": "the server takes neither PUT nor POST: give a URL that takes uploads",
        "returned error: 403": "the server refuses uploads there",
        "returned error: 404": "there is no such address at the server",
        "returned error: 401": "the server asks for a password, which is not given to it: give a URL that needs none",
        "returned error: 413": "the server limits the size of uploads: give a URL without a limit",
        "connect to server": "nothing listens there, or a firewall drops it: start the server, or give its port",
        "refused": "nothing listens there: start the server, or give its port in the URL",
        "could not resolve": "there is no such host: check the URL",
    },
    "ssh": {
        "ended after": "the far end must run `cat >/dev/null` for this user: look for a forced command",
        "permission denied": "ssh must log in without a password: give it a key that the host knows (ssh-copy-id), "
        "or load it into ssh-agent",
        "host key verification": "the key of the host is not known: log in by hand once, and compare its fingerprint",
        "refused": "nothing listens there: start sshd, or give its port (--far-end ssh:PORT)",
        "could not resolve": "ssh knows no such host: give its destination (--far-end ssh:USER@HOST)",
    },
}


def far_end(written: str) -> FarEnd:
    """The far end that a text names.

    Raises:
        FarEndError: it names none.

    >>> far_end("iperf3:5202"), far_end("ssh:ann@server")
    (FarEnd(kind='iperf3', port=5202, place=''), FarEnd(kind='ssh', port=None, place='ann@server'))
    """
    if written.startswith(("http://", "https://")):
        return FarEnd("http", place=_address(written))
    kind, colon, rest = written.partition(":")
    if kind not in ("responder", "iperf3", "nuttcp", "ssh") or (colon and not rest):
        raise FarEndError(f"--far-end {written}: expected {EXPECTED}")
    if not rest:
        return FarEnd(kind)  # type: ignore[arg-type]
    if rest.isascii() and rest.isdigit() and len(rest) <= 5 and 0 < int(rest) < 65_536:
        return FarEnd(kind, int(rest))  # type: ignore[arg-type]
    if kind != "ssh" or rest.startswith("-") or not rest.isprintable() or " " in rest:
        raise FarEndError(f"--far-end {written}: expected a port after the colon, 1 to 65535")
    return FarEnd("ssh", place=rest)


def _address(written: str) -> str:
    try:
        parts = urlsplit(written)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or any(character.isspace() or not character.isprintable() for character in written):
        raise FarEndError(f"--far-end {written}: expected the URL of an upload, such as https://server.example/upload")
    return written
