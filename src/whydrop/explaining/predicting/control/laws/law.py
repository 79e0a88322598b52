"""Base of all laws: slow start and additive increase as Linux counts them (RFC 5681, RFC 3465)."""

from __future__ import annotations

INFINITE = 0x7FFFFFFF

JIFFY_NS = 4_000_000
"""Tick of Linux's distributions (250 Hz), in which some laws count time."""


class Law:
    """A congestion control as a function of acknowledgments.

    ``acked`` is called for each acknowledgment in any state, ``grow`` for those that may raise the window, ``reduced``
    at the start of a reduction, and ``opened`` at its end. Windows are in segments.

    Attributes:
        name: its name in Linux.
        window: the congestion window.
        threshold: the slow-start threshold.
        surprise: nats by which reductions that did not come contradict the law.
    """

    name = "reno"
    initial_window = 10

    def __init__(self, segment_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        self.window = self.initial_window
        self.threshold = INFINITE
        self.count = 0
        self.una = 0
        self.nxt = 0
        self.time_ns = 0
        self.surprise = 0.0

    # Hooks of a law, Reno's by default.

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        """Measure an acknowledgment."""

    def delivered(self, size: int, is_echo: bool) -> None:
        """Count bytes that an acknowledgment reports as arrived; it may report a mark."""

    def grow(self, packets: int) -> None:
        """Raise the window."""
        self.avoid(self.slow_start(packets), self.window)

    def reduction(self) -> int:
        """The window after a loss."""
        return max(self.window >> 1, 2)

    def marked_reduction(self) -> int:
        """The window after a mark."""
        return self.reduction()

    def reduced(self, state: str) -> None:
        """Enter recovery (``recovery``, ``cwr``) or the state after a timeout (``loss``)."""

    def opened(self, state: str) -> None:
        """Return from that state to the open one."""

    def correct(self, window: int) -> None:
        """Set the window to the observed one, which differs by an error of the replay."""
        self.window = window

    def falling(self) -> None:
        """See the first acknowledgment of a reduction without loss and mark."""

    def observed(self, window: int) -> None:
        """See the window in the open state, before it is compared."""

    def free_drop(self, before: int, after: int) -> float | None:
        """Cost of a reduction without loss and mark, in nats; ``None`` if the law has none."""
        del before, after
        return None

    def marked_drop(self, before: int, after: int) -> float | None:
        """Cost of a reduction of its own in which a mark arrived; ``None`` if the law has none."""
        del before, after
        return None

    # Parts of laws.

    @property
    def is_slow_start(self) -> bool:
        """True below the slow-start threshold."""
        return self.window < self.threshold

    def slow_start(self, packets: int) -> int:
        """Grow by a segment for each acknowledged one up to the threshold; return those that remain."""
        if not self.is_slow_start:
            return packets
        window = min(self.window + packets, self.threshold)
        left = packets - (window - self.window)
        self.window = window
        return left

    def avoid(self, packets: int, every: int) -> None:
        """Grow by one segment for ``every`` acknowledged ones."""
        if packets <= 0:
            return
        if self.count >= every:
            self.count = 0
            self.window += 1
        self.count += packets
        if self.count >= every:
            self.window += self.count // every
            self.count %= every


class Reno(Law):
    """RFC 5681, RFC 6582: one segment more in each round trip, half after a loss."""


class Scalable(Law):
    """Kelly, "Scalable TCP", CCR 33(2), 2003: 1 % more in each round trip from 100 segments on, 7/8 after a loss."""

    name = "scalable"

    def grow(self, packets: int) -> None:
        self.avoid(self.slow_start(packets), min(self.window, 100))

    def reduction(self) -> int:
        return max(self.window - (self.window >> 3), 2)


class Dctcp(Law):
    """RFC 8257: reduced by half of the smoothed share of marked segments; by half after a loss."""

    name = "dctcp"

    _MOST = 1024

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.alpha = self._MOST
        self.end = 0
        self.size = self.marked = 0

    def delivered(self, size: int, is_echo: bool) -> None:
        self.size += size
        self.marked += size if is_echo else 0
        if self.una >= self.end:
            self.alpha -= self.alpha >> 4
            self.alpha = min(self._MOST, self.alpha + (self.marked << 6) // max(1, self.size))
            self.size = self.marked = 0
            self.end = self.nxt

    def marked_reduction(self) -> int:
        return max(self.window - ((self.window * self.alpha) >> 11), 2)
