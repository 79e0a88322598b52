#!/usr/bin/env python
"""Record Linux's TCP and queues over the paths of twin_paths.py, at both ends, in the lab's virtual machine.

    sudo python bench/twin/record_twins.py paths /tmp/twins
    sudo python bench/twin/record_twins.py laws /tmp/laws

Writes NAME/{b,y}.pcap.zst (the first 128 bytes of each packet) and NAME/truth.json. A recording that exists is not made
again. Needs root, and the programs that tools/test-programs installs.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from transfers import main, of_scenarios  # noqa: E402
from twin_paths import SETS  # noqa: E402

DURATION_S = 20

if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, list(SETS), lambda given: of_scenarios(SETS[given.set]), DURATION_S))
