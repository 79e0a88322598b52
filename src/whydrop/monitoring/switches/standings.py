"""The state of the switches: which answer, since when others do not, and how punctual the polls are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from whydrop.monitoring.switches.readings import Reading
from whydrop.text import quantities

# Polls of a hundred switches every ten seconds, for three hours.
_REMEMBERED = 100_000
# A switch that answers now and then would flood the log: it gets this many lines within this time.
MOST_LINES = 8
LINES_WITHIN_NS = 600_000_000_000


@dataclass
class _Standing:
    status: str | None = None
    message: str | None = None
    since_ns: int = 0  # tick
    polls: int = 0  # since the state began
    # Of the period for which lines are counted:
    began_ns: int = 0
    lines: int = 0
    omitted: int = 0
    polled: int = 0
    failed: int = 0


@dataclass
class Standings:
    """The state of all switches, for the operator.

    Attributes:
        counts: polls by status.
        lateness_ns: of the last polls: the time from the tick to the start.
    """

    counts: dict[str, int] = field(default_factory=dict)
    lateness_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _switches: dict[str, _Standing] = field(default_factory=dict)
    _worst_of_tick: dict[int, int] = field(default_factory=dict)

    def expect(self, names: Iterable[str]) -> None:
        """Name the switches, so that those that never answer count too."""
        for name in names:
            self._switches.setdefault(name, _Standing())

    def take(self, reading: Reading) -> str | None:
        """Take a reading; return a line if the state of its switch changed.

        A switch that changes often gets a few lines, and then one in ten minutes.
        """
        self.counts[reading.status] = self.counts.get(reading.status, 0) + 1
        if reading.start_ns is not None:
            late = max(0, reading.start_ns - reading.due_ns)
            self.lateness_ns.append(late)
            worst = max(self._worst_of_tick.get(reading.due_ns, 0), late)
            self._worst_of_tick = {reading.due_ns: worst}
        now = self._switches.setdefault(reading.switch, _Standing())
        now.polls += 1
        # The message of a failing switch may differ from poll to poll; its state does not.
        said = reading.message if reading.status == "ok" else None
        if (now.status, now.message) == (reading.status, said):
            return _rationed(now, reading, None)
        before = _Standing(now.status, now.message, now.since_ns, now.polls - 1)
        now.status, now.message, now.since_ns, now.polls = reading.status, said, reading.due_ns, 1
        return _rationed(now, reading, _line(reading, before))

    @property
    def answering(self) -> int:
        """The number of switches with a successful last poll."""
        return sum(one.status == "ok" for one in self._switches.values())

    @property
    def failing(self) -> list[str]:
        """Names of the switches with a failed last poll."""
        return sorted(name for name, one in self._switches.items() if one.status not in (None, "ok"))

    def worst_lateness_ns(self) -> int | None:
        """The largest lateness of the last tick's polls."""
        return next(iter(self._worst_of_tick.values()), None)

    def quantile_ns(self, share: float) -> int | None:
        """The lateness that this share of the last polls does not exceed."""
        if not self.lateness_ns:
            return None
        ranked = sorted(self.lateness_ns)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def _rationed(of: _Standing, reading: Reading, line: str | None) -> str | None:
    """The line, unless there were many of this switch in the last minutes."""
    summary = None
    if not 0 <= reading.due_ns - of.began_ns < LINES_WITHIN_NS:
        if of.omitted:
            message = f": {reading.message}" if reading.message else ""
            omitted, failed = quantities.count(of.omitted), quantities.count(of.failed)
            summary = (
                f"{reading.switch}: changed {omitted} more times, {failed} of {quantities.plural(of.polled, 'poll')} "
                f"failed; now {reading.status}{message}"
            )
        of.began_ns, of.lines, of.omitted, of.polled, of.failed = reading.due_ns, 0, 0, 0, 0
    of.polled += 1
    of.failed += reading.status != "ok"
    line = summary or line
    if line is None:
        return None
    of.lines += 1
    if of.lines > MOST_LINES:
        of.omitted += 1
        return None
    return f"{line}; it changes often: its next line comes within 10 min" if of.lines == MOST_LINES else line


def _line(reading: Reading, before: _Standing) -> str:
    message = f": {reading.message}" if reading.message else ""
    if reading.status != "ok":
        return f"{reading.switch}: {reading.status}{message}"
    if before.status is None:
        return f"{reading.switch}: answers with {quantities.plural(len(reading.values), 'counter')}{message}"
    if before.status == "ok":
        return f"{reading.switch}: {reading.message or 'all counters are answered again'}"
    return f"{reading.switch}: answers again; {quantities.plural(before.polls, 'poll')} failed{message}"
