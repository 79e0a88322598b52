#!/usr/bin/env python
"""Record transfers before and after changes of a path or a sender, at both ends, in the lab's virtual machine.

    sudo python bench/changes/record_changes.py fresh /tmp/changes

Writes SCENARIO/{b,y}.pcap.zst and SCENARIO+CHANGE/{b,y}.pcap.zst (the first 128 bytes of each packet), each with a
truth.json. A recording that exists is not made again. Needs root, and the programs that tools/test-programs installs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from scenarios import SETS, Scenario, changed, file_name  # noqa: E402
from transfers import DONE, boot, build, transfer  # noqa: E402

from lab.network import Network  # type: ignore[import-not-found]  # noqa: E402

DURATION_S = 20


def main() -> int:
    """Record all; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path, help="where captures go")
    parser.add_argument("--duration", type=int, default=DURATION_S, help="seconds of each transfer (default: 20)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.resolve()
    wanted = recordings(given.set)
    if given.inside:
        for name, scenario in wanted.items():
            if not (folder / name / "truth.json").exists():
                record(scenario, folder / name, given.duration)
        print(DONE, flush=True)
        return 0
    for name in wanted:
        (folder / name).mkdir(parents=True, exist_ok=True)
    return boot(folder, [__file__, given.set, str(folder), "--duration", str(given.duration), "--inside"], len(wanted))


def recordings(which: str) -> dict[str, Scenario]:
    """All scenarios of a set, before and after each change."""
    before, changes = SETS[which]
    after = {file_name(name, change): changed(before[name], change) for name in changes for change in changes[name]}
    return before | after


def record(scenario: Scenario, folder: Path, duration_s: int) -> None:
    """Record one transfer."""
    with Network() as network:
        ends = build(network, scenario.line)
        captures = [folder / f"{point}.pcap.zst" for point in "by"]
        measured = transfer(ends, scenario.control, captures, duration_s, scenario.pace)
    (folder / "truth.json").write_text(json.dumps(asdict(scenario) | {"iperf3": measured}, indent=1))
    print(folder.name, measured, flush=True)


if __name__ == "__main__":
    sys.exit(main())
