"""Score verdicts on the labelled captures of Flach et al., *An Internet-Wide Analysis of Traffic Policing* (2016).

    .venv/bin/python bench/policing.py FOLDER

FOLDER has the captures of the paper's lab (github.com/USC-NSL/policing-detection) and ``labels.csv`` with the columns
``file``, ``kind`` (it begins with "policer" for a policer), ``client_port``, ``policer_rate_bps`` and
``policer_burst_bytes``.
A transfer to the client's port is policed if it lost packets and its path had a policer.
"""

from __future__ import annotations

import argparse
import csv
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import whydrop

# Transfers below this are requests.
LEAST_PACKETS = 50

Row = dict[str, str]


def main() -> None:
    """Print each wrong transfer, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    with (asked.folder / "labels.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    with ProcessPoolExecutor(asked.jobs) as pool:
        found = list(pool.map(partial(score, asked.folder), rows))
    transfers = [right for rights, _ in found for right in rights]
    print(f"policed or not: {sum(transfers)} of {len(transfers)} transfers right, in {len(rows)} captures")
    for name in ("rate_bps", "burst_bytes"):
        inside = [inside[name] for _, inside in found if name in inside]
        print(f"{name}: the truth is inside the 95 % interval in {sum(inside)} of {len(inside)} captures")


def score(folder: Path, row: Row) -> tuple[list[bool], dict[str, bool]]:
    """True for each transfer that is right, and for each known parameter of the policer inside its interval."""
    found = whydrop.explain(folder / row["file"])
    is_policed = row["kind"].startswith("policer")
    rights = []
    for transfer in found.transfers:
        if transfer.flow.endswith(f":{row['client_port']}") and transfer.packets >= LEAST_PACKETS:
            rights.append((transfer.cause == "policer") == (is_policed and transfer.lost > 0))
            if not rights[-1]:
                print(f"{row['file']}: {row['kind']}: {transfer.cause}, {transfer.lost} lost")
    policers = [verdict for verdict in found.verdicts if verdict.cause == "policer"]
    inside = {}
    if is_policed and policers:
        largest = max(policers, key=lambda verdict: verdict.lost)
        for name in ("rate_bps", "burst_bytes"):
            if row[f"policer_{name}"] and name in largest.parameters:
                one = largest.parameters[name]
                low, high = one.low or 0.0, float("inf") if one.high is None else one.high
                inside[name] = low <= float(row[f"policer_{name}"]) <= high
    return rights, inside


if __name__ == "__main__":
    main()
