"""The packets of a capture one by one, with their numbers, as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING

from whydrop import _core
from whydrop.errors import Mistake

if TYPE_CHECKING:
    import polars

# The TCP flags, from the lowest bit on (RFC 9293, 3168 and 9768).
FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE")


@dataclass(frozen=True)
class Packets:
    """Packets of a capture, in the order of their times.

    Attributes:
        table: one row for each packet. ``frame_number`` counts from 1 as Wireshark does (over all files of a sequence);
            ``time_ns`` is nanoseconds since the Unix epoch; ``protocol`` is ``tcp``, ``udp``, ``icmp``, ``fragment``,
            ``other``, ``not-ip`` or ``undecodable``; ``sequence``, ``acknowledgment``, ``window`` are as in the TCP
            header, unscaled; ``flags`` are words such as ``"PSH ACK"``. ``source``, ``source_port``, ``destination``,
            ``destination_port``, ``ttl``, ``dscp``, ``ecn``, ``wire_bytes``, ``ip_bytes``, ``payload_bytes`` are of the
            innermost header. What a packet does not have is null.
        has_more: there are more packets than were asked for.
        notes: where the file is damaged or cut off.
    """

    table: polars.DataFrame
    has_more: bool
    notes: list[str]


def packets(
    *capture: str | PathLike[str],
    most: int = 1000,
    filter: str | None = None,
    begin: float | None = None,
    end: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Packets:
    """Read packets of a capture; nothing is explained.

    Args:
        capture: a pcap or pcapng file, plain or compressed, or the pieces of one capture in their order.
        most: rows at most; the first ones are returned.
        filter: a display filter, as for :func:`whydrop.explain`. Both directions of a connection match it.
        begin: the first time: seconds since the first packet as a float, nanoseconds since the Unix epoch as an int.
        end: the last time.
        progress: as for :func:`whydrop.explain`.

    Raises:
        whydrop.CaptureError: the capture could not be read; the message names the file and the byte offset.
        ValueError: the filter is wrong, or ``most`` is negative.

    >>> import whydrop
    >>> found = whydrop.packets("examples/policed-download.pcap.zst", most=2)
    >>> found.table["frame_number", "flags"].rows(), found.has_more
    ([(1, 'SYN'), (2, 'SYN ACK')], True)
    """
    import polars

    if not capture:
        raise Mistake("no capture given: expected a pcap or pcapng file")
    if most < 0:
        raise Mistake(f"most={most}: expected a number of packets, 0 or more")
    table, has_more, notes = _core.packets(
        [fspath(one) for one in capture], most, progress=progress, filter=filter, span=(begin, end)
    )
    frame = polars.DataFrame(table)
    return Packets(frame.with_columns(_flag_words(frame["flags"])), has_more, notes)


def _flag_words(flags: polars.Series) -> polars.Series:
    import polars

    words = {value: _words(value) for value in flags.unique().drop_nulls()}
    return flags.replace_strict(words, default=None, return_dtype=polars.String)


def _words(flags: int) -> str:
    return " ".join(name for bit, name in enumerate(FLAGS) if flags >> bit & 1)
