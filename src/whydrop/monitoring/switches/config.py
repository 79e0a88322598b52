"""CONFIG.toml of the collector: read, checked as a whole, and resolved into switches to be polled."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whydrop.monitoring.switches import oids, schema, secrets
from whydrop.monitoring.switches.readings import Counter
from whydrop.monitoring.switches.schema import PortEntry
from whydrop.monitoring.switches.secrets import Secret, SecretError
from whydrop.runtime.user_files.lines import Path as Place
from whydrop.runtime.user_files.lines import nearest_line
from whydrop.runtime.user_files.problems import FileError, Problem, written_path
from whydrop.runtime.user_files.spelling import nearest
from whydrop.runtime.user_files.validating import parse, validate

DEFAULT_UDP_PORT = 161
DEFAULT_RETRIES = 1
LONGEST_DEFAULT_TIMEOUT_S = 2.0
# RFC 3414, 11.2: "at least 8 characters"; agents refuse shorter ones.
SHORTEST_PASSPHRASE = 8

# Keys with which people write secrets directly into such files, and the key to use instead.
_SECRET_KEYS = {
    "community": "community", "communities": "community", "auth_key": "auth", "auth_password": "auth",
    "auth_passphrase": "auth", "auth_secret": "auth", "priv_key": "priv", "priv_password": "priv",
    "priv_passphrase": "priv", "priv_secret": "priv", "password": "auth", "passphrase": "auth", "secret": "community",
}  # fmt: skip

# Keys known from other programs, and why they are not accepted.
_NOT_POSSIBLE = {
    **dict.fromkeys(
        ("context", "context_name", "contextname", "context_engine_id", "contexts"),
        "contexts of SNMP v3 are not supported: the SNMP library (gufo-snmp) sends only the default one. "
        'Give the user a view of that context, or use version = "v2c", where a community stands for a context',
    ),
    **dict.fromkeys(
        ("security_level", "level"),
        "is not needed: auth alone signs messages, auth and priv also encrypt them",
    ),
}

# Keys that only one version of SNMP has.
_KEYS_OF = {
    "v2c": ("community_file", "community_env"),
    "v3": ("user", "auth", "auth_file", "auth_env", "priv", "priv_file", "priv_env"),
}


@dataclass(frozen=True)
class Community:
    """SNMP v2c."""

    community: Secret


@dataclass(frozen=True)
class User:
    """SNMP v3 with the user-based security model; without ``priv`` requests are signed and not encrypted."""

    name: str
    auth: str
    auth_passphrase: Secret
    priv: str | None = None
    priv_passphrase: Secret | None = None


@dataclass(frozen=True)
class Switch:
    """A switch to be polled."""

    name: str
    site: str
    metro: str
    address: str
    port: int
    account: Community | User
    timeout_s: float
    retries: int
    ports: tuple[PortEntry, ...]
    counters: tuple[Counter, ...]


@dataclass(frozen=True)
class Disco:
    """The folder of DISCO v2 files, and the host named in them."""

    folder: Path
    hostname: str


@dataclass(frozen=True)
class Config:
    """The switches to poll, how often, and where the readings go."""

    path: Path
    store: Path
    interval_s: int
    host: str
    switches: tuple[Switch, ...]
    disco: Disco | None = None
    exporter: tuple[str, int] | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def interval_ns(self) -> int:
        """The time between polls."""
        return self.interval_s * 1_000_000_000


def load(path: Path) -> Config:
    """Read CONFIG.toml, and the secrets that it names.

    Raises:
        FileError: lists every mistake with its line and key. Secrets are never quoted.
    """
    raw, lines = parse(path, str(path))
    reader = _Reader(path, lines)
    reader.refuse_secrets(raw)
    reader.refuse_what_is_not_possible(raw)
    reader.stop_if_wrong()
    model, mistakes = validate(schema.File, raw)
    for place, message in mistakes:
        reader.wrong(place, message)
    reader.stop_if_wrong()
    assert model is not None
    config = reader.resolved(model)
    reader.stop_if_wrong()
    return config


class _Reader:
    """Checks what a schema cannot check, and resolves the file into switches."""

    def __init__(self, path: Path, lines: dict[Place, int]) -> None:
        self.path = path
        self.lines = lines
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def _problem(self, place: Place, message: str) -> Problem:
        return Problem(str(self.path), nearest_line(self.lines, place), written_path(place), message)

    def wrong(self, place: Place, message: str) -> None:
        self.problems.append(self._problem(place, message))

    def warn(self, place: Place, message: str) -> None:
        self.warnings.append(str(self._problem(place, message)))

    def stop_if_wrong(self) -> None:
        if self.problems:
            raise FileError(self.problems)

    def refuse_secrets(self, raw: Any, place: Place = ()) -> None:
        if isinstance(raw, dict):
            for key, value in raw.items():
                if key.lower() in _SECRET_KEYS:
                    instead = _SECRET_KEYS[key.lower()]
                    self.wrong(
                        (*place, key),
                        "a secret does not belong in this file. Write it into a file of its own (umask 077) and set "
                        f'{instead}_file = "PATH", or put it into an environment variable and set '
                        f'{instead}_env = "NAME"',
                    )
                else:
                    self.refuse_secrets(value, (*place, key))
        elif isinstance(raw, list):
            for number, value in enumerate(raw):
                self.refuse_secrets(value, (*place, number))

    def refuse_what_is_not_possible(self, raw: dict[str, Any]) -> None:
        entries = raw.get("switch")
        tables: list[tuple[Place, Any]] = [(("defaults",), raw.get("defaults"))]
        tables += [(("switch", number), one) for number, one in enumerate(entries if isinstance(entries, list) else [])]
        for place, table in tables:
            for key in table if isinstance(table, dict) else ():
                if key.lower() in _NOT_POSSIBLE:
                    self.wrong((*place, key), _NOT_POSSIBLE[key.lower()])

    def resolved(self, model: schema.File) -> Config:
        custom = self._custom(model)
        switches = tuple(self._switch(model, number, custom) for number in range(len(model.switch)))
        host = model.host or socket.gethostname()
        disco = None
        if model.disco is not None:
            disco = Disco(self._path(model.disco.folder), model.disco.hostname or host)
        return Config(
            path=self.path,
            store=self._path(model.store),
            interval_s=model.interval_s,
            host=host,
            switches=tuple(switch for switch in switches if switch is not None),
            disco=disco,
            exporter=None if model.exporter is None else (model.exporter.address, model.exporter.port),
            warnings=self.warnings,
        )

    def _path(self, text: str) -> Path:
        """A path relative to the file's folder; ``$CREDENTIALS_DIRECTORY`` and other variables are replaced."""
        return self.path.parent / Path(os.path.expandvars(text)).expanduser()

    def _custom(self, model: schema.File) -> tuple[Counter, ...]:
        used = {name for entry in (model.defaults, *model.switch) for name in entry.counters or ()}
        for number, entry in enumerate(model.counter):
            place = ("counter", number, "name")
            if entry.name in {other.name for other in model.counter[:number]}:
                self.wrong(place, f"{entry.name!r} is defined twice")
            if entry.name not in used:
                self.wrong(place, f'no switch counts {entry.name!r}; add it to counters = ["default", "{entry.name}"]')
        return tuple(Counter(entry.name, entry.oid, entry.bits, entry.suffix) for entry in model.counter)

    def _switch(self, model: schema.File, number: int, custom: tuple[Counter, ...]) -> Switch | None:
        merged = _Merged(model.defaults, model.switch[number], ("switch", number))
        before = len(self.problems)
        if merged.name in {other.name for other in model.switch[:number]}:
            self.wrong(merged.place("name"), f"{merged.name!r} is also the name of an earlier switch; choose another")
        account = self._community(merged) if self._version(merged) == "v2c" else self._user(merged)
        timeout_s, retries = self._patience(merged, model.interval_s)
        counters = self._counters(merged, custom)
        for key, expected in (
            ("site", "give the site of the switch, here or in [defaults]"),
            ("ports", 'expected "all", or a list such as [{ name = "uplink", alias = "uplink*" }]'),
        ):
            if getattr(merged, key) is None:
                self.wrong((*merged.table, key), f"is missing; {expected}")
        if len(self.problems) > before or account is None:
            return None
        return Switch(
            name=merged.name,
            site=merged.site,
            metro=merged.metro or merged.site,
            address=merged.address,
            port=merged.port or DEFAULT_UDP_PORT,
            account=account,
            timeout_s=timeout_s,
            retries=retries,
            ports=tuple(merged.ports),
            counters=counters,
        )

    def _patience(self, merged: _Merged, interval_s: int) -> tuple[float, int]:
        """Timeout and retries: together shorter than the interval, so a dead switch does not block its next poll."""
        retries = DEFAULT_RETRIES if merged.retries is None else int(merged.retries)
        timeout_s = merged.timeout_s
        if timeout_s is None:
            return min(LONGEST_DEFAULT_TIMEOUT_S, interval_s / 2 / (retries + 1)), retries
        if timeout_s * (retries + 1) >= interval_s:
            self.wrong(
                merged.place("timeout_s"),
                f"{retries + 1} tries of {timeout_s:g} s do not fit into the interval of {interval_s} s; "
                f"expected a timeout of less than {interval_s / (retries + 1):g} s",
            )
        return float(timeout_s), retries

    def _counters(self, merged: _Merged, custom: tuple[Counter, ...]) -> tuple[Counter, ...]:
        found: dict[str, Counter] = {}
        for number, name in enumerate(merged.counters or ["default"]):
            counters = oids.named(name, custom)
            if not counters:
                known = oids.known_names(custom)
                like = nearest(name, known)
                hint = f"did you mean {like!r}?" if like else f"expected one of {', '.join(known)}, or a [[counter]]"
                self.wrong((*merged.place("counters"), number), f"there is no counter {name!r}; {hint}")
            found.update({counter.name: counter for counter in counters})
        return tuple(found.values())

    def _version(self, merged: _Merged) -> str:
        """The version of SNMP, of which the other one's keys are refused."""
        version: str = merged.version or ("v3" if merged.user else "v2c")
        other = "v3" if version == "v2c" else "v2c"
        for key in _KEYS_OF[other]:
            if merged.is_own(key):
                self.wrong(merged.place(key), f'belongs to version = "{other}"; this switch has "{version}"')
        return version

    def _community(self, merged: _Merged) -> Community | None:
        community = self._secret("community", merged, "the community")
        return Community(community) if community is not None else None

    def _user(self, merged: _Merged) -> User | None:
        name, auth, priv = merged.user, merged.auth, merged.priv
        for key, value, example in (("user", name, "a name"), ("auth", auth, "a protocol, such as SHA-256")):
            if value is None:
                self.wrong((*merged.table, key), f"is missing; version v3 expects {example}")
        auth_passphrase = self._passphrase("auth", merged)
        priv_passphrase = None
        if priv is not None:
            priv_passphrase = self._passphrase("priv", merged)
        elif merged.priv_file or merged.priv_env:
            self.wrong((*merged.table, "priv"), "is missing; expected the protocol of the key, such as AES-128")
        if name is None or auth is None or auth_passphrase is None or (priv is not None and priv_passphrase is None):
            return None
        return User(name, auth, auth_passphrase, priv, priv_passphrase)

    def _passphrase(self, key: str, merged: _Merged) -> Secret | None:
        secret = self._secret(key, merged, "the passphrase")
        if secret is not None and len(secret.reveal()) < SHORTEST_PASSPHRASE:
            self.wrong(
                merged.place_of_secret(key),
                f"the passphrase has fewer than {SHORTEST_PASSPHRASE} characters, which no agent accepts (RFC 3414)",
            )
        return secret

    def _secret(self, key: str, merged: _Merged, what: str) -> Secret | None:
        file, variable = merged.secret(key)
        if (file is None) == (variable is None):
            said = "are both given" if file else "are both missing"
            self.wrong((*merged.table, f"{key}_file"), f"and {key}_env {said}; give one of them, with {what}")
            return None
        place = merged.place_of_secret(key)
        try:
            if variable is not None:
                return secrets.from_environment(variable)
            assert file is not None
            secret, warning = secrets.from_file(self._path(file))
        except SecretError as reason:
            self.wrong(place, str(reason))
            return None
        if warning is not None:
            self.warn(place, warning)
        return secret


class _Merged:
    """A switch's keys over those of ``[defaults]``, as attributes."""

    def __init__(self, defaults: schema.Common, entry: schema.SwitchEntry, table: Place) -> None:
        self.defaults, self.entry, self.table = defaults, entry, table

    def __getattr__(self, key: str) -> Any:
        return getattr(self.entry if self.is_own(key) else self.defaults, key)

    def is_own(self, key: str) -> bool:
        return getattr(self.entry, key) is not None

    def place(self, key: str) -> Place:
        """The place of a key in the file."""
        return (*self.table, key) if self.is_own(key) else ("defaults", key)

    def secret(self, key: str) -> tuple[str | None, str | None]:
        """File and variable of a secret: the switch's own, or those of the defaults."""
        own = self.is_own(f"{key}_file") or self.is_own(f"{key}_env")
        model = self.entry if own else self.defaults
        return getattr(model, f"{key}_file"), getattr(model, f"{key}_env")

    def place_of_secret(self, key: str) -> Place:
        return self.place(f"{key}_env" if self.secret(key)[0] is None else f"{key}_file")
