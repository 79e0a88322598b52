"""CONFIG.toml of the collector: read, checked as a whole, and resolved into switches to be polled."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
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

    def wrong(self, place: Place, message: str) -> None:
        line = nearest_line(self.lines, place)
        self.problems.append(Problem(str(self.path), line, written_path(place), message))

    def warn(self, place: Place, message: str) -> None:
        line = nearest_line(self.lines, place)
        self.warnings.append(str(Problem(str(self.path), line, written_path(place), message)))

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
        self._distinct(model)
        self._all_used(model, custom)
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
        names: set[str] = set()
        for number, entry in enumerate(model.counter):
            if entry.name in names:
                self.wrong(("counter", number, "name"), f"{entry.name!r} is defined twice")
            names.add(entry.name)
        return tuple(Counter(entry.name, entry.oid, entry.bits, entry.suffix) for entry in model.counter)

    def _distinct(self, model: schema.File) -> None:
        seen: set[str] = set()
        for number, entry in enumerate(model.switch):
            if entry.name in seen:
                self.wrong(
                    ("switch", number, "name"), f"{entry.name!r} is also the name of an earlier switch; choose another"
                )
            seen.add(entry.name)

    def _all_used(self, model: schema.File, custom: tuple[Counter, ...]) -> None:
        used = {name for entry in (model.defaults, *model.switch) for name in entry.counters or ()}
        for number, counter in enumerate(custom):
            if counter.name not in used:
                self.wrong(
                    ("counter", number, "name"),
                    f'no switch counts {counter.name!r}; add it to counters = ["default", "{counter.name}"]',
                )

    def _switch(self, model: schema.File, number: int, custom: tuple[Counter, ...]) -> Switch | None:
        entry, place = model.switch[number], ("switch", number)
        merged = _Merged(model.defaults, entry)
        before = len(self.problems)
        account = self._account(merged, place)
        timeout_s, retries = self._patience(merged, model.interval_s, place)
        ports = self._ports(merged, place)
        counters = self._counters(merged, place, custom)
        site = merged.value("site")
        if site is None:
            self.wrong((*place, "site"), "is missing; give the site of the switch, here or in [defaults]")
        if len(self.problems) > before or account is None:
            return None
        return Switch(
            name=entry.name,
            site=site,
            metro=merged.value("metro") or site,
            address=entry.address,
            port=merged.value("port") or DEFAULT_UDP_PORT,
            account=account,
            timeout_s=timeout_s,
            retries=retries,
            ports=ports,
            counters=counters,
        )

    def _patience(self, merged: _Merged, interval_s: int, place: Place) -> tuple[float, int]:
        """Timeout and retries: together shorter than the interval, so a dead switch does not block its next poll."""
        retries = merged.value("retries")
        retries = DEFAULT_RETRIES if retries is None else int(retries)
        timeout_s = merged.value("timeout_s")
        if timeout_s is None:
            return min(LONGEST_DEFAULT_TIMEOUT_S, interval_s / 2 / (retries + 1)), retries
        if timeout_s * (retries + 1) >= interval_s:
            key = "timeout_s"
            self.wrong(
                merged.place(key, place),
                f"{retries + 1} tries of {timeout_s:g} s do not fit into the interval of {interval_s} s; "
                f"expected a timeout of less than {interval_s / (retries + 1):g} s",
            )
        return float(timeout_s), retries

    def _ports(self, merged: _Merged, place: Place) -> tuple[PortEntry, ...]:
        entries = merged.value("ports")
        if entries is None:
            self.wrong(
                (*place, "ports"),
                'is missing; expected "all", or a list such as [{ name = "uplink", alias = "uplink*" }]',
            )
            return ()
        return tuple(entries)

    def _counters(self, merged: _Merged, place: Place, custom: tuple[Counter, ...]) -> tuple[Counter, ...]:
        found: dict[str, Counter] = {}
        for number, name in enumerate(merged.value("counters") or ["default"]):
            counters = oids.named(name, custom)
            if not counters:
                known = oids.known_names(custom)
                like = nearest(name, known)
                hint = f"did you mean {like!r}?" if like else f"expected one of {', '.join(known)}, or a [[counter]]"
                self.wrong((*merged.place("counters", place), number), f"there is no counter {name!r}; {hint}")
            found.update({counter.name: counter for counter in counters})
        return tuple(found.values())

    def _account(self, merged: _Merged, place: Place) -> Community | User | None:
        version = merged.value("version") or ("v3" if merged.value("user") else "v2c")
        if version == "v2c":
            for key in ("user", "auth", "auth_file", "auth_env", "priv", "priv_file", "priv_env"):
                if merged.own(key) is not None:
                    self.wrong(merged.place(key, place), 'belongs to version = "v3"; this switch has "v2c"')
            community = self._secret("community", merged, place, "the community")
            return Community(community) if community is not None else None
        return self._user(merged, place)

    def _user(self, merged: _Merged, place: Place) -> User | None:
        for key in ("community_file", "community_env"):
            if merged.own(key) is not None:
                self.wrong(merged.place(key, place), 'belongs to version = "v2c"; this switch has "v3"')
        name, auth, priv = merged.value("user"), merged.value("auth"), merged.value("priv")
        for key, value, example in (("user", name, "a name"), ("auth", auth, "a protocol, such as SHA-256")):
            if value is None:
                self.wrong((*place, key), f"is missing; version v3 expects {example}")
        auth_passphrase = self._passphrase("auth", merged, place)
        priv_passphrase = None
        if priv is not None:
            priv_passphrase = self._passphrase("priv", merged, place)
        elif merged.value("priv_file") or merged.value("priv_env"):
            self.wrong((*place, "priv"), "is missing; expected the protocol of the key, such as AES-128")
        if name is None or auth is None or auth_passphrase is None or (priv is not None and priv_passphrase is None):
            return None
        return User(name, auth, auth_passphrase, priv, priv_passphrase)

    def _passphrase(self, key: str, merged: _Merged, place: Place) -> Secret | None:
        secret = self._secret(key, merged, place, "the passphrase")
        if secret is not None and len(secret.reveal()) < SHORTEST_PASSPHRASE:
            self.wrong(
                merged.place(merged.secret_key(key), place),
                f"the passphrase has fewer than {SHORTEST_PASSPHRASE} characters, which no agent accepts (RFC 3414)",
            )
        return secret

    def _secret(self, key: str, merged: _Merged, place: Place, what: str) -> Secret | None:
        file, variable = merged.secret(key)
        if (file is None) == (variable is None):
            said = "are both given" if file else "are both missing"
            self.wrong((*place, f"{key}_file"), f"and {key}_env {said}; give one of them, with {what}")
            return None
        where = merged.place(merged.secret_key(key), place)
        try:
            if variable is not None:
                return secrets.from_environment(variable)
            assert file is not None
            secret, warning = secrets.from_file(self._path(file))
        except SecretError as reason:
            self.wrong(where, str(reason))
            return None
        if warning is not None:
            self.warn(where, warning)
        return secret


class _Merged:
    """A switch's keys over those of ``[defaults]``."""

    def __init__(self, defaults: schema.Common, entry: schema.SwitchEntry) -> None:
        self.defaults = defaults
        self.entry = entry

    def own(self, key: str) -> Any:
        return getattr(self.entry, key)

    def value(self, key: str) -> Any:
        own = self.own(key)
        return getattr(self.defaults, key) if own is None else own

    def place(self, key: str, place: Place) -> Place:
        """The place of a key in the file."""
        return (*place, key) if self.own(key) is not None else ("defaults", key)

    def secret(self, key: str) -> tuple[str | None, str | None]:
        """File and variable of a secret: the switch's own, or those of the defaults."""
        for model in self._models():
            file, variable = getattr(model, f"{key}_file"), getattr(model, f"{key}_env")
            if file is not None or variable is not None:
                return file, variable
        return None, None

    def secret_key(self, key: str) -> str:
        return f"{key}_file" if self.secret(key)[0] is not None else f"{key}_env"

    def _models(self) -> Iterator[schema.Common]:
        yield self.entry
        yield self.defaults
