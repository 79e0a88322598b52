"""Segments of a path as text and table: where the load's delay, and loss, arise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whydrop.recording.metrics.segments import NEGLIGIBLE_MS, Interval, Segment, Segments
from whydrop.show.document import Column, Columns, Table
from whydrop.text import quantities
from whydrop.text.phrases import capital

# A part below this is not worth a word.
_MAINLY_FROM_MS = 0.5


def sentences(found: Sequence[Segments]) -> Iterator[str]:
    """The answer for each far end, delay before loss."""
    for one in found:
        of = f" to {one.far_end}" if len(found) > 1 else ""
        if one.near is None or one.beyond is None or one.whole is None:
            yield f"Where delay and loss{of} arise is unknown: {one.delay_reason}."
            continue
        yield _delay(one, of, one.near, one.beyond, one.whole)
        yield from _loss(one, of, one.near, one.beyond, one.whole)
        if one.is_next_hop is False:
            yield f"{one.access_point} is not the next hop to {one.far_end}: whether packets pass it was not checked."


def _delay(one: Segments, of: str, near: Segment, beyond: Segment, whole: Segment) -> str:
    added = _ms(whole.added_ms)
    if one.delay == "none":
        if whole.added_ms.high < -_MAINLY_FROM_MS:
            return f"The load{of} adds no delay: round trips were {added} on average."
        return f"The load{of} adds little delay: at most {_tenths(max(whole.added_ms.high, 0.1))} ms on average."
    parts = f"{_ms(near.added_ms)} between this host and {one.access_point}, {_ms(beyond.added_ms)} beyond it"
    sums = f"{added} added on average: {parts}"
    if one.delay == "unknown":
        return f"Where the load's delay{of} arises is unknown: {one.delay_reason}. {capital(sums)}."
    other = {"near": beyond, "beyond": near}.get(one.delay)
    mainly = "mainly " if other is not None and other.added_ms.low > _MAINLY_FROM_MS else ""
    condition = f", {one.delay_reason}" if one.delay_reason else ""
    return f"The load's delay{of} arises {mainly}{_place(one.delay, one.access_point)}{condition}. {capital(sums)}."


def _loss(one: Segments, of: str, near: Segment, beyond: Segment, whole: Segment) -> Iterator[str]:
    if one.loss == "none":
        return
    lost = f"{_percent(whole.lost_percent)} of the probes were lost"
    if one.loss == "unknown":
        if whole.lost_percent.value > 0:
            yield f"Where the loss{of} arises is unknown: {one.loss_reason}. {capital(lost)}."
        return
    parts = f"{_percent(near.lost_percent)} before {one.access_point}, {_percent(beyond.lost_percent)} beyond it"
    condition = f", {one.loss_reason}" if one.loss_reason else ""
    yield f"The loss{of} arises {_place(one.loss, one.access_point)}{condition}. {capital(lost)}: {parts}."


def _place(where: str, access_point: str) -> str:
    if where == "near":
        return f"between this host and the access point {access_point}"
    if where == "beyond":
        return f"beyond the access point {access_point}"
    return f"on both sides of the access point {access_point}"


def _ms(found: Interval) -> str:
    """A delay; of one that may be none, the most that it may be."""
    if found.high < 0:
        return f"{_tenths(-found.value)} ms less"
    if found.low <= 0:
        return f"at most {_tenths(max(found.high, 0.1))} ms"
    return f"{_tenths(found.value)} ms" if found.value >= 0.1 else "less than 0.1 ms"


def _tenths(value: float) -> str:
    # Without a sign where nothing but the sign is left.
    return f"{round(value, 1) or 0.0:.1f}".replace("-", quantities.MINUS)


def _percent(found: Interval) -> str:
    return f"{_tenths(found.value)} %"


def table(found: Sequence[Segments]) -> Table:
    """Round trips and loss of both segments and the whole path, one row each."""
    rows = [
        (name, part)
        for one in found
        for name, part in (
            (f"This host to {one.access_point}", one.near),
            (f"{one.access_point} to {one.far_end}", one.beyond),
            (f"This host to {one.far_end}", one.whole),
        )
        if part is not None
    ]
    columns: Columns[tuple[str, Segment]] = {
        Column("Segment"): lambda row: row[0],
        Column("Idle (ms)", True, 2): lambda row: _tenths(row[1].idle_ms),
        Column("Under load (ms)", True, 3): lambda row: _tenths(row[1].loaded_ms),
        Column("Added (ms)", True): lambda row: _tenths(row[1].added_ms.value),
        Column("95 % interval", True, 1): lambda row: quantities.interval(
            _tenths, row[1].added_ms.low, row[1].added_ms.high
        ),
        Column("Lost", True): lambda row: _percent(row[1].lost_percent),
    }
    pairs = ", ".join(quantities.count(one.pairs) for one in found)
    notes = [
        f"Means of {pairs} pairs of probes under load; loss is of the whole test. Less than {NEGLIGIBLE_MS:g} ms, or "
        "a tenth, counts as nothing."
    ]
    return Table.of("Segments", columns, rows, notes=notes)
