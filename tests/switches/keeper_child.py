"""A collector to be killed: keeps synthetic minutes, and says of each when it is on the disk.

python keeper_child.py STORE LABEL FIRST_MINUTE ROWS_OF_PART
"""

from __future__ import annotations

import sys
from itertools import count

from whydrop.monitoring.switches.growth import Counting
from whydrop.monitoring.switches.keeper import MINUTE_NS, Keeper
from whydrop.monitoring.switches.readings import Counter, Port, Reading

START = 1_700_000_000 // 60 * MINUTE_NS
PORT = Port("uplink", 1, None, 10**10)
COUNTERS = [Counter(name, f"1.{name}", 64) for name in ("octets.rx", "octets.tx", "unicast.rx", "unicast.tx")]
TICKS = 6  # a minute


def reading(tick: int) -> Reading:
    """The poll of a tick; totals say which tick they are of."""
    due = START + tick * MINUTE_NS // TICKS
    return Reading(
        "s1.dfw07", "dfw07", "dfw", due, due + 1000, due + 3000, "ok",
        values={(PORT, counter): tick for counter in COUNTERS},
    )  # fmt: skip


def main() -> None:
    """Keep until killed."""
    store, label, first, rows_of_part = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    keeper, counting = Keeper(store, label, rows_of_part=rows_of_part), Counting(MINUTE_NS // TICKS)
    for minute in count(first):
        for tick in range(minute * TICKS, (minute + 1) * TICKS):
            one = reading(tick)
            keeper.take(one, counting.samples(one))
        keeper.flush(START + (minute + 1) * MINUTE_NS)
        print(minute, flush=True)


if __name__ == "__main__":
    main()
