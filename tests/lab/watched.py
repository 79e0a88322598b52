"""``whydrop watch`` in a host of the lab, and its recording."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lab.network import Host, Network
from patience import wait_until
from whydrop.explaining.recordings.document import explain


@dataclass
class Watched:
    """The recording of a watch, once it has ended."""

    folder: Path
    lost: int = 0
    """Drops that the monitor itself says it could not count."""
    unreported: int = 0
    """Retransmitted segments that TCP counted without an event."""

    def table(self, name: str) -> pl.DataFrame:
        """A table of it."""
        (path,) = self.folder.glob("*.recording")
        file = path / f"{name}.parquet"
        return pl.read_parquet(file) if file.exists() else pl.DataFrame(schema={"reason": pl.String})

    def dropped(self, port: int) -> dict[str, int]:
        """Packets to a port by reason."""
        rows = self.table("drops").filter(pl.col("destination").str.ends_with(f":{port}"))
        sums = rows.group_by("reason").agg(pl.col("packets").sum())
        return dict(zip(sums["reason"].to_list(), sums["packets"].to_list(), strict=True))

    def is_exact(self, port: int, reason: str, count: float) -> bool:
        """True if so many packets to a port were dropped, all for this reason, less those that were not counted."""
        found = self.dropped(port)
        return set(found) == {reason} and count - self.lost <= found[reason] <= count

    def named(self) -> dict[str, int]:
        """The drops of the host by reason, as `whydrop explain` reports them."""
        (path,) = self.folder.glob("*.recording")
        found = [one for one in explain(path).document()["verdicts"] if one["cause"] == "host-drop"]
        assert all(one["evidence"] and one["sentence"].startswith("This host dropped") for one in found)
        return {one["detail"]: one["lost"] for one in found}

    def counted(self, counter: str) -> float:
        """How much a counter grew, of all objects that have it."""
        rows = self.table("counters").filter(pl.col("counter") == counter)
        grown = rows.group_by("source", "object").agg(grown=pl.col("value").last() - pl.col("value").first())
        return float(grown["grown"].sum())


@contextmanager
def watched(host: Host, folder: Path, *options: str, way: str = "program") -> Iterator[Watched]:
    """`whydrop watch` in a host while the block runs, and until the counters were read once more."""
    folder.mkdir(parents=True)
    words = [sys.executable, "-m", "whydrop", "watch", "--json", "--counters", "200ms", "--drops", way]
    watching = host.popen([*words, "--output", str(folder), *options])
    wait_until(lambda: watching.returncode is not None or any(folder.glob("*.recording/journal/polls*")))
    assert watching.returncode is None, watching.output()
    found = Watched(folder)
    yield found
    time.sleep(0.5)
    watching.signal(signal.SIGINT)
    # Behind what went wrong.
    said = json.loads(watching.wait().splitlines()[-1])
    found.lost = said["dropped"]["lost_events"]
    found.unreported = (said["events"] or {}).get("unreported", 0)


def between(network: Network) -> tuple[Host, Host, Host]:
    """A sender, a router and a receiver."""
    sender, router, receiver = network.host("sender"), network.host("router"), network.host("receiver")
    network.link(sender, router)
    network.link(router, receiver)
    network.start()
    return sender, router, receiver
