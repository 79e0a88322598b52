#!/usr/bin/env python
"""How near simulated senders come to Linux's over the recordings of record_twins.py: goodput, losses and delay.

    python bench/twin/score_twins.py /tmp/twins
    python bench/twin/score_twins.py /tmp/twins --only bbr --paths deep

Prints one line a path and control: each quantity of Linux, the median of the simulated runs with their range, and the
error. Linux was recorded once; `!` marks a value of Linux outside of the range. Then the median and the 90th percentile
of the errors, for each control and over all.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import whydrop
from whydrop.explaining.explained import Explained
from whydrop.explaining.predicting.recorded import quantities

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from transfers import Scenario  # noqa: E402
from twin_paths import CONTROLS, SETS  # noqa: E402
from twin_settings import outcomes  # noqa: E402

DURATION_S = 20
NAMES = {"goodput": "goodput_bps", "loss rate": "loss_rate", "p95 delay": "queueing_p95_s"}
SCALES = {"goodput": 1e-6, "loss rate": 100.0, "p95 delay": 1e3}
UNITS = {"goodput": "Mbit/s", "loss rate": "%", "p95 delay": "ms"}
# Smaller losses and delays have no relative error that means anything.
LEAST = {"goodput": 1.0, "loss rate": 0.001, "p95 delay": 0.001}
# The cookie of iperf3 goes before the data.
_FULL_BYTES = 1_000


@dataclass(frozen=True)
class Twins:
    """A quantity of Linux, and of the simulated runs."""

    name: str
    linux: float
    runs: np.ndarray

    @property
    def error(self) -> float | None:
        """Relative, of the median run; ``None`` where the quantity is too small for one."""
        return None if self.linux < LEAST[self.name] else abs(float(np.median(self.runs)) / self.linux - 1)

    @property
    def is_within(self) -> bool:
        """Linux lies in the range of the runs."""
        return bool(self.runs.min() <= self.linux <= self.runs.max())

    def __str__(self) -> str:
        numbers = [SCALES[self.name] * value for value in (self.linux, np.median(self.runs), *range_of(self.runs))]
        error = "" if self.error is None else f"{self.error:.1%}"
        return "{:8.3f} ~{:7.3f} [{:7.3f}{:8.3f}]".format(*numbers) + f"{' ' if self.is_within else '!'}{error:>7}"


def range_of(runs: np.ndarray) -> tuple[float, float]:
    """The least and the greatest."""
    return float(runs.min()), float(runs.max())


def main() -> int:
    """Score the recordings of a folder; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where record_twins.py has put the set `paths`")
    parser.add_argument("--only", default=",".join(CONTROLS), help="congestion controls, separated by commas")
    parser.add_argument("--paths", default="", help="only paths that begin with this")
    parser.add_argument("--seeds", type=int, default=20, help="simulated runs (default: 20)")
    given = parser.parse_args()
    found: dict[str, list[Twins]] = {}
    print(f"{'':20}" + "".join(f"{f'{name}, {UNITS[name]}: Linux ~ ours [range]':>45}" for name in NAMES))
    for control in given.only.split(","):
        for name, scenario in SETS["paths"].items():
            folder = given.folder / name
            wanted = scenario.control == control and name.startswith(given.paths)
            if wanted and (folder / "truth.json").exists():
                both = compared(scenario, folder, given.seeds)
                print(f"{name:20}" + "  ".join(str(one) for one in both), flush=True)
                found.setdefault(control, []).extend(both)
    for control, ones in found.items():
        summary(control, ones)
    summary("all", [one for ones in found.values() for one in ones])
    return 0 if found else 1


def compared(scenario: Scenario, folder: Path, seeds: int) -> list[Twins]:
    """The quantities of one recording and of its twin."""
    linux = recorded(whydrop.explain(*(str(folder / f"{point}.pcap.zst") for point in "by")))
    runs = outcomes(scenario, DURATION_S, seeds)
    return [Twins(name, linux[name], np.array([run[key] for run in runs])) for name, key in NAMES.items()]


def recorded(found: Explained) -> dict[str, float]:
    """The quantities of a recording; goodput from the first full packet on."""
    whole = quantities(found)
    return {
        "goodput": goodput_bps(found),
        "loss rate": whole.loss_rate,
        "p95 delay": whole.delay_p95_s or 0.0,
    }


def goodput_bps(found: Explained) -> float:
    """Payload of the flow with most data, from its first full packet to the acknowledgment of the last."""
    flows = found.table("flows").sort("payload_bytes", descending=True)
    of_flow = pl.col("flow") == flows["flow"][0]
    full = found.table("segments").filter(of_flow & (pl.col("payload_bytes") > _FULL_BYTES))
    acks = found.table("acks").filter(of_flow)
    before = int(full["sequence"][0])
    last = int(acks["acknowledged"].max())  # type: ignore[arg-type]
    end_ns = acks.filter(pl.col("acknowledged") == last)["time_ns"].min()
    time_ns = int(end_ns) - int(full["time_ns"][0])  # type: ignore[arg-type]
    return (last - before) * 8e9 / time_ns


def summary(control: str, ones: list[Twins]) -> None:
    """The errors of a control."""
    for name in NAMES:
        of_name = [one for one in ones if one.name == name]
        errors = [one.error for one in of_name if one.error is not None]
        if errors:
            median, most = np.quantile(errors, [0.5, 0.9])
            within = sum(one.is_within for one in of_name)
            print(
                f"{control:6} {name:10} error of {len(errors):2}: median {median:6.1%}, 90th percentile {most:6.1%}; "
                f"{within} of {len(of_name)} within the range of the runs"
            )


if __name__ == "__main__":
    sys.exit(main())
