"""Laws that take delay into account: Vegas, YeAH, Veno, Illinois."""

from __future__ import annotations

from whydrop.explaining.predicting.control.laws.law import INFINITE, Law


class _RoundLaw(Law):
    """Measure the least round-trip time of each round, as Vegas does."""

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.base_us = INFINITE
        self.least_us = INFINITE
        self.samples = 0
        self.end = 0
        self.is_on = True

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        if rtt_ns is None:
            return
        rtt_us = rtt_ns // 1000 + 1
        self.base_us = min(self.base_us, rtt_us)
        self.least_us = min(self.least_us, rtt_us)
        self.samples += 1

    def reduced(self, state: str) -> None:
        self.is_on = False

    def opened(self, state: str) -> None:
        self.is_on = True
        self.end = self.nxt
        self.samples, self.least_us = 0, INFINITE


class Vegas(_RoundLaw):
    """Brakmo and Peterson, "TCP Vegas", JSAC 13(8), 1995: two to four segments in the queue."""

    name = "vegas"

    def grow(self, packets: int) -> None:
        if not self.is_on:
            super().grow(packets)
        elif self.una > self.end:
            self.end = self.nxt
            if self.samples <= 2:
                super().grow(packets)
            else:
                self._adjust(packets)
            self.samples, self.least_us = 0, INFINITE
        elif self.is_slow_start:
            self.slow_start(packets)

    def _adjust(self, packets: int) -> None:
        queued = self.window * (self.least_us - self.base_us) // self.base_us
        if self.is_slow_start and queued > 1:
            self.window = min(self.window, self.window * self.base_us // self.least_us + 1)
            self.threshold = min(self.threshold, self.window)
        elif self.is_slow_start:
            self.slow_start(packets)
        elif queued > 4:
            self.window -= 1
            self.threshold = min(self.threshold, self.window)
        elif queued < 2:
            self.window += 1
        self.window = max(self.window, 2)
        self.threshold = max(self.threshold, (self.window >> 1) + (self.window >> 2))


class Yeah(_RoundLaw):
    """Baiocchi, Castellani and Vacirca, "YeAH-TCP", PFLDnet 2007: Scalable below a queue of 80 segments, else Reno."""

    name = "yeah"

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.queue = 0
        self.reno_rounds = 0
        self.reno_window = 2
        self.fast_rounds = 0

    def grow(self, packets: int) -> None:
        packets = self.slow_start(packets)
        if packets:
            self.avoid(packets, self.window if self.reno_rounds else min(self.window, 100))
        if self.una > self.end:
            if self.samples > 2:
                self._adjust()
            self.end = self.nxt
            self.samples, self.least_us = 0, INFINITE

    def _adjust(self) -> None:
        extra = self.least_us - self.base_us
        queue = self.window * extra // self.least_us
        if queue > 80 or extra > self.base_us // 8:
            if queue > 80 and self.window > self.reno_window:
                self.window = max(self.window - min(queue, self.window >> 1), self.reno_window)
                self.threshold = self.window
            self.reno_window = max(self.window >> 1, 2) if self.reno_window <= 2 else self.reno_window + 1
            self.reno_rounds += 1
        else:
            self.fast_rounds += 1
            if self.fast_rounds > 50:
                self.reno_window, self.fast_rounds = 2, 0
            self.reno_rounds = 0
        self.queue = queue

    def reduction(self) -> int:
        half = max(self.window >> 1, 2)
        taken = max(min(self.queue, half), self.window >> 3) if self.reno_rounds < 16 else half
        return max(self.window - taken, 2)

    def reduced(self, state: str) -> None:
        super().reduced(state)
        self.fast_rounds = 0
        self.reno_window = max(self.reno_window >> 1, 2)


class Veno(_RoundLaw):
    """Fu and Liew, "TCP Veno", JSAC 21(2), 2003: 4/5 after a loss without a queue, half with one."""

    name = "veno"

    _BETA = 6

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.queued = 0
        self.turn = True

    def grow(self, packets: int) -> None:
        if not self.is_on:
            super().grow(packets)
            return
        if self.samples <= 2:
            super().grow(packets)
        else:
            self.queued = (self.window << 1) - ((self.window * self.base_us) << 1) // self.least_us
            packets = self.slow_start(packets)
            if packets:
                self._avoid(packets)
        self.least_us = INFINITE

    def _avoid(self, packets: int) -> None:
        if self.queued < self._BETA:
            self.avoid(packets, self.window)
        elif self.count >= self.window:
            self.window += self.turn
            self.turn = not self.turn
            self.count = 0
        else:
            self.count += packets

    def reduction(self) -> int:
        return max(self.window * 4 // 5 if self.queued < self._BETA else self.window >> 1, 2)

    def opened(self, state: str) -> None:
        self.is_on = True
        self.least_us = INFINITE


class Illinois(Law):
    """Liu, Basar and Srikant, "TCP-Illinois", Performance Evaluation 65, 2008: steps by average queueing delay."""

    name = "illinois"
    host_us = 0

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(segment_bytes)
        self.alpha = 1280
        self.beta = 32
        self.base_us = INFINITE
        self.longest_us = 0
        self.sum_us = self.samples = 0
        self.end = 0
        self.was_above = False
        self.low_rounds = 0
        self.packets = 0

    def acked(self, packets: int, rtt_ns: int | None, flight_bytes: int, state: str) -> None:
        self.packets = packets
        if rtt_ns is None:
            return
        rtt_us = rtt_ns // 1000
        self.base_us = min(self.base_us, rtt_us)
        self.longest_us = max(self.longest_us, rtt_us + self.host_us)
        self.sum_us += rtt_us + self.host_us
        self.samples += 1

    def grow(self, packets: int) -> None:
        if self.una > self.end:
            self._update()
        if self.is_slow_start:
            self.slow_start(packets)
            return
        self.count += self.packets
        self.packets = 1
        delta = (self.count * self.alpha) >> 7
        if delta >= self.window:
            self.window += delta // self.window
            self.count = 0

    def _update(self) -> None:
        if self.window < 15:
            self.alpha, self.beta = 128, 32
        elif self.samples:
            most = self.longest_us - self.base_us
            mean = self.sum_us // self.samples - self.base_us
            self.alpha = self._alpha(mean, most)
            self.beta = self._beta(mean, most)
        self.end = self.nxt
        self.sum_us = self.samples = 0

    def _alpha(self, mean: int, most: int) -> int:
        low = most // 100
        if mean <= low:
            if not self.was_above:
                return 1280
            self.low_rounds += 1
            if self.low_rounds < 5:
                return self.alpha
            self.low_rounds, self.was_above = 0, False
            return 1280
        self.was_above = True
        most -= low
        mean -= low
        return most * 1280 // (most + mean * (1280 - 38) // 38)

    def _beta(self, mean: int, most: int) -> int:
        low, high = most // 10, 8 * most // 10
        if mean <= low:
            return 8
        if mean >= high or high <= low:
            return 32
        return (8 * high - 32 * low + 24 * mean) // (high - low)

    def reduction(self) -> int:
        return max(self.window - ((self.window * self.beta) >> 6), 2)

    def reduced(self, state: str) -> None:
        if state == "loss":
            self.alpha, self.beta = 128, 32
            self.low_rounds, self.was_above = 0, False
            self.end = self.nxt
            self.sum_us = self.samples = 0


class IllinoisOfBusyHost(Illinois):
    """Illinois with round trips longer than the capture shows, as a host measures them that sends in bursts."""

    host_us = 40
