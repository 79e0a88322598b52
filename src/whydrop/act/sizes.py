"""Figures of what a path carries with packets of two sizes, and their words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from whydrop.text import quantities

# Two runs over one path differ by so much anyway.
_NOISE = 0.1
# A smaller share is said as none.
_LEAST_SHARE = 0.0005


@dataclass(frozen=True)
class Size:
    """A size of packets, and what came of it.

    Attributes:
        mtu_bytes: of the path.
        goodput_bps: the mean of the runs.
        retransmitted: share of the segments; NaN where it is not known.
    """

    mtu_bytes: int
    goodput_bps: float
    retransmitted: float

    @property
    def words(self) -> str:
        """Both figures, such as ``1.20 Mbit/s at an MTU of 9 000 B (2.1 % retransmitted)``."""
        words = f"{quantities.rate(self.goodput_bps)} at an MTU of {quantities.exact_size(self.mtu_bytes)}"
        if math.isnan(self.retransmitted):
            return words
        share = "nothing" if self.retransmitted < _LEAST_SHARE else quantities.percent(self.retransmitted)
        return f"{words} ({share} retransmitted)"


@dataclass(frozen=True)
class Sizes:
    """Goodput of a path with large and with usual packets, without pacing."""

    large: Size
    usual: Size

    @property
    def prefers_usual(self) -> bool:
        """True if it carries more with packets of usual size, by more than runs differ anyway."""
        return self.usual.goodput_bps > self.large.goodput_bps * (1 + _NOISE)

    @property
    def words(self) -> str:
        """The better one, with both figures."""
        if self.prefers_usual:
            return f"large packets harm this path: it carries {self.usual.words}, but {self.large.words}"
        if self.large.goodput_bps > self.usual.goodput_bps * (1 + _NOISE):
            return f"large packets help on this path: it carries {self.large.words}, and {self.usual.words}"
        return f"the size of packets makes no difference: {self.large.words}, {self.usual.words}"

    def as_json(self) -> dict[str, Any]:
        """For the document of pacing."""
        return {
            "words": self.words,
            "prefers": "usual" if self.prefers_usual else "large or no difference",
            "sizes": [
                {"mtu_bytes": one.mtu_bytes, "goodput_bps": one.goodput_bps, "sent_again": one.retransmitted}
                for one in (self.large, self.usual)
            ],
        }
