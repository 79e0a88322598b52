"""Measure the library of ``whydrop web``: the first index of many recordings, a second look at them, and searches.

    .venv/bin/python bench/web/library.py --entries 10000

The recordings have metadata as those of ``whydrop run`` have, and no tables, which no index reads. One in ten entries
is a capture; one in a hundred is damaged.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from whydrop.recording import document
from whydrop.web.library.database import Order
from whydrop.web.library.describing_pool import DescribingPool
from whydrop.web.library.library import INDEX_FOLDER, Library
from whydrop.web.library.suggesting import suggestions
from whydrop.web.workers import processors

CAPTURE = Path(__file__).parents[2] / "examples" / "shallow-queue.pcap.zst"
START_NS = 1_750_000_000_000_000_000
DAY_NS = 86_400_000_000_000

SEARCHES = (
    "", "bufferbloat", "cc:cubic rtt>50 title~before -status:failed", "(cc=bbr or cc=reno) time>2025-09",
    "tag:slow", "hosts.local.kernel.release:", "-qdisc: or kind:capture", "run:7",
)  # fmt: skip


def make(folder: Path, entries: int, seed: int) -> None:
    """Write a folder of recordings and captures."""
    draw = random.Random(seed)
    capture = CAPTURE.read_bytes()[:4096]
    for number in range(entries):
        place = folder / f"day-{number // 200:03}"
        place.mkdir(parents=True, exist_ok=True)
        if number % 10 == 9:
            (place / f"host-{number}.pcap.zst").write_bytes(capture)
            continue
        recording = place / f"rrul-{number:05}.recording"
        recording.mkdir()
        text = "{" if number % 100 == 50 else json.dumps(document.complete(metadata(draw, number)))
        (recording / document.FILE_NAME).write_text(text)


def metadata(draw: random.Random, number: int) -> dict[str, Any]:
    """The metadata of a recording with the keys that ``whydrop run`` writes, about 250 of them."""
    control = draw.choice(("cubic", "bbr", "reno", "prague"))
    host = {
        "host_name": f"client-{number % 40}.example",
        "kernel": {"release": f"6.{number % 12}.0", "version": "#1 SMP", "machine": "x86_64"},
        "sysctls": {f"net.ipv4.setting_{at}": at for at in range(300)},
        "interfaces": {f"eth{at}": {"mtu": 1500, "driver": "virtio", "speed_mbps": 1000 * at} for at in range(20)},
        "settings": {f"option_{at}": draw.randrange(5) for at in range(60)},
    }
    return {
        "name": draw.choice(("rrul", "tcp_download", "tcp_upload", "voip")),
        "title": f"{draw.choice(('before', 'after'))} change {number}: {draw.choice(('bufferbloat', 'loss', 'idle'))}",
        "status": draw.choice(("complete",) * 9 + ("failed",)),
        "started_ns": START_NS + draw.randrange(365) * DAY_NS + number,
        "test": {
            "test": "rrul", "length_s": draw.choice((10.0, 60.0)), "congestion_control": control,
            "hosts": ["far.example"], "parameters": {"flows": draw.randrange(16)},
        },
        "batch": {"variables": {"rtt": f"{draw.randrange(5, 200)}ms", "qdisc": draw.choice(("fq_codel", "cake", "")),
                                "run": number % 20}},
        "hosts": {"local": host, "far.example": {**host, "host_name": "far.example"}},
    }  # fmt: skip


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and its answer."""
    began_s = time.perf_counter()
    answer = call()
    return time.perf_counter() - began_s, answer


def repeated_ms(call: Callable[[], Any], times: int = 9) -> float:
    """The median of some calls, in milliseconds."""
    return statistics.median(timed(call)[0] for _ in range(times)) * 1e3


def measure(folder: Path) -> list[tuple[str, str, str]]:
    """Index and search a folder; rows of what was done, how long it took, and what was found."""
    library, pool = Library([folder]), DescribingPool(processors())
    cold_s, seen = timed(lambda: library.refresh(pool))
    rows = [("first index", f"{cold_s:.1f} s", f"{seen.added} entries, {library.others()} other files")]
    warm_s, seen = timed(lambda: library.refresh(pool))
    rows.append(("a second look, nothing changed", f"{warm_s:.2f} s", f"{seen.added + seen.changed} described again"))
    library.close()
    pool.close()
    library = Library([folder])
    start_s, seen = timed(library.refresh)
    rows.append(("the look after a restart", f"{start_s:.2f} s", f"{seen.added + seen.changed} described again"))
    index = sum(file.stat().st_size for file in (folder / INDEX_FOLDER).iterdir())
    rows.append(("size of the index", f"{index / 1e6:.0f} MB", ""))
    for own in library.identifiers("rtt>190", 100):
        library.mark(own, ["slow"], "")
    for search in SEARCHES:
        took_ms = repeated_ms(partial(library.search, search, columns=["rtt", "cc", "kernel.release"]))
        rows.append((f"search `{search}`", f"{took_ms:.0f} ms", f"{library.search(search).count} entries"))
    order = [Order("rtt", descending=True), Order("title")]
    took_ms = repeated_ms(lambda: library.search("cc:cubic", order=order, offset=1000))
    rows.append(("search `cc:cubic`, by rtt and title, page 11", f"{took_ms:.0f} ms", ""))
    rows.append(("suggest keys for `h`", f"{repeated_ms(lambda: suggestions(library, 'h', 1)):.0f} ms", ""))
    rows.append(("suggest values of `title:`", f"{repeated_ms(lambda: suggestions(library, 'title:b', 7)):.0f} ms", ""))
    return rows


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the files here, and use those that are there")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="whydrop-library-"))
    try:
        if not given.folder or not folder.exists():
            make(folder, given.entries, given.seed)
        shutil.rmtree(folder / INDEX_FOLDER, ignore_errors=True)
        print("| what | time or size | found |\n|---|--:|---|")
        for row in measure(folder):
            print(f"| {' | '.join(row)} |")
    finally:
        if not given.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
