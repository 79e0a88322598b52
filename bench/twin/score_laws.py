#!/usr/bin/env python
"""How near the simulated queue management comes to Linux's at equal parameters, over the same packets.

    python bench/twin/score_laws.py /tmp/laws /tmp/twins

The packets of each recording of record_twins.py arrive at our element at the times at which the sender sent them, and
leave it at the rate at which they left Linux: with a burst of one byte, htb sends up to 0.2 % slower than configured,
which adds up in a queue that never is empty.
Prints one line a recording: mean and 95th percentile of the queueing delay, and packets dropped or marked, of Linux and
of ours (with their range over seeds, where the law draws); then for each law the errors over its recordings.

What senders sent after a drop of Linux is not what they would have sent after one of ours: where a law draws, the
queues go apart for some round trips.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import whydrop
from whydrop import _core
from whydrop.explaining.explained import Explained

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from twin_paths import SETS  # noqa: E402
from twin_settings import FRAME_BYTES, path_of  # noqa: E402

# Smaller ones have no relative error that means anything: delays in seconds, packets.
LEAST = {"mean delay": 0.001, "p95 delay": 0.001, "drops or marks": 1.0}
UNMANAGED = ("pfifo", "netem")
# A packet that waited longer left right after the one before: gaps longer than this many times the median have other
# packets in them.
WAITED_NS = 5e6
LONGEST_GAP = 1.5
CHANCE = ("pie", "red", "fq-pie", "fq-codel", "cake")


@dataclass(frozen=True)
class Passed:
    """A run of a queue.

    Attributes:
        waits_s: queueing delays of the packets that passed.
        chosen: packets dropped or marked.
    """

    waits_s: np.ndarray
    chosen: int

    def values(self) -> tuple[float, float, float]:
        """Mean and 95th percentile of the delay, and the packets that were dropped or marked."""
        return float(self.waits_s.mean()), float(np.quantile(self.waits_s, 0.95)), float(self.chosen)


def main() -> int:
    """Score the recordings of a folder; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="where record_twins.py has put its sets")
    parser.add_argument("--only", default="", help="only recordings that begin with this")
    parser.add_argument("--seeds", type=int, default=9, help="runs of laws that draw (default: 9)")
    given = parser.parse_args()
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    print(
        f"{'':22}{'mean ms: Linux ~ ours':>24}{'p95 ms: Linux ~ ours':>24}"
        f"{'dropped or marked: Linux ~ ours [range]':>46}"
    )
    for name, law, linux, runs in compared(given.folders, given.only, given.seeds):
        ours = np.median(runs, axis=0)
        low, high = runs[:, 2].min(), runs[:, 2].max()
        cells = f"{1e3 * linux[0]:12.2f} ~{1e3 * ours[0]:9.2f} {1e3 * linux[1]:12.2f} ~{1e3 * ours[1]:9.2f} "
        print(f"{name:22}{cells}{linux[2]:18.0f} ~{ours[2]:6.0f} [{low:6.0f} {high:6.0f}]", flush=True)
        found.setdefault(law, []).append((linux, ours))
    for law, both in found.items():
        summary(law, both)
    summary("all", [one for both in found.values() for one in both])
    return 0 if found else 1


def compared(folders: Sequence[Path], only: str, seeds: int) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """For each recording of a law its name, the law, the values of Linux, and those of our runs."""
    for name, scenario in sorted((SETS["laws"] | SETS["paths"]).items()):
        law = "policer" if scenario.line.police else scenario.line.queue.split()[0]
        for folder in folders:
            if law in UNMANAGED or not name.startswith(only) or not (folder / name / "truth.json").exists():
                continue
            packets = arrived(whydrop.explain(*(str(folder / name / f"{point}.pcap.zst") for point in "by")))
            line = scenario.line
            drawn = range(1, seeds + 1) if path_of(line).startswith(CHANCE) else [None]
            rate_bps = None if line.police else sent_at(packets)
            paths = [path_of(line, seed, rate_bps) for seed in drawn]
            runs = [replayed(packets, path, ecn=line.ecn).values() for path in paths]
            yield name, law, np.array(linux_of(packets).values()), np.array(runs)


def arrived(found: Explained) -> pl.DataFrame:
    """The packets that entered the queue, in order of time."""
    crossings = found.table("crossings").filter(pl.col("time_1_ns").is_not_null())
    return crossings.filter(pl.col("direction") == "1-to-2").sort("time_1_ns")


def sent_at(packets: pl.DataFrame) -> float:
    """Bit/s: the rate at which full packets left while others waited."""
    left = packets.drop_nulls("transit_ns").sort("time_2_ns")
    bytes_before = left["ip_bytes"].shift(1)
    gaps_ns = left["time_2_ns"].diff()
    follows = (left["transit_ns"] - left["transit_ns"].min() > WAITED_NS) & (bytes_before == left["ip_bytes"].max())
    gaps_ns, bytes_before = gaps_ns.filter(follows), bytes_before.filter(follows)
    usual = gaps_ns < LONGEST_GAP * float(gaps_ns.median())  # type: ignore[arg-type]
    sent_bytes = float((bytes_before.filter(usual) + FRAME_BYTES).sum())
    return 8e9 * sent_bytes / float(gaps_ns.filter(usual).sum())


def linux_of(packets: pl.DataFrame) -> Passed:
    """The queue of Linux."""
    transits_ns = packets["transit_ns"].drop_nulls()
    lost = packets.filter(pl.col("crossing") == "lost").height
    waits_s = (transits_ns - int(transits_ns.min())).to_numpy() / 1e9  # type: ignore[arg-type]
    return Passed(waits_s, lost + int(packets["ce_set"].sum()))


def replayed(packets: pl.DataFrame, path: str, *, ecn: bool) -> Passed:
    """Our element over the same packets.

    Args:
        ecn: true if the hosts had agreed on ECN: new data is capable then, and retransmissions are not.
    """
    capable = (pl.lit(ecn) & (pl.col("payload_bytes") > 0) & ~pl.col("retransmission")).fill_null(value=False)
    times, sizes, flows, transits = (
        packets[name].to_list() for name in ("time_1_ns", "ip_bytes", "flow", "transit_ns")
    )
    passages = _core.Passages(times, sizes, flows, (packets["crossing"] == "lost").to_list(), transits)
    rows_of = passages.replay(path, packets.select(capable.alias("capable"))["capable"].to_list())[1]
    # Packets beyond the end of the second capture have no known fate.
    rows = pl.DataFrame(rows_of).filter(packets["crossing"].is_in(["matched", "lost"]))
    chosen = rows.filter(pl.col("predicted_drop") | pl.col("predicted_mark")).height
    return Passed(rows["predicted_wait_ns"].drop_nulls().to_numpy() / 1e9, chosen)


def summary(law: str, both: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """The errors of a law: the medians over its recordings, and that of all packets dropped or marked."""
    cells = []
    for place, (name, least) in enumerate(LEAST.items()):
        errors = [abs(ours[place] / linux[place] - 1) for linux, ours in both if linux[place] >= least]
        cells.append(f"{name} {np.median(errors):.1%} ({len(errors)})" if errors else f"{name} -")
    all_linux, all_ours = (sum(one[which][2] for one in both) for which in (0, 1))
    print(f"{law:10} median error: {', '.join(cells)}; in all {all_linux:.0f} ~ {all_ours:.0f} dropped or marked")


if __name__ == "__main__":
    sys.exit(main())
