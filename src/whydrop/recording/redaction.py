"""Names and addresses replaced by pseudonyms: the same one everywhere, so that a recording can still be understood."""

from __future__ import annotations

import getpass
import ipaddress
import json
import re
from collections.abc import Iterable
from typing import Any

import polars as pl

HIDDEN = "<redacted>"

# What stands under such a key is hidden, whatever it is.
_SECRET_KEY = re.compile(r"secret|passw|token|credential|private_?key|psk|community", re.IGNORECASE)

# Options of command lines that are followed by a secret.
_SECRET_OPTION = re.compile(r"(--?(?:secret|password|passwd|token|hmac|username|user)[= ]+)(\S+)", re.IGNORECASE)

# Keys with names of hosts as values (the second set: as keys of an object); also those of Flent's metadata.
_HOST_KEYS = {"host", "hosts", "host_name", "local_host", "connecting_to", "target", "gateway", "http_getter_dns"}
_KEYED_BY_HOST = {"hosts", "egress", "remote_metadata"}
_NETWORK_KEYS = {"ssid", "essid", "bssid"}

_MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?:%[\w.-]+)?(?![\w:])")
_URL_HOST = re.compile(r"(?<=://)([^/\s:@\[\]]+)")
_HOME_PATH = re.compile(r"(?:/(?:home|Users)/[^/\s'\":]+|/root)(?:/[^\s'\":]*)?")

# Words that are no names of hosts although they stand where those stand.
_NO_HOSTS = {"", "local", "localhost", "none", "null", "dummy"}

# Columns of tables that hold text which may name somebody.
_COLUMNS = (
    "name",
    "host",
    "address",
    "message",
    "settings",
    "facts",
    "url",
    "error",
    "object",
    "key",
    "source",
    "destination",
)


class Redactor:
    """Redacts one recording: its metadata first, so that host names are known, then the rows of its tables."""

    def __init__(self) -> None:
        self._pseudonyms: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._hosts: re.Pattern[str] | None = None
        for user in {_user()} - {"", "root"}:
            self._pseudonym("user", user)

    def metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """A copy of ``recording.json`` without names, addresses, paths of people's files, and secrets."""
        self._learn(metadata, "")
        redacted = self._value(metadata, "")
        return {**redacted, "redacted": True}

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of any table."""
        columns = [column for column in _COLUMNS if column in frame.columns and frame.schema[column] == pl.String]
        for column in {"host"} & set(columns):
            for name in frame[column].drop_nulls().unique().to_list():
                self._learn_host(name)
        for column in columns:
            texts = frame[column].drop_nulls().unique().to_list()
            changed = {text: new for text in texts if (new := self._cell(column, text)) != text}
            if changed:
                frame = frame.with_columns(pl.col(column).replace(changed))
        return frame

    def text(self, text: str) -> str:
        """Text with pseudonyms for names, addresses, paths and secrets."""
        text = _SECRET_OPTION.sub(lambda match: match[1] + HIDDEN, text)
        for host in _URL_HOST.findall(text):
            self._learn_host(host)
        text = _HOME_PATH.sub(lambda match: self._pseudonym("path", match[0]), text)
        text = _MAC.sub(lambda match: self._pseudonym("mac", match[0].lower()), text)
        text = _IPV6.sub(lambda match: self._address(match[0]), text)
        text = _IPV4.sub(lambda match: self._address(match[0]), text)
        pattern = self._known_names()
        return pattern.sub(lambda match: self._pseudonyms[match[0]], text) if pattern else text

    # What is known.

    def _learn(self, value: Any, key: str) -> None:
        """Take note of the host names in a document."""
        if isinstance(value, dict):
            for name, item in value.items():
                if key.lower() in _KEYED_BY_HOST:
                    self._learn_host(str(name))
                self._learn(item, str(name))
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._learn(item, key)
        elif isinstance(value, str) and key.lower() in _HOST_KEYS:
            self._learn_host(value)

    def _learn_host(self, name: str) -> None:
        if name.lower() in _NO_HOSTS or name in self._pseudonyms or _is_address(name) or " " in name:
            return
        self._pseudonym("host", name)

    def _known_names(self) -> re.Pattern[str] | None:
        """Host and user names, the longest first; rebuilt when there are new ones."""
        if self._hosts is None:
            names = [name for name, new in self._pseudonyms.items() if new.startswith(("host-", "user-"))]
            names.sort(key=len, reverse=True)
            if not names:
                return None
            # As words: a host called "c1" must not change "pc12".
            self._hosts = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-]|\.\w)")
        return self._hosts

    def _pseudonym(self, kind: str, original: str) -> str:
        if original not in self._pseudonyms:
            number = self._counts.get(kind, 0) + 1
            self._counts[kind] = number
            self._pseudonyms[original] = f"{kind}-{number}"
            if kind in ("host", "user"):
                self._hosts = None
        return self._pseudonyms[original]

    def _address(self, text: str) -> str:
        bare, percent, zone = text.partition("%")
        try:
            address = ipaddress.ip_address(bare)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        # The name of an interface identifies no person, and without it the address is ambiguous.
        return self._pseudonym(f"ipv{address.version}", address.compressed) + percent + zone

    # Documents.

    def _value(self, value: Any, key: str) -> Any:
        if _SECRET_KEY.search(key) and value not in (None, "", False):
            return HIDDEN
        if isinstance(value, dict):
            return {self.text(str(name)): self._value(item, str(name)) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._value(item, key) for item in value]
        if isinstance(value, str):
            return self._pseudonym("network", value) if key.lower() in _NETWORK_KEYS and value else self.text(value)
        return value

    def _cell(self, column: str, text: str) -> str:
        if column in ("settings", "facts"):
            try:
                document = json.loads(text)
            except ValueError:
                return self.text(text)
            self._learn(document, "")
            return json.dumps(self._value(document, ""), sort_keys=True)
        return self.text(text)


def redacted(metadata: dict[str, Any], tables: Iterable[tuple[str, pl.DataFrame]]) -> Any:
    """A recording's metadata and tables, redacted with one set of pseudonyms."""
    redactor = Redactor()
    document = redactor.metadata(metadata)
    return document, {name: redactor.rows(frame) for name, frame in tables}


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
