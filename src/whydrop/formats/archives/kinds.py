"""The kind of file that a member is: by its first bytes or, if they do not decide, by its name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from whydrop.formats.archives import Found, bcc, companions, ndt, sidestream, ss_log, tcp_info, web100
from whydrop.formats.archives.names import Host, plain
from whydrop.formats.kinds import OF_CAPTURES

Kind = Literal[
    "snaplog", "sidestream", "meta", "tcp-info", "netlink", "ndt", "disco", "ss", "bcc",
    "capture", "cputime", "empty", "unknown",
]  # fmt: skip

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


# Endings of names, for content that says nothing, because it is damaged or of no consequence here.
_ENDINGS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("snaplog", ("_snaplog",)),
    ("capture", ("_ndttrace", ".pcap", ".pcapng")),
    ("cputime", (".cputime",)),
    ("meta", (".meta",)),
    ("sidestream", (".web100",)),
    ("disco", ("-switch.json", "-switch.jsonl")),
    ("tcp-info", (".jsonl",)),
)


def kind(content: bytes, name: str) -> Kind:
    """The kind of a file with this content and name."""
    if not content:
        return "empty"
    head = content[:_HEAD]
    for found, is_of_it in _BEGINNINGS:
        if is_of_it(head):
            return found
    last = plain(name)
    if last.startswith(("ndt7-", "ndt-", "ndt5-")) and last.endswith(".json"):
        return "ndt"
    return next((found for found, endings in _ENDINGS if last.endswith(endings)), "unknown")


def _is_disco(head: bytes) -> bool:
    return _is_json(head) and (sum(key in head for key in _DISCO) >= 2 or _DISCO_SAMPLES.match(head) is not None)


def _is_json(head: bytes) -> bool:
    return head.lstrip().startswith(b"{")


_BEGINNINGS: tuple[tuple[Kind, Callable[[bytes], bool]], ...] = (
    ("capture", lambda head: head.startswith(OF_CAPTURES)),
    ("sidestream", sidestream.is_sidestream),
    ("meta", companions.is_meta),
    ("netlink", tcp_info.is_netlink),
    ("disco", _is_disco),
    ("tcp-info", lambda head: _is_json(head) and any(key in head for key in _TCP_INFO)),
    ("ndt", lambda head: _is_json(head) and any(key in head for key in _NDT)),
    ("snaplog", web100.is_snaplog),
    ("bcc", bcc.is_bcc),
    ("ss", ss_log.is_ss),
)
