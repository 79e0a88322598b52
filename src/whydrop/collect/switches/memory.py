"""The state of each counter when it was last kept, for the collector that starts next.

A counter goes on while nobody asks for it. A collector that knows what it was before can tell how it grew since, as it
does after polls that were missed, if the switch's clock and ours prove that it is the same counter (`moments`).

Growth must never be counted twice. So a memory is written before the rows that it comes with, never after them: a
crash between the two leaves a time that no row covers, never one that two rows do. And a switch of which the store has
newer rows, by whatever collector, is not remembered.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from whydrop.collect.switches import framing, journal
from whydrop.collect.switches.moments import Moment, moment, same_pace
from whydrop.collect.switches.reading import Reading
from whydrop.runtime import durable

COLLECTING = ".collecting"  # below a store's folder: a folder for each collector
NAME = "last"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_I64, _TEXT = pl.Int64(), pl.String()
_SCHEMA = {
    "port": _TEXT, "machine": _TEXT, "counter": _TEXT, "index": _I64, "oid": _TEXT, "total": pl.UInt64(),
    "switch": _TEXT, "asked_at": _TEXT, "boot": _TEXT,
    "at_ns": _I64, "steady_ns": _I64, "uptime_ns": _I64, "poll_ns": _I64,
}  # fmt: skip
# What is older is of a switch that is not polled any more, or would take long to hold against the store.
MOST_AGE_NS = 24 * journal.HOUR_NS
_PART = re.compile(r"\d\d-.+\.parquet")


@dataclass(frozen=True)
class Remembered:
    """The counters of one switch, as they were last kept.

    Attributes:
        asked_at: address and port of the switch.
        at: when they were read.
        counters: by port, machine and name: the index, the object's identifier, and the total.
    """

    asked_at: str | None
    at: Moment
    counters: dict[tuple[str, str | None, str], tuple[int, str, int]]


def frame_of(reading: Reading) -> pl.DataFrame:
    """The part of a reading that is to be remembered."""
    at = moment(reading, 0)
    if at is None:
        return pl.DataFrame(schema=_SCHEMA)
    values = [(port, counter, total) for (port, counter), total in reading.values.items() if 0 <= total < 2**64]
    columns = {
        "port": [port.name for port, _, _ in values],
        "machine": [port.machine for port, _, _ in values],
        "counter": [counter.name for _, counter, _ in values],
        "index": [port.index for port, _, _ in values],
        "oid": [counter.oid + counter.suffix for _, counter, _ in values],
        "total": [total for _, _, total in values],
    }
    same = {
        "switch": reading.switch, "asked_at": reading.asked_at, "boot": boot(), "at_ns": at.at_ns,
        "steady_ns": at.steady_ns, "uptime_ns": at.uptime_ns, "poll_ns": at.poll_ns,
    }  # fmt: skip
    schema = {name: _SCHEMA[name] for name in columns}
    return pl.DataFrame(columns, schema=schema).with_columns(
        pl.lit(value, dtype=_SCHEMA[name]).alias(name) for name, value in same.items()
    )


def write(folder: Path, latest: Iterable[pl.DataFrame]) -> None:
    """Remember, instead of what was remembered before; where the disk does not take it, nothing.

    Raises:
        OSError: what was remembered before cannot be forgotten.
    """
    path = folder / NAME
    try:
        content = io.BytesIO()
        pl.concat([pl.DataFrame(schema=_SCHEMA), *latest]).write_ipc_stream(content, compression="zstd")
        durable.write_bytes(path, framing.packed(content.getvalue()))
    except BaseException:
        # Whatever it was (the disk, memory, a panic of polars'): without a memory nothing is wrong.
        path.unlink(missing_ok=True)


def read(folder: Path) -> dict[str, pl.DataFrame]:
    """Read what is remembered of each switch; nothing where it is damaged."""
    try:
        content = (folder / NAME).read_bytes()
    except OSError:
        return {}
    found = next(iter(framing.unpacked(content)), (0, ""))[1]
    if isinstance(found, str):
        return {}
    try:
        rows = pl.read_ipc_stream(io.BytesIO(found))
    except (pl.exceptions.PolarsError, OSError, ValueError):
        return {}
    if rows.schema != pl.Schema(_SCHEMA):
        return {}  # of another version
    return {str(switch): part for (switch,), part in rows.partition_by("switch", as_dict=True).items()}


def remembered(frames: Mapping[str, pl.DataFrame], wall_ns: int, steady_ns: int) -> dict[str, Remembered]:
    """Facts about each switch.

    Args:
        frames: as `read` gives them.
        wall_ns: the clock's time now.
        steady_ns: CLOCK_BOOTTIME now: whether it has been going since is part of what is known.
    """
    found = {}
    for switch, frame in frames.items():
        first = frame.row(0, named=True)
        if wall_ns - first["at_ns"] > MOST_AGE_NS:
            continue
        at = Moment(0, first["at_ns"], first["steady_ns"], first["uptime_ns"], first["poll_ns"], earlier_run=True)
        if not _same_boot(first["boot"], at, wall_ns, steady_ns):
            at = replace(at, steady_ns=None)
        counters = {
            (port, machine, counter): (index, oid, total)
            for port, machine, counter, index, oid, total in frame.select(list(_SCHEMA)[:6]).iter_rows()
        }
        found[switch] = Remembered(first["asked_at"], at, counters)
    return found


def newest_kept(store: Path, since_ns: int) -> dict[str, int]:
    """When each switch was last read by any collector of a store, of those that were read since a time.

    Args:
        store: the store's folder.
        since_ns: the time.
    """
    newest: dict[str, int] = {}
    for rows in _kept_since(store, since_ns):
        for switch, end_ns in rows.group_by("switch").agg(pl.col("end_ns").max()).collect().iter_rows():
            newest[switch] = max(newest.get(switch, end_ns), end_ns)
    return newest


@functools.cache
def boot() -> str | None:
    """Which start of this machine it is; ``None`` where it does not say."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return None


def _same_boot(before: str | None, at: Moment, wall_ns: int, steady_ns: int) -> bool:
    """True if CLOCK_BOOTTIME has been going on since."""
    now = boot()
    if before is not None and now is not None:
        return before == now
    # Two clocks that passed the same time since are the same two clocks.
    return at.steady_ns is not None and same_pace(wall_ns - at.at_ns, steady_ns - at.steady_ns)


def _kept_since(store: Path, since_ns: int) -> Iterator[pl.LazyFrame]:
    """Collectors' rows, in their journals and in the store, with all of the hour in which the time is."""
    since_hour = since_ns // journal.HOUR_NS
    for folder in (store / COLLECTING).glob("*/"):
        for one in journal.found_in(folder):
            if one.table == "counters" and one.hour >= since_hour:
                yield one.read()[0].lazy()
    since = time.strftime("day=%Y-%m-%d %H", time.gmtime(since_ns // 1_000_000_000))
    for path in (store / "counters").glob("day=*/*.parquet"):
        # A collector's part has its hour in its name; one that was made of several has not.
        hour = path.name[:2] if _PART.fullmatch(path.name) else "24"
        if f"{path.parent.name} {hour}" >= since:
            yield pl.scan_parquet(path, hive_partitioning=False).filter(pl.col("end_ns") > since_ns)
