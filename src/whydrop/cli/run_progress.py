"""The display of a running test on the terminal: how far it is, and its present rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whydrop.cli import ending, progress
from whydrop.measure.plan import Plan

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress


class Watcher:
    """Takes the reports of a run, and shows them on a terminal."""

    def __init__(self, plan: Plan, display: Progress | None) -> None:
        self._progress = display
        self._direction = {number: flow.direction for number, flow in enumerate(plan.flows)}
        self._kind = {number: flow.kind for number, flow in enumerate(plan.flows)}
        if display is not None:
            self._task = display.add_task(ending.printable(plan.test), total=plan.total_s, state="")

    def say(self, what: str) -> None:
        """Show the current step."""
        if self._progress is not None:
            self._progress.update(self._task, state=ending.printable(what))

    def tick(self, elapsed_s: float, total_s: float, frames: Mapping[str, pl.DataFrame]) -> None:
        """Show the time, and the rows measured since the last call."""
        if self._progress is not None:
            state = self.state(frames)
            self._progress.update(self._task, completed=max(0.0, min(elapsed_s, total_s)), total=total_s)
            if state:
                self._progress.update(self._task, state=state)

    def state(self, frames: Mapping[str, pl.DataFrame]) -> str:
        """The goodput in each direction, the latest round trips and losses, in a few words."""
        parts = []
        for direction, arrow in (("down", "↓"), ("up", "↑")):
            goodput_bps = self._goodput_bps(frames, direction)
            if goodput_bps is not None:
                from whydrop.text import quantities

                parts.append(f"{arrow} {quantities.rate(goodput_bps)}")
        probes = frames.get("probes")
        if probes is not None and probes.height:
            rtt_ns = probes["rtt_ns"].median()
            if isinstance(rtt_ns, int | float):
                parts.append(f"RTT {rtt_ns / 1e6:.1f} ms")
            lost = probes["fate"].str.starts_with("lost").sum()
            if lost:
                parts.append(f"{lost} of {probes.height} probes lost")
        return "  ".join(parts)

    def _goodput_bps(self, frames: Mapping[str, pl.DataFrame], direction: str) -> float | None:
        intervals = frames.get("intervals")
        if intervals is None or not intervals.height:
            return None
        flows = [number for number, own in self._direction.items() if own == direction]
        ours = intervals.filter(intervals["flow"].is_in(flows))
        if not ours.height:
            return None
        span_ns = int(ours["end_ns"].max()) - int(ours["start_ns"].min())  # type: ignore[arg-type]
        return float(ours["payload_bytes"].sum()) * 8e9 / span_ns if span_ns > 0 else None


@contextmanager
def watching(plan: Plan, *, quiet: bool) -> Iterator[Watcher]:
    """A watcher that leaves the terminal as it was."""
    with progress.bars("text", "bar", "left", "state", bar_width=20, quiet=quiet) as display:
        yield Watcher(plan, display)
