"""Times of intervals that a program prints as seconds from its own start."""

from __future__ import annotations

from whydrop.measure.runners.parsing.base import ns

# Bounds that a program rounds to hundredths of seconds meet all the same.
_ROUNDING_S = 0.011
# Of its length, how much an interval may be longer or shorter than the program said: one part in ten.
_SHIFT_AT_MOST = 10


class Timeline:
    """Places intervals on our clock.

    A line about an interval is printed when it ends, and arrives some time later. The smallest of these delays so
    far gives the best estimate of the program's second 0. Written rows stay: a better estimate shifts the following
    intervals little by little, so that they always meet.

    >>> timeline = Timeline()
    >>> timeline.place(0.0, 0.2, arrived_ns=10_200_000_000)
    (10000000000, 10200000000)
    >>> timeline.place(0.2, 0.4, arrived_ns=10_450_000_000)
    (10200000000, 10400000000)
    """

    def __init__(self, zero_ns: int | None = None) -> None:
        self._known = zero_ns is not None
        self.zero_ns = zero_ns
        self._last: tuple[float, int] | None = None

    def place(self, start_s: float, end_s: float, *, arrived_ns: int) -> tuple[int, int]:
        """Start and end of an interval; where it follows the one before, it begins where that one ended."""
        zero_ns = self.zero_ns
        if not self._known:
            seen_ns = arrived_ns - ns(end_s)
            zero_ns = seen_ns if zero_ns is None else min(zero_ns, seen_ns)
            self.zero_ns = zero_ns
        assert zero_ns is not None
        start_ns, length_ns = zero_ns + ns(start_s), ns(end_s - start_s)
        end_ns = zero_ns + ns(end_s)
        if self._last is not None and abs(self._last[0] - start_s) < _ROUNDING_S:
            start_ns, slack_ns = self._last[1], length_ns // _SHIFT_AT_MOST
            end_ns = min(max(end_ns, start_ns + length_ns - slack_ns), start_ns + length_ns + slack_ns)
        self._last = (end_s, end_ns)
        return start_ns, end_ns
