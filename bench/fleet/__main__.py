"""`python -m bench.fleet`: writes a fleet."""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

from . import disco
from .fleet import Fleet
from .plan import ALL_COUNTERS, Plan
from .writing import truth_folder, write


def main() -> int:
    """Write what the command line asks for; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet",
        description="Writes a store with a fleet of switches and clients that never was, and the truth beside it.",
        epilog="example: python -m bench.fleet --out /tmp/fleet --sites dfw01,lga01 --days 60 --change-day 2018-03-01",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the store, or with --raw of the files")
    parser.add_argument("--sites", default="dfw01,dfw02,lga01", help="separated by commas (%(default)s)")
    parser.add_argument("--machines", type=int, default=4, help="of each site (%(default)s)")
    parser.add_argument("--first-day", type=date.fromisoformat, default=date(2018, 2, 1), help="UTC (%(default)s)")
    parser.add_argument("--days", type=int, default=60, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    parser.add_argument("--counters", default=",".join(ALL_COUNTERS), help="separated by commas (all)")
    parser.add_argument("--ports", default="uplink", help="uplink or uplink,local (%(default)s)")
    parser.add_argument("--telemetry", choices=("v1", "v2"), default="v2", help="what missed polls leave (%(default)s)")
    parser.add_argument("--bursts-per-bin", type=float, default=0.15, help="microbursts in 10 s (%(default)s)")
    parser.add_argument("--change-day", type=date.fromisoformat, help="flow control is on from this day on (never)")
    parser.add_argument("--discards-kept", type=float, default=0.02, help="in spite of it, share (%(default)s)")
    parser.add_argument("--speed-ratio", type=float, default=1.0, help="of downloads after to before (%(default)s)")
    parser.add_argument("--outages", type=float, default=1.0, help="times what is usual; 0: none (%(default)s)")
    parser.add_argument("--tests-per-day", type=float, default=150.0, help="of each site (%(default)s)")
    parser.add_argument("--clients", type=int, default=150, help="of each metro (%(default)s)")
    parser.add_argument("--raw", choices=("disco-v1", "disco-v2"), help="telemetry as M-Lab's collectors wrote it")
    options = parser.parse_args()
    try:
        plan = Plan(
            sites=tuple(options.sites.split(",")), machines=options.machines, first_day=options.first_day,
            days=options.days, seed=options.seed, counters=tuple(options.counters.split(",")),
            ports=tuple(options.ports.split(",")), telemetry=options.raw[-2:] if options.raw else options.telemetry,
            bursts_per_bin=options.bursts_per_bin, change_day=options.change_day,
            discards_kept=options.discards_kept, speed_ratio=options.speed_ratio, outages=options.outages,
            tests_per_day=options.tests_per_day, clients=options.clients,
        )  # fmt: skip
    except ValueError as reason:
        parser.error(str(reason))
    fleet = Fleet(plan)
    if options.raw:
        files = disco.write(fleet, options.out, tell)
        tell("")
        print(f"{files} files in {options.out}")
        return 0
    write(fleet, options.out, tell)
    tell("")
    print(f"{options.out}: store of {len(plan.sites)} sites, {plan.days} days; truth in {truth_folder(options.out)}")
    return 0


def tell(step: str) -> None:
    """Say what is being done, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{step}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
