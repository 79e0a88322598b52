"""CUBIC and its forerunner BIC, which search for the window at which the last loss occurred."""

from __future__ import annotations

from whydrop.explaining.predicting.control.laws.law import INFINITE, JIFFY_NS, Law

_SCALE = 1024


class Cubic(Law):
    """RFC 9438, and HyStart as Linux has it (Ha and Rhee, "Taming the elephants", Computer Networks 55, 2011)."""

    name = "cubic"
    has_hystart = True

    _FACTOR = 717
    _CUBE = (1 << 40) // 410
    _CURVE = 410
    _FRIENDLY = 8 * (_SCALE + _FACTOR) // 3 // (_SCALE - _FACTOR)

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.most = 0
        self.epoch_ns: int | None = None
        self.last_window = 0
        self.last_jiffy = -1
        self.every = 0
        self.origin = 0
        self.depth = 0
        self.least_rtt_us = 0
        self.acks = 0
        self.friendly = 0
        self.hystart = _HyStart()

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if rtt_ns is None or rtt_ns < 0:
            return
        if self.epoch_ns is not None and self.time_ns - self.epoch_ns < 1_000_000_000:
            return
        delay_us = max(1, rtt_ns // 1000)
        if self.least_rtt_us == 0 or self.least_rtt_us > delay_us:
            self.least_rtt_us = delay_us
        if self.has_hystart and self.is_slow_start and self.window >= 16 and not self.hystart.found:
            self.hystart.update(self, delay_us)
            if self.hystart.found:
                self.threshold = self.window

    def grow(self, packets: int) -> None:
        packets = self.slow_start(packets)
        if packets <= 0:
            return
        self._update(packets)
        self.avoid(packets, self.every)

    def _update(self, packets: int) -> None:
        self.acks += packets
        jiffy = self.time_ns // JIFFY_NS
        if self.last_window == self.window and jiffy - self.last_jiffy <= 250 // 32:
            return
        if self.epoch_ns is not None and jiffy == self.last_jiffy:
            self._friendly()
            return
        self.last_window = self.window
        self.last_jiffy = jiffy
        if self.epoch_ns is None:
            self._begin(packets)
        assert self.epoch_ns is not None
        elapsed = (self.time_ns - self.epoch_ns) // JIFFY_NS + -(-self.least_rtt_us // 4000)
        at = (elapsed << 10) // 250
        gap = abs(at - self.depth)
        delta = (self._CURVE * gap * gap * gap) >> 40
        target = self.origin - delta if at < self.depth else self.origin + delta
        self.every = self.window // (target - self.window) if target > self.window else 100 * self.window
        if self.most == 0 and self.every > 20:
            self.every = 20
        self._friendly()

    def _begin(self, packets: int) -> None:
        self.epoch_ns = self.time_ns
        self.acks = packets
        self.friendly = self.window
        if self.most <= self.window:
            self.depth, self.origin = 0, self.window
        else:
            self.depth = round((self._CUBE * (self.most - self.window)) ** (1 / 3))
            self.origin = self.most

    def _friendly(self) -> None:
        step = (self.window * self._FRIENDLY) >> 3
        while step and self.acks > step:
            self.acks -= step
            self.friendly += 1
        if self.friendly > self.window:
            self.every = min(self.every, self.window // (self.friendly - self.window))
        self.every = max(self.every, 2)

    def reduction(self) -> int:
        return max(self.window * self._FACTOR // _SCALE, 2)

    def reduced(self, state: str) -> None:
        self.epoch_ns = None
        if self.window < self.most:
            self.most = self.window * (_SCALE + self._FACTOR) // (2 * _SCALE)
        else:
            self.most = self.window
        if state == "loss":
            self.most = 0
            self.last_window, self.last_jiffy, self.every = 0, -1, 0
            self.least_rtt_us = self.acks = self.friendly = 0
            self.hystart = _HyStart()


class CubicWithoutHyStart(Cubic):
    """CUBIC that leaves slow start at a loss."""

    has_hystart = False


class _HyStart:
    """Leave slow start when round trips lengthen, or acknowledgments come for half of a round trip."""

    def __init__(self) -> None:
        self.found = False
        self.end = -1
        self.began_ns = 0
        self.last_ns = 0
        self.samples = 0
        self.least_us = 0

    def update(self, law: Cubic, delay_us: int) -> None:
        if law.una > self.end:
            self.end, self.began_ns, self.last_ns = law.nxt, law.time_ns, law.time_ns
            self.samples, self.least_us = 0, INFINITE
        if law.time_ns - self.last_ns <= 2_000_000:
            self.last_ns = law.time_ns
            if law.time_ns - self.began_ns > law.least_rtt_us * 500:
                self.found = True
        self.least_us = min(self.least_us, delay_us)
        if self.samples < 8:
            self.samples += 1
        elif self.least_us > law.least_rtt_us + min(max(law.least_rtt_us >> 3, 4000), 16000):
            self.found = True


class Bic(Law):
    """Xu, Harfoush and Rhee, "Binary Increase Congestion Control", INFOCOM 2004: a binary search, 0.8 after a loss."""

    name = "bic"

    _FACTOR = 819
    _LOW_WINDOW = 14
    _MOST_INCREMENT = 16
    _SMOOTH = 20

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self._reset()

    def _reset(self) -> None:
        self.most = 0
        self.every = 0
        self.last_window = 0
        self.last_jiffy = -1
        self.ratio = 2 << 4

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if state == "open" and packets > 0:
            self.ratio += packets - (self.ratio >> 4)

    def grow(self, packets: int) -> None:
        packets = self.slow_start(packets)
        if packets <= 0:
            return
        self._update()
        self.avoid(packets, self.every)

    def _update(self) -> None:
        jiffy = self.time_ns // JIFFY_NS
        if self.last_window == self.window and jiffy - self.last_jiffy <= 250 // 32:
            return
        self.last_window, self.last_jiffy = self.window, jiffy
        if self.window <= self._LOW_WINDOW:
            self.every = self.window
            return
        self.every = self._step()
        if self.most == 0:
            self.every = min(self.every, 20)
        self.every = max(1, (self.every << 4) // self.ratio)

    def _step(self) -> int:
        window = self.window
        if window < self.most:
            distance = (self.most - window) // 4
            if distance > self._MOST_INCREMENT:
                return window // self._MOST_INCREMENT
            return window * self._SMOOTH // 4 if distance <= 1 else window // distance
        if window < self.most + 4:
            return window * self._SMOOTH // 4
        if window < self.most + self._MOST_INCREMENT * 3:
            return window * 3 // (window - self.most)
        return window // self._MOST_INCREMENT

    def reduction(self) -> int:
        if self.window <= self._LOW_WINDOW:
            return max(self.window >> 1, 2)
        return max(self.window * self._FACTOR // _SCALE, 2)

    def reduced(self, state: str) -> None:
        if self.window < self.most:
            self.most = self.window * (_SCALE + self._FACTOR) // (2 * _SCALE)
        else:
            self.most = self.window
        if state == "loss":
            self._reset()
