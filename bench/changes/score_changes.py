#!/usr/bin/env python
"""How well `whydrop predict` says what changes bring, over the recordings of bench/changes/record_changes.py.

    python bench/changes/score_changes.py fresh /tmp/changes
    python bench/changes/score_changes.py fresh /tmp/changes --at sender

Prints one line a change: goodput, loss rate and 95th percentile of the queueing delay as recorded before it, as
predicted and as recorded after it; then the errors of all, the signs of gains of goodput, and the share of 90 %
intervals that contain what was recorded after the change.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import whydrop
from whydrop.explaining.predicting.prediction import Value
from whydrop.explaining.predicting.recorded import Quantities, quantities

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from scenarios import SETS, file_name  # noqa: E402

# Smaller losses and delays have no relative error that means anything.
LEAST = {"goodput_bps": 1.0, "loss_rate": 0.001, "delay_p95_s": 0.001}
NAMES = {"goodput_bps": "goodput", "loss_rate": "loss rate", "delay_p95_s": "p95 delay"}
POINTS = {"both": "by", "sender": "b"}
CLEAR_GAIN = 0.05


@dataclass(frozen=True)
class Checked:
    """A prediction and what was recorded after the change was made."""

    scenario: str
    change: str
    said: whydrop.Prediction
    after: Quantities

    def values(self, name: str) -> tuple[float, Value, float] | None:
        """A quantity before the change, as predicted, and after it; ``None`` where one is not known."""
        before, said, after = (getattr(one, name) for one in (self.said.recorded, self.said, self.after))
        return None if None in (before, said, after) else (before, said, after)


def main() -> int:
    """Score the recordings of a folder; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path, help="where record_changes.py has put its captures")
    parser.add_argument("--at", choices=POINTS, default="both", help="the ends that predictions see (default: both)")
    parser.add_argument("--only", default="", help="only scenarios that begin with this")
    given = parser.parse_args()
    checked, refused = [], 0
    for one in predictions(given.set, given.folder, POINTS[given.at], given.only):
        print(line(one), flush=True)
        refused += one.said.refusal is not None
        checked += [one] * (one.said.refusal is None)
    print(f"{len(checked)} predicted, {refused} refused")
    summary(checked)
    return 0 if checked else 1


def predictions(which: str, folder: Path, points: str, only: str) -> Iterator[Checked]:
    """Each change that was recorded."""
    for scenario, changes in SETS[which][1].items():
        for change in changes if scenario.startswith(only) else ():
            before, after = folder / scenario, folder / file_name(scenario, change)
            if (before / "truth.json").exists() and (after / "truth.json").exists():
                said = whydrop.predict(*captures(before, points), changes=[change])
                yield Checked(scenario, change, said, quantities(whydrop.explain(*captures(after, points))))


def captures(folder: Path, points: str) -> list[str]:
    """The captures of one recording."""
    return [str(folder / f"{point}.pcap.zst") for point in points]


def line(one: Checked) -> str:
    """One change: for each quantity before > predicted [interval] ~ after."""
    cells = []
    for name, scale in (("goodput_bps", 1e-6), ("loss_rate", 100.0), ("delay_p95_s", 1e3)):
        values = one.values(name)
        if values is None:
            cells.append(f"{'-':>38}")
            continue
        before, said, after = values
        miss = " " if said.low <= after <= said.high else "!"
        numbers = [scale * value for value in (before, said.value, said.low, said.high, after)]
        cells.append("{:7.2f} > {:6.2f} [{:6.2f} {:6.2f}] ~{:7.2f}".format(*numbers) + miss)
    path = one.said.path if one.said.refusal is None else one.said.refusal
    return f"{one.scenario:13} {one.change:22}{'  '.join(cells)}  {one.said.control}  {path}"


def summary(checked: list[Checked]) -> None:
    """The errors of all, and the bars."""
    for name, least in LEAST.items():
        known = [values for one in checked if (values := one.values(name)) is not None]
        relative = [abs(said.value - after) / after for _, said, after in known if after >= least]
        contained = sum(said.low <= after <= said.high for _, said, after in known)
        if relative:
            median, most = np.quantile(relative, [0.5, 0.9])
            print(
                f"{NAMES[name]:10} error of {len(relative):3}: median {median:.1%}, 90th percentile {most:.1%}; "
                f"{contained} of {len(known)} ({contained / len(known):.0%}) within the 90 % interval"
            )
    gains = [(said.value / before - 1, after / before - 1) for before, said, after in known_goodput(checked)]
    clear = [(said, real) for said, real in gains if abs(real) > CLEAR_GAIN]
    right = sum(said * real > 0 for said, real in clear)
    print(f"gains of goodput beyond {CLEAR_GAIN:.0%}: {right} of {len(clear)} predicted with the right sign")


def known_goodput(checked: list[Checked]) -> list[tuple[float, Value, float]]:
    """The goodput of each change."""
    return [values for one in checked if (values := one.values("goodput_bps")) is not None]


if __name__ == "__main__":
    sys.exit(main())
