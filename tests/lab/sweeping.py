"""Every rate and burst of a grid, applied to what goes to a host and measured; run inside a host of the lab.

``python sweeping.py HOST DRAIN_BIT_PER_S LENGTH_S FOLDER`` prints a list of [rate as a share of the drain rate, burst
in bytes, goodput in bit/s, share of segments retransmitted]; the first one is unpaced, and has null for rate and burst.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from whydrop.act import pacing
from whydrop.act.applying import leased
from whydrop.act.changes import Pace, paced
from whydrop.act.meter import Meter
from whydrop.measure.far_hosts import FarHost

RATES = (0.5, 0.7, 0.8, 0.88, 0.92, 0.95, 0.97, 0.98, 0.99, 1.0, 1.02, 1.05, 1.1, 1.3)
BURSTS_BYTES = (1600, 4600, 15_200)


def swept(host: str, drain_bps: float, length_s: float, folder: Path) -> list[list[float | None]]:
    """Measure them all."""
    meter, way = Meter(FarHost(host), folder, length_s), pacing.route_to(host)
    first = meter.reading("unpaced")
    found: list[list[float | None]] = [[None, None, first.goodput_bps, first.retransmitted]]
    for burst in BURSTS_BYTES:
        for share in RATES:
            pace = Pace(share * drain_bps, burst, way.addresses)
            with leased(paced(way.interface, way.snapshot, pace), host) as lease:
                lease.on()
                reading = meter.reading(f"{share} {burst}")
                found.append([share, burst, reading.goodput_bps, reading.retransmitted])
    return found


if __name__ == "__main__":
    address, drain, length, output = sys.argv[1:]
    print(json.dumps(swept(address, float(drain), float(length), Path(output))))
