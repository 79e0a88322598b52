"""Laws that scale growth or reduction by round-trip time or bandwidth: Hybla, H-TCP, Westwood+."""

from __future__ import annotations

from whydrop.explaining.predicting.control.laws.law import JIFFY_NS, Law

_HZ = 1_000_000_000 // JIFFY_NS
# A capture shows round-trip times with an error of about this size.
_ERROR_NS = 100_000


def _ticks(rtt_ns: int) -> int:
    """A round-trip time in ticks, rounded up."""
    return -(-rtt_ns // JIFFY_NS)


class Hybla(Law):
    """Caini and Firrincieli, "TCP Hybla", Int. J. Satellite Communications 22, 2004: growth as at 25 ms."""

    name = "hybla"
    initial_window = 2

    _REFERENCE_US = 25_000
    _EIGHTHS = (128, 139, 152, 165, 181, 197, 215, 234)

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.smoothed_us = 0
        self.least_us = 0
        self.rho8 = 0
        self.cents = 0

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if rtt_ns is None:
            return
        rtt_us = rtt_ns // 1000
        self.smoothed_us = self.smoothed_us + rtt_us - (self.smoothed_us >> 3) if self.smoothed_us else rtt_us << 3

    def grow(self, packets: int) -> None:
        if not self.rho8 or self.smoothed_us < self.least_us:
            self.rho8 = max(self.smoothed_us // self._REFERENCE_US, 8)
            self.least_us = self.smoothed_us
        is_slow_start = self.is_slow_start
        if is_slow_start:
            increment = (1 << min(self.rho8 >> 3, 16)) * self._EIGHTHS[self.rho8 & 7] - 128
        else:
            increment = ((self.rho8 * self.rho8) << 1) // max(1, self.window)
        self.window += increment >> 7
        self.cents += increment % 128
        if self.cents >= 128:
            self.window += 1
            self.cents -= 128
        if is_slow_start:
            self.window = min(self.window, self.threshold)


class Htcp(Law):
    """Leith and Shorten, "H-TCP", PFLDnet 2004: growth by the time since a loss, reduction by the ratio of RTTs."""

    name = "htcp"
    error_ns = 0

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.alpha = 128
        self.beta = 64
        self.is_adaptive = False
        self.packets = 1
        self.least = self.longest = 0
        self.congested = 0
        self.counted = 0
        self.counted_since = 0
        self.least_b = self.most_b = self.old_b = self.b = 0

    @property
    def jiffies(self) -> int:
        return self.time_ns // JIFFY_NS

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if state == "open":
            self.packets = packets
        if rtt_ns is not None:
            self._measure(_ticks(rtt_ns - self.error_ns), state)
        if state != "open":
            self.counted = 0
            self.counted_since = self.jiffies
            return
        self.counted += packets
        self._throughput()

    def _measure(self, rtt: int, state: str) -> None:
        if not self.least or self.least > rtt:
            self.least = rtt
        if state == "open":
            self.longest = max(self.longest, self.least)
            if self.longest < rtt <= self.longest + 5:
                self.longest = rtt

    def _throughput(self) -> None:
        elapsed = self.jiffies - self.counted_since
        if not self.least or elapsed < self.least or self.counted < self.window - ((self.alpha >> 7) or 1):
            return
        now = self.counted * _HZ // max(1, elapsed)
        if (self.jiffies - self.congested) // self.least <= 3:
            self.least_b = self.most_b = self.b = now
        else:
            self.b = (3 * self.b + now) // 4
            self.most_b = max(self.most_b, self.b)
            self.least_b = min(self.least_b, self.most_b)
        self.counted = 0
        self.counted_since = self.jiffies

    def grow(self, packets: int) -> None:
        if self.is_slow_start:
            self.slow_start(packets)
            return
        if (self.count * self.alpha) >> 7 >= self.window:
            self.window += 1
            self.count = 0
            self._alpha()
        else:
            self.count += self.packets
        self.packets = 1

    def _alpha(self) -> None:
        since = self.jiffies - self.congested
        factor = 1
        if since > _HZ:
            since -= _HZ
            factor = 1 + (10 * since + ((since // 2) * (since // 2) // _HZ)) // _HZ
        if self.least:
            scale = min(max((_HZ << 3) // (10 * self.least), 4), 80)
            factor = max(1, (factor << 3) // scale)
        self.alpha = (2 * factor * (128 - self.beta)) or 128

    def reduction(self) -> int:
        beta, _ = self._beta()
        return max((self.window * beta) >> 7, 2)

    def _beta(self) -> tuple[int, bool]:
        if not 4 * self.old_b <= 5 * self.most_b <= 6 * self.old_b:
            return 64, False
        if self.is_adaptive and self.least > 2 and self.longest:
            return min(max((self.least << 7) // self.longest, 64), 102), True
        return 64, True

    def reduced(self, state: str) -> None:
        self.beta, self.is_adaptive = self._beta()
        self.old_b = self.most_b
        self._alpha()
        if self.longest > self.least > 0:
            self.longest = self.least + (self.longest - self.least) * 95 // 100
        self.congested = self.jiffies

    def opened(self, state: str) -> None:
        self.congested = self.jiffies


class HtcpRoundedDown(Htcp):
    """H-TCP where the round-trip time is just above a number of ticks, and the sender saw less."""

    error_ns = _ERROR_NS


class Westwood(Law):
    """Mascolo et al., "TCP Westwood", MobiCom 2001 (and Westwood+): after a loss, bandwidth by the least RTT.

    The host that opens a connection counts its first acknowledgment as a segment, so its estimate begins near nothing.
    """

    name = "westwood"
    error_ns = 0
    has_opened = True

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.rtt = self.least = 20 * _HZ
        self.size = 0
        self.since = 0
        self.raw = self.estimate = 0
        self.is_reset = False
        self.has_begun = False

    def delivered(self, size: int, is_echo: bool) -> None:
        now = self.time_ns // JIFFY_NS
        if not self.has_begun:
            self.size = self.segment_bytes if self.has_opened else 0
            return
        elapsed = now - self.since
        if elapsed > max(self.rtt, _HZ // 20):
            sample = self.size // elapsed
            if self.raw == 0 and self.estimate == 0:
                self.raw = self.estimate = sample
            else:
                self.raw = (7 * self.raw + sample) >> 3
                self.estimate = (7 * self.estimate + self.raw) >> 3
            self.size = 0
            self.since = now
        self.size += size
        if self.is_reset:
            self.least = self.rtt
            self.is_reset = False
        else:
            self.least = min(self.rtt, self.least)

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if rtt_ns is not None and rtt_ns > 0:
            self.rtt = _ticks(rtt_ns - self.error_ns)
        if not self.has_begun:
            # Linux counts from the handshake, about when the first data are sent.
            self.has_begun = True
            self.since = (self.time_ns - (rtt_ns or 0)) // JIFFY_NS

    def reduction(self) -> int:
        return max(self.estimate * self.least // self.segment_bytes, 2)

    def reduced(self, state: str) -> None:
        self.is_reset = state == "loss"


class WestwoodRoundedDown(Westwood):
    """Westwood+ where the round-trip time is just above a number of ticks, and the sender saw less."""

    error_ns = _ERROR_NS


class WestwoodOfServer(Westwood):
    """Westwood+ of the host that accepts a connection."""

    has_opened = False


class WestwoodOfServerRoundedDown(WestwoodOfServer, WestwoodRoundedDown):
    """The same where the round-trip time is just above a number of ticks."""
