"""How counters grew between two readings, where they fell too.

A counter that fell has either wrapped (its 32 or 64 bits were full) or been reset. RFC 2578 section 7.1.6 gives a
single value no meaning; only differences have one, and only while sysUpTime goes on. Three checks decide, in this
order:

- **sysUpTime** (`elapsed`): after a restart of the agent the growth is not known.
- **line rate**: a wrap would need more octets or frames than the port's speed allows in that time: it was a reset. A
  total of octets that cannot have come from zero in that time was not reset.
- **agreement**: a reset affects all counters of a port. Where several rise at once by more than the port can carry, the
  index belongs to another port now, and so do its other counters.

A growth that stays unknown is null, never a guess and never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from whydrop.monitoring.switches.elapsed import SECOND_NS, Between, Moment, between, moment
from whydrop.monitoring.switches.readings import Counter, Port, Reading
from whydrop.store import tables

if TYPE_CHECKING:
    import polars as pl

    from whydrop.monitoring.switches.pending import LastReading

# The shortest frame on an Ethernet wire: 64 bytes, preamble and gap (IEEE 802.3).
LEAST_FRAME_BITS = 84 * 8
_CARRIED = {"octets", "unicast", "multicast", "broadcast"}
_FRAMES = {"unicast", "multicast", "broadcast", "discards", "errors", "pause"}
# Many switches copy their chips' counters to the agent only every few seconds, so that a short span may hold the growth
# of a longer one.
_LAG_NS = 5 * SECOND_NS
# Of a port of unknown speed; decides only whether 32 bits may have been full more than once.
_ASSUMED_SPEED_BPS = 100_000_000_000
# More than any port carries, LAGs too: a faster growth is no growth. The port's own speed may be an hour old, and real
# growth must not be lost for that.
_IMPOSSIBLE_SPEED_BPS = 10_000_000_000_000
# Of a port of unknown speed; decides by how little a counter may fall without a reset.
_MODEST_SPEED_BPS = 1_000_000_000
_LARGEST_TOTAL = 2**63 - 1


@dataclass(frozen=True)
class _Last:
    """A counter as it was last read."""

    index: int
    oid: str
    total: int
    at: Moment
    ifname: str | None = None  # of its port; None: not known
    doubted: bool = False  # it cannot have grown to this total
    higher: _Last | None = None  # the reading before it fell a little, as counters of some switches do


@dataclass(slots=True, eq=False)
class _Row:
    """A counter as it is read now, and what its row says."""

    port: Port
    counter: Counter
    total: int
    span_ns: int | None = None
    value: int | None = None
    quality: str = "ok"
    believed: bool = True

    @property
    def key(self) -> tuple[str, str | None, str]:
        """Its identity from reading to reading."""
        return self.port.name, self.port.machine, self.counter.name

    def found(self, since: Between, value: int | None, quality: str) -> None:
        """Take the growth and its quality."""
        self.span_ns, self.value = since.span_ns, value
        self.quality = "+".join(part for part in ("gap" if since.gap else "", quality) if part) or "ok"


@dataclass(slots=True, eq=False)
class _Pair(_Row):
    """A counter that was read before."""

    last: _Last = field(kw_only=True)

    @property
    def modulus(self) -> int:
        """The value at which it wraps. An answer of more than 32 bits shows that the counter has more."""
        return 2**32 if self.counter.bits == 32 and max(self.last.total, self.total) < 2**32 else 2**64

    @property
    def growth(self) -> int:
        """The growth, if it wrapped at most once."""
        return (self.total - self.last.total) % self.modulus

    @property
    def fell(self) -> bool:
        """True if its total is smaller than the last one."""
        return self.total < self.last.total


class Counting:
    """Makes samples of the ``counters`` table from readings, in the order in which they were made.

    A counter's first reading gives a row without ``value`` and ``span_ns``: only its ``total`` is known.
    A failed reading gives no rows; the next rows have a longer span and the quality ``gap``.

    Args:
        interval_ns: between polls.
        before: the last reading of each switch by an earlier collector.
    """

    def __init__(self, interval_ns: int, before: Mapping[str, LastReading] | None = None) -> None:
        if interval_ns <= 0:
            raise ValueError(f"the interval between polls must be positive, not {interval_ns} ns")
        self._interval_ns = interval_ns
        self._numbers: dict[str, int] = {}
        self._last: dict[str, dict[tuple[str, str | None, str], _Last]] = {}
        self._before = dict(before or {})

    def samples(self, reading: Reading) -> pl.DataFrame:
        """Rows of the table ``counters``: how each counter grew since it was last read."""
        number = self._numbers[reading.switch] = self._numbers.get(reading.switch, 0) + 1
        now = moment(reading, number)
        if reading.status != "ok" or now is None:
            return _frame(reading, 0, [])
        rows: list[_Row] = []
        last = self._last.get(reading.switch)
        if last is None:
            last = self._last[reading.switch] = self._from_earlier_run(reading)
        # Counters that were last read together are judged together.
        together: dict[tuple[str, str | None, int], tuple[Moment, list[_Pair]]] = {}
        for (port, counter), total in reading.values.items():
            if not 0 <= total < 2**64:
                continue
            row, oid = _Row(port, counter, total), counter.oid + counter.suffix
            before = last.get(row.key)
            last[row.key] = _Last(port.index, oid, total, now, port.ifname)
            if before is not None and before.higher is not None and total >= before.higher.total:
                before = before.higher
            if before is not None and _is_of(before, port, oid):
                row = pair = _Pair(port, counter, total, last=before)
                together.setdefault((port.name, port.machine, before.at.number), (before.at, []))[1].append(pair)
            elif before is not None and not before.at.earlier_run:
                row.found(between(before.at, now, self._interval_ns), None, "reset")
            rows.append(row)
        for at, pairs in together.values():
            since = between(at, now, self._interval_ns)
            if at.earlier_run and since.elapsed_ns is None:
                continue  # It is not proven that they went on: they count as read for the first time.
            for pair in pairs:
                pair.believed = not _went_back_a_little(pair, since)
                if not pair.believed:
                    # As if it had no answer: the next reading gives the growth since the one before.
                    last[pair.key] = replace(last[pair.key], higher=pair.last)
            rest = [pair for pair in pairs if pair.believed]
            anothers = _are_anothers(rest, since)
            for pair, (value, quality) in zip(rest, _judged(rest, since), strict=True):
                pair.found(since, value, quality)
                if not anothers and _leapt(pair, since):
                    last[pair.key] = replace(last[pair.key], doubted=True)
        return _frame(reading, now.at_ns, [row for row in rows if row.believed])

    def _from_earlier_run(self, reading: Reading) -> dict[tuple[str, str | None, str], _Last]:
        """The counters of a switch that this collector reads for the first time."""
        known = self._before.pop(reading.switch, None)
        if known is None or known.asked_at != reading.asked_at:
            return {}
        return {key: _Last(index, oid, total, known.at) for key, (index, oid, total) in known.counters.items()}


def _is_of(before: _Last, port: Port, oid: str) -> bool:
    """True if a counter was last read from the same port, by the same object."""
    renamed = None not in (before.ifname, port.ifname) and before.ifname != port.ifname
    return not renamed and (before.index, before.oid) == (port.index, oid)


def _judged(pairs: Sequence[_Pair], since: Between) -> list[tuple[int | None, str]]:
    """Growth and quality of counters of one port, all of which were last read at the same time."""
    went_on = any(_surely_went_on(pair, since) for pair in pairs)
    # Where one counter of the port surely went on, a restart of the agent did not reset the port's counters.
    if since.restarted and not went_on:
        return [(None, "reset") for _ in pairs]
    if _are_anothers(pairs, since):
        return [(None, "reset") for _ in pairs]
    wraps = since.restarted is False or went_on
    fell = [pair.fell and not (wraps and _may_have_wrapped(pair, since)) for pair in pairs]
    if not went_on and any(_shows_a_reset(pair, since) for pair, one in zip(pairs, fell, strict=True) if one):
        return [(None, "reset") for _ in pairs]
    return [
        (None, "reset") if one or _leapt(pair, since) else _growth(pair, since)
        for pair, one in zip(pairs, fell, strict=True)
    ]


def _growth(pair: _Pair, since: Between) -> tuple[int | None, str]:
    if pair.modulus == 2**32 and _may_have_filled_often(pair, since):
        return None, "wrap"
    return pair.growth, "wrap" if pair.fell else ""


def _surely_went_on(pair: _Pair, since: Between) -> bool:
    """True if it is too large to have come from zero since it was last read.

    Only counters that the port's speed limits can show that: a port may have more frames to send, and discard, than it
    can send.
    """
    if not pair.counter.name.startswith("octets.") or pair.fell:
        return False
    most = _most(pair, since, _LAG_NS)
    return most is not None and pair.growth <= most < pair.total


def _may_have_wrapped(pair: _Pair, since: Between) -> bool:
    """True if the port's speed allows a wrap; at an unknown speed it is not assumed."""
    if pair.last.doubted:
        return False
    most = _most(pair, since, _LAG_NS)
    return most is not None and pair.growth <= most


def _went_back_a_little(pair: _Pair, since: Between) -> bool:
    """True if it fell without a wrap or a reset: it is too large to have come from zero.

    Some switches add up counters from parts that are not read at the same instant; such sums fall by one or two.
    """
    if not pair.fell or since.restarted is not False or pair.last.doubted or pair.last.higher is not None:
        return False
    least = _least_bits(pair.counter)
    from_zero = _most(pair, since, _LAG_NS, pair.port.speed_bps or _IMPOSSIBLE_SPEED_BPS)
    if least is None or from_zero is None or pair.total <= from_zero or _may_have_wrapped(pair, since):
        return False
    little = (pair.port.speed_bps or _MODEST_SPEED_BPS) / least * _LAG_NS / SECOND_NS
    return pair.last.total - pair.total <= little


def _shows_a_reset(pair: _Pair, since: Between) -> bool:
    """True if the fall of a counter shows that all counters of the port were reset.

    A user-defined counter may be a gauge, which may fall at any time. And 32 bits that fell at an unknown speed may
    have wrapped, unless not even sysUpTime shows that the switch went on.
    """
    if _least_bits(pair.counter) is None or pair.last.doubted:
        return False
    return pair.modulus > 2**32 or bool(pair.port.speed_bps) or since.restarted is None


def _leapt(pair: _Pair, since: Between) -> bool:
    """True if it rose by more than any port can count: the total was set, or misread."""
    most = _most(pair, since, _LAG_NS, _IMPOSSIBLE_SPEED_BPS)
    return most is not None and pair.total - pair.last.total > most


def _are_anothers(pairs: Sequence[_Pair], since: Between) -> bool:
    """True if several counters rose by more than the port can carry. A single one may have been set, or misread."""
    rises = [(pair.port, pair.counter, pair.total - pair.last.total) for pair in pairs]
    return sum(is_beyond_line_rate(*rise, since.elapsed_ns) for rise in rises) > 1


def is_beyond_line_rate(port: Port, counter: Counter, rise: int, elapsed_ns: int | None) -> bool:
    """True if a port of its speed cannot carry so much; at an unknown speed, if no port can.

    Discards do not count here: a port may discard more than it can send.
    """
    if counter.name.partition(".")[0] not in _CARRIED or elapsed_ns is None:
        return False
    bits = 8 if counter.name.startswith("octets.") else LEAST_FRAME_BITS
    speed_bps = port.speed_bps or _IMPOSSIBLE_SPEED_BPS
    return rise * bits > speed_bps * (elapsed_ns + _LAG_NS) / SECOND_NS


def _may_have_filled_often(pair: _Pair, since: Between) -> bool:
    most = _most(pair, since, 0, pair.port.speed_bps or _ASSUMED_SPEED_BPS)
    # A counter of unknown rate is trusted in a regular span only.
    return most > 2**32 if most is not None else since.gap or since.elapsed_ns is None


def _most(pair: _Pair, since: Between, more_ns: int, speed_bps: int | None = None) -> float | None:
    """The most that the counter can have grown at the port's speed; ``None`` where that is not known."""
    speed, bits = speed_bps or pair.port.speed_bps, _least_bits(pair.counter)
    if not speed or bits is None or since.elapsed_ns is None:
        return None
    return speed / bits * (since.elapsed_ns + more_ns) / SECOND_NS


def _least_bits(counter: Counter) -> int | None:
    """The least number of bits that pass the port while the counter grows by one; ``None`` where it is not known."""
    words = counter.name.split(".")
    kind = words[2] if words[0] == "queue" and len(words) > 2 else words[0]
    return 8 if kind == "octets" else LEAST_FRAME_BITS if kind in _FRAMES else None


def _frame(reading: Reading, at_ns: int, rows: Sequence[_Row]) -> pl.DataFrame:
    import polars as pl

    count = len(rows)
    columns: dict[str, list[Any]] = {
        "end_ns": [at_ns] * count,
        "span_ns": [row.span_ns for row in rows],
        "metro": [reading.metro] * count,
        "site": [reading.site] * count,
        "switch": [reading.switch] * count,
        "machine": [row.port.machine for row in rows],
        "port": [row.port.name for row in rows],
        "counter": [row.counter.name for row in rows],
        "value": [None if row.value is None else float(row.value) for row in rows],
        "total": [row.total if row.total <= _LARGEST_TOTAL else None for row in rows],
        "poll_start_ns": [reading.start_ns] * count,
        "poll_end_ns": [reading.end_ns] * count,
        "quality": [row.quality for row in rows],
    }
    return pl.DataFrame(columns, schema=tables.COUNTERS)
