"""Losses and causes without SACK beside the truth, and beside the same draws with SACK.

whydrop-simulate suite --split validation --seed 1 --count 104 --tap sender --out /tmp/with
whydrop-simulate suite --split validation --seed 1 --count 104 --tap sender --no-sack --out /tmp/without
python bench/without_sack.py /tmp/with /tmp/without --jobs 2
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Judged:
    """A capture of a suite: its truth, and the document of it."""

    truth: Mapping[str, Any]
    document: Mapping[str, Any]

    @property
    def headline(self) -> str:
        """The first cause named."""
        verdicts = self.document["verdicts"]
        return verdicts[0]["cause"] if verdicts else "none"

    @property
    def accuses(self) -> bool:
        """A policer is named where there is none."""
        named = any(verdict["cause"] == "policer" for verdict in self.document["verdicts"])
        return named and not self.truth["policed"]

    def losses(self) -> list[tuple[int, int, int, int]]:
        """Lost packets of each flow that lost any or is said to: truth, stated, fewest, most."""
        found = []
        for truth in self.truth["flows"]:
            tail = f":{truth['client_port']}"
            stated = [flow for flow in self.document["flows"] if flow["flow"].endswith(tail)]
            lost = truth["lost_since_capture_began"]
            for flow in stated:
                if lost or flow["lost"]:
                    low, high = flow.get("lost_low", flow["lost"]), flow.get("lost_high", flow["lost"])
                    found.append((lost, flow["lost"], low, high))
        return found


def judged(truth: Path, command: Sequence[str]) -> Judged:
    """The document of a capture beside its truth."""
    known = json.loads(truth.read_text())
    capture = truth.with_name(known["file"])
    document = subprocess.run([*command, str(capture)], capture_output=True, text=True, check=True).stdout
    return Judged(known, json.loads(document))


def suite(folder: Path, command: Sequence[str], jobs: int) -> dict[str, Judged]:
    """All captures of a suite, by their files."""
    truths = sorted(folder.glob("*.truth.json"))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda truth: judged(truth, command), truths)
    return {truth.name: result for truth, result in zip(truths, results, strict=True)}


def share(hits: Sequence[bool]) -> str:
    """A share in words."""
    return f"{sum(hits)} of {len(hits)} ({100 * sum(hits) / max(len(hits), 1):.0f} %)"


def main() -> None:
    """Print how far losses and causes without SACK are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("with_sack", type=Path)
    parser.add_argument("without_sack", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--command", default="whydrop explain --json")
    asked = parser.parse_args()
    command = asked.command.split()
    before, after = (suite(folder, command, asked.jobs) for folder in (asked.with_sack, asked.without_sack))
    losses = [(name, *counts) for name, one in after.items() for counts in one.losses()]
    errors = [abs(stated / lost - 1) for _, lost, stated, *_ in losses if lost]
    inside = [low <= lost <= high for _, lost, _, low, high in losses]
    both = sorted(before.keys() & after.keys())
    same = [before[name].headline == after[name].headline for name in both]
    right = [after[name].headline in after[name].truth["right_causes"] for name in both]
    as_good = [one or other for one, other in zip(same, right, strict=True)]
    print(f"captures {len(after)}, flows with losses {len(losses)}")
    print(f"lost packets: median error {100 * statistics.median(errors):.2f} %, inside the range {share(inside)}")
    print(f"headline: the same as with SACK {share(same)}, right {share(right)}, either {share(as_good)}")
    print(f"a policer named where there is none: {sum(one.accuses for one in after.values())}")
    for (name, lost, stated, low, high), fits in zip(losses, inside, strict=True):
        if not fits:
            print(f"  {name} {after[name].truth['kind']}: {lost} lost, stated {stated} ({low} to {high})")
    for name, fits in zip(both, as_good, strict=True):
        if not fits:
            headlines = f"{before[name].headline} with SACK, {after[name].headline} without"
            print(f"  {name} {after[name].truth['kind']}: {headlines}")


if __name__ == "__main__":
    main()
