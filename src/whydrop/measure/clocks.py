"""One clock for a whole recording: what was corrected by what was known then is corrected again by what is known now.

While a test runs, times of the far end are brought to this host's clock by the latest estimate of its offset. Later
exchanges of stamps know the offset of earlier times better, and only they know the drift. At the end every delay, and
every time that the far end stamped, is moved by the difference between the offset that it was corrected by and the
offset that all exchanges of the test say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Known:
    """Facts about a far clock at one time; see table ``clocks``."""

    time_ns: int
    offset_ns: int
    uncertainty_ns: int
    drift_ppm: float | None


@dataclass(frozen=True)
class _Correction:
    """Columns that contain the far clock, and at which time its offset was asked for.

    Attributes:
        times: columns; the first of them that is not null counts.
        signs: +1 where the offset was added, -1 where it was taken away.
    """

    times: tuple[str, ...]
    signs: Mapping[str, int]


# By table and direction of the flow.
_CORRECTIONS: dict[tuple[str, str], _Correction] = {
    ("probes", "both"): _Correction(("sent_ns",), {"up_ns": -1, "down_ns": 1}),
    ("intervals", "down"): _Correction(("end_ns",), {"delay_ns": 1}),
    ("intervals", "up"): _Correction(("end_ns",), {"delay_ns": -1, "start_ns": -1, "end_ns": -1}),
    ("tcp_info", "down"): _Correction(("time_ns",), {"time_ns": -1}),
    ("bursts", "down"): _Correction(("received_ns", "sent_ns"), {"sent_ns": -1}),
    ("bursts", "up"): _Correction(("received_ns", "sent_ns"), {"received_ns": -1}),
    ("departures", "down"): _Correction(("left_ns",), {"left_ns": -1}),
}
TABLES = ("probes", "intervals", "tcp_info", "bursts", "departures", "clocks")


class Clocks:
    """By what the rows of one test were corrected, and by what they should be."""

    def __init__(self, flows: Mapping[int, tuple[int, str]]) -> None:
        """``flows``: of each of the engine's flows the number of its far end, and its direction."""
        self._flows = dict(flows)
        self._used: list[dict[int, Known]] = []
        self._counts: dict[str, list[int]] = {table: [] for table in TABLES}

    def note(self, used: Mapping[int, Known], counts: Mapping[str, int]) -> None:
        """Take note of one lot of rows, in the order in which lots are written.

        Args:
            used: of each far end, what the lot was corrected by: in this order stand the first rows of its ``clocks``.
            counts: how many rows of each table it has.
        """
        self._used.append(dict(used))
        for table, of_lots in self._counts.items():
            of_lots.append(counts.get(table, 0))

    def corrected(self, table: str, frame: pl.DataFrame, final: Mapping[int, Sequence[Known]]) -> pl.DataFrame:
        """A whole table by what is known at the end; as it is where rows of it were lost.

        Args:
            final: of each far end, what is known of its clock over the whole test, in order of time.
        """
        if table not in TABLES or not frame.height or sum(self._counts[table]) != frame.height:
            return frame
        if table == "clocks":
            return self._known_at_the_end(frame, final)
        lots = np.repeat(np.arange(len(self._used)), self._counts[table])
        flows = frame["flow"].to_numpy()
        moved: dict[str, _Ints] = {}
        for number, (host, direction) in self._flows.items():
            correction = _CORRECTIONS.get((table, direction))
            rows = np.flatnonzero(flows == number)
            if correction is None or not rows.size or not final.get(host):
                continue
            times_ns = frame.select(pl.coalesce(correction.times).fill_null(0)).to_series().gather(rows).to_numpy()
            change_ns = _offsets(final[host], times_ns) - self._offsets_used(host, lots[rows], times_ns)
            for column, sign in correction.signs.items():
                moved.setdefault(column, np.zeros(frame.height, np.int64))[rows] = sign * change_ns
        return frame.with_columns(pl.col(column) + pl.Series(by_ns) for column, by_ns in moved.items())

    def _offsets_used(self, host: int, lots: _Ints, times_ns: _Ints) -> _Ints:
        """The offsets that rows of these lots were corrected by, as the engine computes them."""
        offsets = np.zeros(len(times_ns), np.int64)
        for lot in np.unique(lots):
            rows = lots == lot
            known = self._used[lot].get(host)
            offsets[rows] = 0 if known is None else _offsets([known], times_ns[rows])
        return offsets

    def _known_at_the_end(self, frame: pl.DataFrame, final: Mapping[int, Sequence[Known]]) -> pl.DataFrame:
        """The rows of table ``clocks``; those of other programs are left."""
        hosts = np.full(frame.height, -1)
        first = 0
        for used, count in zip(self._used, self._counts["clocks"], strict=True):
            hosts[first : first + len(used)] = list(used)
            first += count
        times_ns = frame["time_ns"].to_numpy()
        offsets, uncertainties = frame["offset_ns"].to_numpy().copy(), frame["uncertainty_ns"].to_numpy().copy()
        drifts = frame["drift_ppm"].to_list()
        for host, known in final.items():
            rows = np.flatnonzero(hosts == host)
            if not known or not rows.size:
                continue
            offsets[rows] = _offsets(known, times_ns[rows])
            uncertainties[rows] = np.ceil(
                _between(known, times_ns[rows], np.array([one.uncertainty_ns for one in known], np.float64))
            )
            for row in rows:
                drifts[row] = known[-1].drift_ppm
        return frame.with_columns(
            pl.Series("offset_ns", offsets, pl.Int64),
            pl.Series("uncertainty_ns", uncertainties, pl.Int64),
            pl.Series("drift_ppm", drifts, pl.Float64),
        )


def _offsets(known: Sequence[Known], times_ns: _Ints) -> _Ints:
    """The offsets at these times: straight between what is known, beyond it by the drift, whole numbers towards 0."""
    first, last = known[0], known[-1]
    # Only differences become floats: nanoseconds since 1970 do not fit into one.
    changes = _between(known, times_ns, np.array([one.offset_ns - first.offset_ns for one in known], np.float64))
    before, behind = times_ns < first.time_ns, times_ns > last.time_ns
    changes[before] += (times_ns[before] - first.time_ns) * ((first.drift_ppm or 0.0) * 1e-6)
    changes[behind] += (times_ns[behind] - last.time_ns) * ((last.drift_ppm or 0.0) * 1e-6)
    offsets: _Ints = first.offset_ns + np.trunc(changes).astype(np.int64)
    return offsets


def _between(known: Sequence[Known], times_ns: _Ints, values: _Floats) -> _Floats:
    start_ns = known[0].time_ns
    places = np.array([one.time_ns - start_ns for one in known], np.float64)
    found: _Floats = np.interp((times_ns - start_ns).astype(np.float64), places, values)
    return found
