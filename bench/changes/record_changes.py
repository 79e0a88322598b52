#!/usr/bin/env python
"""Record transfers before and after changes of a path or a sender, at both ends, in the lab's virtual machine.

    sudo python bench/changes/record_changes.py fresh /tmp/changes

Writes SCENARIO/{b,y}.pcap.zst and SCENARIO+CHANGE/{b,y}.pcap.zst (the first 128 bytes of each packet), each with a
truth.json. A recording that exists is not made again. Needs root, and the programs that tools/test-programs installs.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from scenarios import SETS, changed, file_name  # noqa: E402
from transfers import Scenario, main, of_scenarios  # noqa: E402

DURATION_S = 20


def recordings(which: str) -> dict[str, Scenario]:
    """All scenarios of a set, before and after each change."""
    before, changes = SETS[which]
    after = {file_name(name, change): changed(before[name], change) for name in changes for change in changes[name]}
    return before | after


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, list(SETS), lambda given: of_scenarios(recordings(given.set)), DURATION_S))
