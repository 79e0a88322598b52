"""The kind of file that a member is: by its first bytes or, if they do not decide, by its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from whydrop.formats import captures
from whydrop.formats.archives import Found, bcc, companions, ndt, sidestream, ss_log, tcp_info, web100
from whydrop.formats.archives.names import Host, plain

Kind = Literal[
    "snaplog",
    "sidestream",
    "meta",
    "tcp-info",
    "netlink",
    "ndt",
    "disco",
    "ss",
    "bcc",
    "capture",
    "cputime",
    "empty",
    "unknown",
]

# Readers of the content of a file with its name and host, by kind. Other kinds need more, or are left out.
READERS: dict[Kind, Callable[[bytes, str, Host | None], Found | None]] = {
    "sidestream": sidestream.read,
    "tcp-info": tcp_info.read,
    "netlink": tcp_info.read_netlink,
    "ndt": ndt.read,
    "ss": ss_log.read,
    "bcc": bcc.read,
}

_HEAD = 1 << 14
_DISCO = (b'"experiment"', b'"hostname"', b'"metric"', b'"sample"')
# Version 1 begins with its samples, and a metric's are as long as all that is looked at.
_DISCO_SAMPLES = re.compile(
    rb'\s*\{\s*"sample"\s*:\s*\[\s*(\]|\{\s*"(timestamp|value|counter|collectstart|collectend)")'
)
_TCP_INFO = (b'"RawIDM"', b'"Metadata"', b'"Attributes"')
_NDT = (b'"GitShortCommit"', b'"Control"', b'"Download"', b'"Upload"', b'"C2S"', b'"S2C"')


def kind(content: bytes, name: str) -> Kind:
    """The kind of a file with this content and name."""
    last = plain(name)
    head = content[:_HEAD]
    if not content:
        return "empty"
    return _by_content(head) or _by_name(last)


def _by_content(head: bytes) -> Kind | None:
    if head.startswith(captures.BEGINNINGS):
        return "capture"
    if sidestream.is_sidestream(head):
        return "sidestream"
    if companions.is_meta(head):
        return "meta"
    if tcp_info.is_netlink(head):
        return "netlink"
    if head.lstrip().startswith(b"{"):
        if sum(key in head for key in _DISCO) >= 2 or _DISCO_SAMPLES.match(head):
            return "disco"
        if any(key in head for key in _TCP_INFO):
            return "tcp-info"
        if any(key in head for key in _NDT):
            return "ndt"
    if web100.is_snaplog(head):
        return "snaplog"
    if bcc.is_bcc(head):
        return "bcc"
    return "ss" if ss_log.is_ss(head) else None


def _by_name(last: str) -> Kind:
    """For content that says nothing, because it is damaged or of no consequence here."""
    if last.endswith("_snaplog"):
        return "snaplog"
    if last.endswith(("_ndttrace", ".pcap", ".pcapng")):
        return "capture"
    if last.endswith(".cputime"):
        return "cputime"
    if last.endswith(".meta"):
        return "meta"
    if last.endswith(".web100"):
        return "sidestream"
    if last.endswith(("-switch.json", "-switch.jsonl")):
        return "disco"
    if last.endswith(".jsonl"):
        return "tcp-info"
    return "ndt" if last.startswith(("ndt7-", "ndt-", "ndt5-")) and last.endswith(".json") else "unknown"
