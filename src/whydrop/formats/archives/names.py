"""The parts of Measurement Lab's names of hosts, archives and files: machine, site, time, client.

Two generations of names are in use. Hosts were ``mlab1.dfw02.measurement-lab.org`` until 2020 and are
``mlab1-dfw02.mlab-oti.measurement-lab.org`` since; either may begin with the experiment (``ndt.iupui.``,
``ndt-iupui-``, ``ndt-``). Archives were ``20170922T000000Z-mlab1-los01-ndt-0004.tgz`` and are
``20190516T013026.744845Z-tcpinfo-mlab4-arn02-ndt.tgz``. Snaplogs are named for the time and the client, with ``:`` or
``%3A``, and ``-`` or ``_`` behind the time.
"""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import unquote

# A site is an airport's three letters and two digits; "0t" marks sites for testing.
_MACHINE_AND_SITE = re.compile(r"(?:^|[^a-z0-9])(mlab[0-9])[-.]([a-z]{3}[0-9]{1}[0-9t])(?![a-z0-9])")
_SITE_OF_SWITCH = re.compile(r"(?:^|[^a-z0-9])s1[-.]([a-z]{3}[0-9][0-9t])(?![a-z0-9])")
_TIME = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)T(\d\d):?(\d\d):?(\d\d)(?:\.(\d{1,9}))?Z")
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))")
_TEST = re.compile(r"^(?P<client>.*?)(?::(?P<port>\d{1,5}))?\.(?P<kind>[a-z0-9_]+)$")
# UUIDs of connections: host's short name, boot time of the host (s), socket cookie. Host names hold what they like.
_UUID = re.compile(r"((?:[A-Za-z0-9-]+_)\d{9,11}_[0-9A-F]{16}|[A-Za-z0-9.-]+_\d{9,11}_unsafe_[0-9A-F]{16})")
_COMPRESSED = re.compile(r"\.(gz|zst)$")

_LATEST_S = (1 << 63) // 10**9 - 1


@dataclass(frozen=True)
class Host:
    """A machine of the platform."""

    machine: str | None  # mlab1
    site: str  # dfw02

    @property
    def metro(self) -> str:
        """The group of sites: the airport's three letters."""
        return self.site[:3]

    @property
    def name(self) -> str | None:
        """The host's full name as its tests recorded it until 2020, however a file spells it."""
        return f"{self.machine}.{self.site}.measurement-lab.org" if self.machine else None


@dataclass(frozen=True)
class NdtFile:
    """The parts of the name of a file of one NDT test (web100's time)."""

    time_ns: int
    client: str  # host name or address
    port: int | None
    kind: str  # c2s_snaplog, s2c_snaplog, meta, cputime, c2s_ndttrace, ...

    @property
    def direction(self) -> str | None:
        """``upload`` (client to server), ``download``, or None if the kind implies neither."""
        return {"c2s": "upload", "s2c": "download"}.get(self.kind.partition("_")[0])


def plain(name: str) -> str:
    """The last part of a path, with ``%3A`` read as ``:`` and without the endings of compression.

    >>> plain("2017/09/22/20170922T23%3A51%3A06Z_eb.example%3A34794.s2c_snaplog.gz")
    '20170922T23:51:06Z_eb.example:34794.s2c_snaplog'
    """
    last = re.sub(r"%3[Aa]", ":", name.replace("\\", "/").rstrip("/").rpartition("/")[2])
    while (shorter := _COMPRESSED.sub("", last)) != last:
        last = shorter
    return last


def host(text: str) -> Host | None:
    """The machine in a host's or an archive's name, of either generation.

    >>> host("ndt.iupui.mlab1.dfw02.measurement-lab.org")
    Host(machine='mlab1', site='dfw02')
    >>> host("mlab2-dfw07.mlab-oti.measurement-lab.org")
    Host(machine='mlab2', site='dfw07')
    """
    found = _MACHINE_AND_SITE.search(unquote(text).lower())
    if found:
        return Host(found[1], found[2])
    return switch(text)


def switch(text: str) -> Host | None:
    """The site's switch, which has no machine, in either spelling of its name.

    >>> switch("s1-dfw07.measurement-lab.org")
    Host(machine=None, site='dfw07')
    """
    found = _SITE_OF_SWITCH.search(text.lower())
    return Host(None, found[1]) if found else None


def time_ns(text: str) -> int | None:
    """The first time in a name, in nanoseconds since the Unix epoch; None where there is none.

    >>> time_ns("20170922T000000Z-mlab1-los01-ndt-0004.tgz")
    1506038400000000000
    """
    found = _TIME.search(text)
    return _nanoseconds(found.groups()[:6], found[7] or "") if found else None


def rfc3339_ns(text: object) -> int | None:
    """A time as JSON writes it (RFC 3339), in nanoseconds since the Unix epoch.

    None where it is none, or lies outside what 64 bits hold (1970 to 2262): Go's zero time is in the year 1.
    """
    found = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if not found:
        return None
    local = _nanoseconds(found.groups()[:6], (found[7] or "")[:9])
    if local is None or found[8] is None:
        return local
    offset = (int(found[9]) * 60 + int(found[10])) * 60 * 10**9
    moved = local - offset if found[8] == "+" else local + offset
    return moved if 0 < moved < _LATEST_S * 10**9 else None


def ndt_file(name: str) -> NdtFile | None:
    """Parse the name of a file of an NDT test; None where it is named otherwise.

    >>> ndt_file("20090601T22%3A19%3A19.325928000Z-75.133.69.98%3A60631.s2c_snaplog").client
    '75.133.69.98'
    """
    last = plain(name)
    stamp = _TIME.match(last)
    moment = time_ns(last) if stamp else None
    if stamp is None or moment is None or last[stamp.end() : stamp.end() + 1] not in ("_", "-"):
        return None
    found = _TEST.match(last[stamp.end() + 1 :])
    if not found:
        return None
    port = int(found["port"]) if found["port"] else None
    if found["kind"].endswith("_ndttrace") and port is not None and found["client"].count(":"):
        # Traces are named without a port: what looks like one is the last group of an IPv6 address.
        return NdtFile(moment, f"{found['client']}:{found['port']}", None, found["kind"])
    return NdtFile(moment, found["client"], port, found["kind"])


def uuid(name: str) -> str | None:
    """The connection's UUID in a file's name.

    >>> uuid("2019/05/16/ndt-q5zbq_1555433454_0000000000002C37.00000.jsonl.zst")
    'ndt-q5zbq_1555433454_0000000000002C37'
    """
    found = _UUID.search(plain(name))
    return found[1] if found else None


def _nanoseconds(parts: tuple[str | None, ...], fraction: str) -> int | None:
    try:
        moment = datetime(*(int(part or 0) for part in parts), tzinfo=UTC)  # type: ignore[arg-type,misc]
    except ValueError:  # such as the 31st of February
        return None
    seconds = timegm(moment.utctimetuple())
    if not 0 < seconds < _LATEST_S:
        return None
    return seconds * 10**9 + int(fraction.ljust(9, "0") or 0)
