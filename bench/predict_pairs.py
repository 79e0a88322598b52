#!/usr/bin/env python
"""How well `whydrop predict` reproduces what was recorded, over labelled pairs of captures.

    python bench/predict_pairs.py ../shared/data/pairs

Prints one line a pair: recorded and reproduced goodput, loss rate and 95th percentile of the queueing delay, the
congestion control that was chosen and the true one; then medians and 90th percentiles of the relative errors, over all
pairs that could be run, those that whydrop itself refuses included.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

import whydrop
from whydrop.explaining.predicting.prediction import predict
from whydrop.explaining.predicting.recorded import Quantities

# Smaller losses and delays have no relative error that means anything.
LEAST_LOSS = 0.001
LEAST_DELAY_S = 0.001


def main() -> int:
    """Score the pairs of a folder; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of pairs, each with b.*, y.* and truth.json")
    folder = parser.parse_args().folder
    found: list[tuple[str, str, whydrop.Prediction]] = []
    refused: list[str] = []
    for pair in sorted(folder.iterdir()):
        if not (pair / "truth.json").is_file():
            continue
        truth = json.loads((pair / "truth.json").read_text())
        captures = [str(next(pair.glob(f"{point}.pcap*"))) for point in "by"]
        try:
            found.append((pair.name, truth["congestion_control"], predict(whydrop.explain(*captures), count=8)))
        except whydrop.Error as reason:
            refused.append(f"{pair.name}: {reason}")
            continue
        print(line(*found[-1]), flush=True)
    summary(found, refused)
    return 0 if found else 1


def line(name: str, control: str, one: whydrop.Prediction) -> str:
    """One pair."""
    was, made = recorded(one), one.reproduced
    delays = "".join(f" {1e3 * (value.delay_p95_s or 0.0):8.2f}" for value in (was, made))
    numbers = f"{was.goodput_bps / 1e6:8.2f} {made.goodput_bps / 1e6:8.2f} {was.loss_rate:8.2%} {made.loss_rate:8.2%}"
    misses = ", ".join(one.misses) or "reproduced"
    return f"{name:32} {numbers}{delays}  {control}/{one.control}  {misses}"


def summary(found: list[tuple[str, str, whydrop.Prediction]], refused: list[str]) -> None:
    """The errors over all pairs."""
    for reason in refused:
        print(f"not run: {reason}")
    reproduced = [one for _, _, one in found if not one.misses]
    print(f"{len(reproduced)} of {len(found)} pairs reproduced; {len(refused)} not run")
    for which, ones in (("all that ran", [one for *_, one in found]), ("reproduced", reproduced)):
        print(f"{which}:")
        errors("goodput", [(recorded(one).goodput_bps, one.reproduced.goodput_bps) for one in ones], 1.0)
        errors("loss rate", [(recorded(one).loss_rate, one.reproduced.loss_rate) for one in ones], LEAST_LOSS)
        errors("p95 delay", [(delay_s(recorded(one)), delay_s(one.reproduced)) for one in ones], LEAST_DELAY_S)


def recorded(one: whydrop.Prediction) -> Quantities:
    """The recorded values of a pair."""
    assert one.recorded is not None
    return one.recorded


def delay_s(values: Quantities) -> float:
    """The delay; 0 where it is not known."""
    return values.delay_p95_s or 0.0


def errors(name: str, pairs: list[tuple[float, float]], least: float) -> None:
    """Print the median and the 90th percentile of the relative errors of values from ``least`` on."""
    relative = [abs(made - was) / was for was, made in pairs if was >= least]
    if relative:
        median, most = np.quantile(relative, [0.5, 0.9])
        print(f"  {name:10} of {len(relative):3} pairs: median {median:.1%}, 90th percentile {most:.1%}")


if __name__ == "__main__":
    sys.exit(main())
