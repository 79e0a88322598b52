"""Bytes of several streams, counted at times of their own, as intervals of one grid."""

from __future__ import annotations

from collections.abc import Iterator

# The rest of a test that is shorter than this share of an interval has no rate.
_SHORTEST = 0.1


class Grid:
    """Sums of streams in even intervals, by straight lines between the counts of each.

    >>> grid = Grid(streams=2, start_ns=0, interval_ns=100)
    >>> for time, count in ((50, 10), (150, 30), (250, 50)):
    ...     grid.count(0, time, count)
    >>> list(grid.whole())
    []
    >>> grid.count(1, 200, 100)
    >>> list(grid.whole())
    [(0, 100, 70.0), (100, 200, 70.0)]
    """

    def __init__(self, streams: int, start_ns: int, interval_ns: int) -> None:
        self._points: list[list[tuple[int, float]]] = [[(start_ns, 0.0)] for _ in range(streams)]
        self._over = [False] * streams
        self._from_ns, self._interval_ns = start_ns, interval_ns

    def count(self, stream: int, time_ns: int, total_bytes: float) -> None:
        """Note the bytes of a stream so far; earlier and smaller counts than those before are ignored."""
        last_ns, last = self._points[stream][-1]
        if time_ns > last_ns and total_bytes >= last:
            self._points[stream].append((time_ns, total_bytes))

    def end(self, stream: int) -> None:
        """Note that a stream is over."""
        self._over[stream] = True

    @property
    def total_bytes(self) -> float:
        """The bytes of all streams."""
        return sum(points[-1][1] for points in self._points)

    def whole(self) -> Iterator[tuple[int, int, float]]:
        """Start, end and bytes of each further interval that all streams have passed."""
        while True:
            to_ns = self._from_ns + self._interval_ns
            waited = [points[-1][0] for points, over in zip(self._points, self._over, strict=True) if not over]
            if (waited and min(waited) < to_ns) or max(points[-1][0] for points in self._points) < to_ns:
                return
            yield self._interval(to_ns)

    def rest(self) -> Iterator[tuple[int, int, float]]:
        """The remaining intervals when all streams are over; the last one may be shorter."""
        self._over = [True] * len(self._over)
        yield from self.whole()
        last_ns = max(points[-1][0] for points in self._points)
        if last_ns - self._from_ns >= _SHORTEST * self._interval_ns:
            yield self._interval(last_ns)

    def _interval(self, to_ns: int) -> tuple[int, int, float]:
        start_ns, self._from_ns = self._from_ns, to_ns
        moved = sum(_at(points, to_ns) - _at(points, start_ns) for points in self._points)
        for points in self._points:
            while len(points) > 1 and points[1][0] <= to_ns:
                points.pop(0)
        return start_ns, to_ns, moved


def _at(points: list[tuple[int, float]], time_ns: int) -> float:
    """The count at a time between two points."""
    before = points[0]
    for after in points[1:]:
        if after[0] >= time_ns:
            share = (time_ns - before[0]) / (after[0] - before[0])
            return before[1] + max(share, 0.0) * (after[1] - before[1])
        before = after
    return before[1]
