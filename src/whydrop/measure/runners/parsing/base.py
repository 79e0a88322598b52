"""Code shared by all parsers of programs' output."""

from __future__ import annotations

import math
from typing import Any

from whydrop.measure.runners import Rows

NS_PER_S = 1_000_000_000
# Bounds that a program rounds to hundredths of seconds meet all the same.
_ROUNDING_S = 0.011
# Of its length, how much an interval may be longer or shorter than the program said: one part in ten.
_SHIFT_AT_MOST = 10
# Of lines that were not understood, what is kept to show.
_SHOWN_CHARACTERS = 200


class Parser:
    """Reads a program's output line by line as it arrives.

    Nothing that a program may print makes it raise: what it does not understand it counts.

    Attributes:
        rows: what was read and not yet taken.
        facts: what the program said once.
        failure: what the program itself said went wrong.
    """

    def __init__(self, flow: int) -> None:
        self.flow = flow
        self.rows = Rows()
        self.facts: dict[str, Any] = {}
        self.failure: str | None = None
        self._not_understood = 0

    def line(self, text: str, arrived_ns: int, /) -> None:
        """A line of standard output, without its end."""
        raise NotImplementedError

    def error_line(self, text: str, arrived_ns: int, /) -> None:
        """A line of standard error; what a program says there as it ends is kept by the runner anyway."""

    def settle(self, now_ns: int, /) -> None:
        """Time has passed without output."""

    def end(self, now_ns: int, /) -> None:
        """The output has ended, however it ended."""

    def not_understood(self, text: str) -> None:
        """Count a line that should have been data."""
        self._not_understood += 1
        self.facts["lines_not_understood"] = self._not_understood
        self.facts.setdefault("first_line_not_understood", text[:_SHOWN_CHARACTERS])


def read(parser: Parser, text: str, *, arrived_ns: int = 0) -> Parser:
    """The whole output of a program at once, as if every line had arrived at ``arrived_ns``."""
    for line in text.splitlines():
        parser.line(line, arrived_ns)
    parser.end(arrived_ns)
    return parser


def number(text: object) -> float | None:
    """A finite number, also with the decimal comma of some locales; ``None`` for anything else.

    >>> number("0,045"), number("1e3"), number("NaN"), number("12 ms"), number(True)
    (0.045, 1000.0, None, None, None)
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        return None
    try:
        value = float(text.replace(",", ".") if isinstance(text, str) else text)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def whole(value: object) -> int | None:
    """A number rounded to an integer that a column can hold; ``None`` for anything else.

    >>> whole("12"), whole(3.6), whole("x"), whole(1e30)
    (12, 4, None, None)
    """
    exact = value if isinstance(value, int) and not isinstance(value, bool) else None
    if exact is None:
        found = number(value)
        exact = round(found) if found is not None else None
    return exact if exact is not None and abs(exact) < 1 << 63 else None


def ns(seconds: float) -> int:
    """Seconds as nanoseconds.

    >>> ns(0.2)
    200000000
    """
    return round(seconds * NS_PER_S)


def epoch_ns(text: str) -> int | None:
    """A decimal number of seconds since the epoch, to the nanosecond (a float would lose a quarter microsecond).

    >>> epoch_ns("1795316700.978413"), epoch_ns("1795316703.2"), epoch_ns("x")
    (1795316700978413000, 1795316703200000000, None)
    """
    seconds, _, fraction = text.partition(".")
    if not seconds.isascii() or not seconds.isdigit() or (fraction and not (fraction.isascii() and fraction.isdigit())):
        return None
    return whole(int(seconds[:19]) * NS_PER_S + int((fraction + "0" * 9)[:9]))


def stamped_ns(stamp: str | None, arrived_ns: int) -> int:
    """The time that a program stamped, unless it has none or is wildly off ours: then lines were garbled."""
    found = epoch_ns(stamp) if stamp else None
    return found if found is not None and abs(found - arrived_ns) < 60 * NS_PER_S else arrived_ns


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
