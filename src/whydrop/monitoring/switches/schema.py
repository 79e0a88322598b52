"""The schema of the collector's CONFIG.toml; `config` makes switches of it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from whydrop.monitoring.switches import oids

AuthProtocol = Literal["MD5", "SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512"]
# Cisco extends short keys by a method of its own.
PrivProtocol = Literal["DES", "AES-128", "AES-192", "AES-256", "AES-192-Cisco", "AES-256-Cisco"]


def _clean(text: str) -> str:
    """Refuse control characters: the system misreads a name with a NUL."""
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ValueError(f"{text!r}: has control characters, which no name may have")
    return text


Text = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_clean)]
UdpPort = Annotated[int, Field(ge=1, le=65535)]

# Counter names are written into tables, labels and files of other tools.
_COUNTER_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]|\.(?=[a-z0-9]))*\.(rx|tx)")
_MAC = re.compile(r"[0-9a-f]{12}")
_FIELDS = re.compile(r"\{([^{}]*)\}")
NAME_FIELDS = ("alias", "ifname", "index")


class Strict(BaseModel):
    """A table without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CounterEntry(Strict):
    """``[[counter]]``: a counter without a built-in name."""

    name: Text
    oid: Text
    bits: Literal[32, 64]
    suffix: Annotated[str, Field(max_length=255)] = ""

    @field_validator("name")
    @classmethod
    def _named(cls, name: str) -> str:
        if not _COUNTER_NAME.fullmatch(name):
            raise ValueError(f"{name!r}: expected lower-case letters, digits, dots and hyphens, ending in .rx or .tx")
        if oids.named(name):
            raise ValueError(f"{name!r} is the name of a built-in counter; choose another name")
        return name

    @field_validator("oid")
    @classmethod
    def _dotted(cls, oid: str) -> str:
        return oids.dotted(oid)

    @field_validator("suffix")
    @classmethod
    def _suffix(cls, suffix: str) -> str:
        if not re.fullmatch(r"(\.(0|[1-9][0-9]{0,9}))*", suffix):
            raise ValueError(
                f"{suffix!r}: expected the part of the object identifier behind the port's index, such as .0"
            )
        return suffix


class PortEntry(Strict):
    """``[[switch.ports]]``: one port, or every port that matches."""

    name: Text = "{ifname}"
    machine: Text | None = None
    alias: Text | None = None
    ifname: Text | None = None
    index: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    mac: Text | None = None
    all: Literal[True] | None = None

    @field_validator("name", "machine")
    @classmethod
    def _fields(cls, text: str | None) -> str | None:
        unknown = [field for field in _FIELDS.findall(text or "") if field not in NAME_FIELDS]
        if unknown:
            raise ValueError(f"{{{unknown[0]}}}: expected {{alias}}, {{ifname}} or {{index}}")
        return text

    @field_validator("mac")
    @classmethod
    def _mac(cls, mac: str | None) -> str | None:
        digits = re.sub(r"[:.-]", "", mac or "").lower()
        if mac is not None and not _MAC.fullmatch(digits):
            raise ValueError(f"{mac!r}: expected a MAC address, such as 00:1b:21:3c:9d:f8")
        return digits if mac is not None else None

    @model_validator(mode="after")
    def _one_key(self) -> PortEntry:
        keys = [key for key in ("alias", "ifname", "index", "mac", "all") if getattr(self, key) is not None]
        if len(keys) != 1:
            given = " and ".join(keys) or "none of the keys"
            raise ValueError(f"has {given}; expected exactly one of alias, ifname, index, mac, all = true")
        return self


class Common(Strict):
    """Keys that ``[defaults]`` and each ``[[switch]]`` may have."""

    site: Text | None = None
    metro: Text | None = None
    port: UdpPort | None = None
    version: Literal["v2c", "v3"] | None = None
    community_file: Text | None = None
    community_env: Text | None = None
    user: Annotated[str, Field(min_length=1, max_length=32)] | None = None  # RFC 3414: SnmpAdminString (SIZE(1..32))
    auth: AuthProtocol | None = None
    auth_file: Text | None = None
    auth_env: Text | None = None
    priv: PrivProtocol | None = None
    priv_file: Text | None = None
    priv_env: Text | None = None
    timeout_s: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] | None = None
    retries: Annotated[int, Field(ge=0, le=10)] | None = None
    counters: Annotated[list[Text], Field(min_length=1)] | None = None
    ports: Annotated[list[PortEntry], Field(min_length=1)] | None = None

    @field_validator("timeout_s", mode="before")
    @classmethod
    def _whole_seconds(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("ports", mode="before")
    @classmethod
    def _every_port(cls, ports: object) -> object:
        if isinstance(ports, str):
            if ports != "all":
                raise ValueError(f'{ports!r}: expected "all", or a list such as [{{ alias = "uplink*" }}]')
            return [{"all": True}]
        return ports


class SwitchEntry(Common):
    """``[[switch]]``."""

    name: Text
    address: Text


class DiscoEntry(Strict):
    """``[disco]``: files as M-Lab's DISCO v2 writes them, beside the store."""

    folder: Text
    hostname: Text | None = None


class ExporterEntry(Strict):
    """``[exporter]``: the address at which Prometheus scrapes."""

    address: Text = "127.0.0.1"
    port: UdpPort = 9817


class File(Strict):
    """CONFIG.toml."""

    store: Text
    interval_s: Annotated[int, Field(ge=1, le=3600)] = 10
    host: Text | None = None
    disco: DiscoEntry | None = None
    exporter: ExporterEntry | None = None
    defaults: Common = Common()
    counter: list[CounterEntry] = []
    switch: Annotated[list[SwitchEntry], Field(min_length=1)]
