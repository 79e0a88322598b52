"""Caps on the cost of a measurement, and what is left of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from whydrop.measure.depth.rounds import Round

DEFAULT_BYTES = 200e6
DEFAULT_S = 60.0


@dataclass(frozen=True)
class Caps:
    """The most that a measurement may cost.

    Attributes:
        max_bytes: sent in the measured direction, as counted at the interface, headers and the talk with the responder
            included.
        max_time_s: from the first connection to the end of the last burst.
        max_rate_bps: of each burst, headers included; ``None``: as fast as the line.
    """

    max_bytes: float = DEFAULT_BYTES
    max_time_s: float = DEFAULT_S
    max_rate_bps: float | None = None


class Budget:
    """The rest of the caps. Nothing may be sent that it was not asked for before.

    >>> budget = Budget(Caps(max_bytes=1e6), now=lambda: 0.0)
    >>> budget.affords(Round(1500, 100, 4, 0.2)), budget.affords(Round(1500, 1000, 4, 0.2))
    (True, False)
    """

    def __init__(self, caps: Caps, now: Callable[[], float] = time.monotonic) -> None:
        self.caps = caps
        self.left_bytes = caps.max_bytes
        self._now = now
        self._end_s = now() + caps.max_time_s

    @property
    def left_s(self) -> float:
        """Seconds until everything must have been sent."""
        return self._end_s - self._now()

    def stretched(self, seconds: float) -> Budget:
        """The same with so much more time."""
        longer = Budget(self.caps, self._now)
        longer.left_bytes, longer._end_s = self.left_bytes, self._end_s + seconds
        return longer

    def affords(self, wanted: Round) -> bool:
        """True if a round fits into what is left."""
        return wanted.cost_bytes <= self.left_bytes and wanted.cost_s <= self.left_s

    def spend(self, wanted: Round) -> None:
        """Take a round out of it, before anything of it is sent.

        Raises:
            ValueError: it does not fit.
        """
        if not self.affords(wanted):
            raise ValueError(f"{wanted} does not fit into the {self.left_bytes:.0f} bytes and {self.left_s:.1f} s left")
        self.left_bytes -= wanted.cost_bytes
