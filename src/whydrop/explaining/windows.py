"""The packets of a window of time, with their fates, and how tshark shows the same packets."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from whydrop.explaining.held_segments import held_segments
from whydrop.explaining.packets import packets

if TYPE_CHECKING:
    import polars

    from whydrop.explaining.explained import Explained

# Compressed as tshark does not read it.
_UNPACKED_BY = {".xz": "xz", ".bz2": "bzip2"}


def seen(
    found: Explained,
    path: str,
    begin_ns: int,
    end_ns: int,
    *,
    flows: Sequence[str] = (),
    filter: str | None = None,
    most: int = 500,
) -> tuple[polars.DataFrame, bool]:
    """The packets of a capture in a window of time, with what became of each data packet.

    Args:
        found: the explanation of this capture.
        path: the capture.
        begin_ns: nanoseconds since the Unix epoch.
        end_ns: of the end of the window.
        flows: names of flows: only their connections, both directions; none: all packets.
        filter: a display filter that the packets match, too.
        most: rows.

    Returns:
        The table of :func:`whydrop.packets` with a column ``fate``, which is null where it is not known, and whether
        there are more packets.
    """
    read = packets(path, most=most, filter=filter_of(flows, filter), begin=begin_ns, end=end_ns)
    return _with_fates(read.table, found, begin_ns, end_ns), read.has_more


def crossed(
    found: Explained, begin_ns: int, end_ns: int, *, flows: Sequence[str] = (), lost: bool = False, most: int = 500
) -> tuple[polars.DataFrame, bool]:
    """The packets between the captures of a path in a window of time: when each left, when it arrived, or did not.

    Args:
        found: the explanation of two captures or more.
        begin_ns: nanoseconds since the Unix epoch, by the first capture's clock.
        end_ns: of the end of the window.
        flows: names of flows at one of the captures: only their connections; none: all packets.
        lost: only packets that did not arrive.
        most: rows.

    Returns:
        The rows of the table ``crossings``, and whether there are more. Further columns are ``name`` of their flow,
        ``between``, the numbers of their captures (from 1), and ``frame_number_1`` and ``frame_number_2``, which count
        the packets of each capture from 1, as Wireshark does.
    """
    import polars as pl

    rows = found.table("crossings").filter(pl.col("sent_ns").is_between(begin_ns, end_ns))
    if lost:
        rows = rows.filter(pl.col("crossing") == "lost")
    names = pl.DataFrame(
        [
            {
                "hop": hop,
                "flow": number,
                "name": flow.flow,
                "at_2": flow.flow_at_2 or flow.flow,
                "between": f"{segment.first + 1} and {segment.second + 1}",
            }
            for hop, segment in enumerate(found.path_segments)
            for number, flow in enumerate(segment.flows)
        ],
        schema={"hop": pl.UInt32, "flow": pl.UInt32, "name": pl.String, "at_2": pl.String, "between": pl.String},
    )
    rows = rows.join(names, on=["hop", "flow"], how="left", maintain_order="left")
    if flows:
        both = [name for flow in flows for name in (flow, _reversed(flow))]
        rows = rows.filter(pl.col("name").is_in(both) | pl.col("at_2").is_in(both))
    shown = rows.sort("sent_ns", maintain_order=True).head(most)
    numbers = {f"frame_number_{end}": pl.col(f"number_{end}") + 1 for end in (1, 2)}
    return shown.drop("at_2").with_columns(**numbers), rows.height > most


def filter_of(flows: Sequence[str], further: str | None = None) -> str | None:
    """The display filter of the connections of flows, and of a ``further`` filter; ``None`` of neither.

    Raises:
        ValueError: a name is none of a flow.

    >>> filter_of(["10.0.0.1:4000 > 10.0.0.2:443"])
    'ip.addr == 10.0.0.1 and ip.addr == 10.0.0.2 and tcp.port == 4000 and tcp.port == 443'
    >>> filter_of(["[2001:db8::1]:4000 > [2001:db8::2]:443"])
    'ipv6.addr == 2001:db8::1 and ipv6.addr == 2001:db8::2 and tcp.port == 4000 and tcp.port == 443'
    """
    connections = list(dict.fromkeys(map(_connection, flows)))
    either = connections[0] if len(connections) == 1 else " or ".join(f"({one})" for one in connections)
    return f"({further}) and ({either})" if further and either else further or either or None


def tshark(path: str, begin_ns: int, end_ns: int, flows: Sequence[str] = (), filter: str | None = None) -> str:
    """The command of tshark that lists the packets of a window.

    >>> tshark("a.pcap", 1_500_000_000, 1_600_000_000)
    "tshark -r a.pcap -Y 'frame.time_epoch >= 1.500000000 && frame.time_epoch <= 1.600000000'"
    """
    wanted = filter_of(flows, filter)
    words = f"frame.time_epoch >= {_seconds(begin_ns)} && frame.time_epoch <= {_seconds(end_ns)}"
    shown = f"{words} && ({wanted})" if wanted else words
    unpack = next((tool for suffix, tool in _UNPACKED_BY.items() if path.endswith(suffix)), None)
    if unpack is not None:
        return f"{unpack} -dc {shlex.quote(path)} | tshark -r - -Y {shlex.quote(shown)}"
    return f"tshark -r {shlex.quote(path)} -Y {shlex.quote(shown)}"


def _seconds(nanoseconds: int) -> str:
    whole, part = divmod(nanoseconds, 1_000_000_000)
    return f"{whole}.{part:09d}"


def _ends(flow: str) -> list[tuple[str, str]]:
    """The addresses and ports of a flow's name; nothing where it is no pair of these."""
    ends = [end.rpartition(":") for end in flow.split(" > ")]
    return [(address.strip("[]"), port) for address, _, port in ends if address and port.isdigit()]


def _connection(flow: str) -> str:
    ends = _ends(flow)
    if len(ends) != 2:
        raise ValueError(f"{flow!r} is no flow: expected ADDRESS:PORT > ADDRESS:PORT, as the table of flows has it")
    kind = "ipv6" if ":" in ends[0][0] else "ip"
    # Both directions of a connection give one filter.
    ends.sort()
    parts = [f"{kind}.addr == {address}" for address, _ in ends] + [f"tcp.port == {port}" for _, port in ends]
    return " and ".join(dict.fromkeys(parts))


def _reversed(flow: str) -> str:
    return " > ".join(reversed(flow.split(" > ")))


def _with_fates(table: polars.DataFrame, found: Explained, begin_ns: int, end_ns: int) -> polars.DataFrame:
    """The packets with the fates of the segments in them."""
    import polars as pl

    near = pl.col("time_ns").is_between(begin_ns, end_ns)
    segments = found.table("segments").filter(near).select("flow", "time_ns", "sequence", "fate")
    every, lost = pl.len(), (pl.col("fate") == "lost").sum()
    fate = (
        pl.when(pl.col("fate").n_unique() == 1).then(pl.col("fate").first().cast(pl.String))
        .when(lost > 0).then(pl.format("{} of {} segments lost", lost, every))
    )  # fmt: skip
    fates = held_segments(found, table, segments).group_by("frame_number").agg(fate=fate)
    return table.join(fates, on="frame_number", how="left", maintain_order="left")
