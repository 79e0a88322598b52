#!/usr/bin/env python
"""Record each congestion control of Linux over known paths, at the sender, in the lab's virtual machine.

    sudo python bench/controls/record.py training /tmp/controls
    sudo python bench/controls/record.py seen /tmp/controls --only cubic,bbr --paths loss

Writes SET/PATH/CONTROL.pcap.zst (the first 128 bytes of each packet) and SET/PATH/truth.json into the folder. A capture
that exists is not recorded again. Needs root, and the programs that tools/test-programs installs.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from paths import CONTROLS, MODULES, SETS  # noqa: E402
from transfers import Line, Set, build, main, transfer  # noqa: E402

from lab.network import Network  # type: ignore[import-not-found]  # noqa: E402

DURATION_S = 12
OPTIONS = {
    "only": (",".join(CONTROLS), "congestion controls, separated by commas"),
    "paths": ("", "kinds of paths, separated by commas (default: all)"),
}


def wanted(given: argparse.Namespace) -> Set:
    """The chosen controls over the chosen paths."""
    controls, kinds = given.only.split(","), given.paths.split(",")
    lines = {kind: line for kind, line in SETS[given.set].items() if not given.paths or kind in kinds}
    each = {f"{given.set}/{kind}": functools.partial(record, line, controls) for kind, line in lines.items()}
    return Set(each, len(lines) * len(controls), MODULES)


def record(line: Line, controls: list[str], folder: Path, duration_s: int) -> None:
    """Record all controls over one path, one after the other."""
    file = folder / "truth.json"
    known = json.loads(file.read_text())["controls"] if file.exists() else {}
    truth = {"path": asdict(line), "duration_s": duration_s, "controls": known}
    with Network() as network:
        ends = build(network, line)
        for control in controls:
            capture = folder / f"{control}.pcap.zst"
            if capture.exists():
                continue
            known[control] = transfer(ends, control, [capture], duration_s)
            if known[control]["control"] is None:
                # Without a transfer there is nothing to name; the next run tries again.
                capture.unlink()
            print(control, known[control], flush=True)
    file.write_text(json.dumps(truth, indent=1))
    print(f"recorded {folder.name}", flush=True)


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, list(SETS), wanted, DURATION_S, OPTIONS))
