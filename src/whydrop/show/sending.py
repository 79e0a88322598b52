"""How the senders of one verdict send, side by side: why one of them loses more than another at the same place."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from whydrop.explaining import bursts
from whydrop.explaining.bursts import FEWEST_PACKETS, Sending
from whydrop.explaining.document import Flow
from whydrop.explaining.explained import Explained
from whydrop.show.document import Column, Columns, Table, known
from whydrop.text import quantities

# Senders are alike if their shares of losses differ by a smaller factor, or if there are fewer losses.
_DIFFERENT = 2.0
_FEWEST_LOST = 10
_MOST = 12
_TITLE = "How each sender sends"
_NOTE = "A burst is a series of packets without a pause of a quarter of the round trip (1 ms at least)."
_DROPS_ENDS = {"policer": "policer with a small bucket", "shallow-queue": "hop with a short queue"}


@dataclass(frozen=True)
class _Row:
    flow: Flow
    lost: float
    sending: Sending


def table(found: Explained) -> Table | None:
    """The bursts of each flow of the first verdict; ``None`` where fewer than two of its flows have losses to compare.

    Args:
        found: with its tables.
    """
    rows = list(_rows(found))
    if len(rows) < 2 or not any(row.lost for row in rows):
        return None
    columns: Columns[_Row] = {
        Column("Flow"): lambda row: row.flow.flow,
        Column("Lost", True, 1): lambda row: f"{quantities.significant(row.lost * 100, 2)} %",
        Column("Packets in a burst", True, 2): lambda row: bursts.many(row.sending.packets_median),
        Column("95 % at most", True, 5): lambda row: bursts.many(row.sending.packets_most),
        Column("Rate in a burst", True, 3): lambda row: known(row.sending.rate_bps, quantities.rate),
        Column("Back to back", True, 4): lambda row: known(row.sending.line_bps, quantities.rate),
        Column("Pause", True, 6): lambda row: known(row.sending.pause_s, quantities.duration),
    }
    return Table.of(
        _TITLE, columns, rows, weight=lambda row: (row.lost, row.flow.payload_bytes), most=_MOST,
        order="those with the largest share of losses are listed first", names="flow",
        notes=[_note(found), *_compared(rows)],
    )  # fmt: skip


def _note(found: Explained) -> str:
    drops = _DROPS_ENDS.get(found.verdicts[0].cause)
    return f"{_NOTE} A {drops} drops the end of a long burst that comes faster than its rate." if drops else _NOTE


def _rows(found: Explained) -> list[_Row]:
    if not found.verdicts or not found.verdicts[0].lost:
        return []
    segments = found.table("segments").sort("time_ns", maintain_order=True)
    wanted = set(found.verdicts[0].flows)
    rows = []
    for number, flow in enumerate(found.flows):
        if flow.flow not in wanted or flow.packets < FEWEST_PACKETS:
            continue
        own = segments.filter(pl.col("flow") == number).with_columns(t=(pl.col("time_ns") - _first(segments)) / 1e9)
        # Behind the losses, bursts are those that the path let through.
        if flow.vantage == "receiver" or bursts.is_behind_losses(own):
            continue
        sending = Sending.of(own, flow.rtt_min_s)
        if sending is not None:
            rows.append(_Row(flow, own.filter(pl.col("fate") == "lost").height / own.height, sending))
    return rows


def _first(segments: pl.DataFrame) -> int:
    first = segments["time_ns"].min()
    return first if isinstance(first, int) else 0


def _compared(rows: list[_Row]) -> list[str]:
    """The flow that loses most beside the one that loses least, where they differ clearly."""
    most, least = max(rows, key=lambda row: row.lost), min(rows, key=lambda row: row.lost)
    too_few = most.lost * most.flow.packets < _FEWEST_LOST
    if too_few or most.lost < _DIFFERENT * least.lost:
        return []
    return [f"{_of(most)}. {_of(least)}."]


def _of(row: _Row) -> str:
    sending = row.sending
    rate = f" at {quantities.rate(sending.rate_bps)}" if sending.rate_bps else ""
    return (
        f"{row.flow.flow} lost {quantities.significant(row.lost * 100, 2)} % and sends bursts of "
        f"{bursts.packets_in_words(sending.packets_median)}{rate}"
    )
