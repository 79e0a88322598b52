#!/usr/bin/env python
"""Queue disciplines and policers that `whydrop emulate` makes real, as `whydrop explain` finds them again.

    sudo python bench/emulators/close_loops.py /tmp/loops

Each path is emulated in the lab's virtual machine (docs/lab.md), in virtual time, with a round trip of 20 ms. A
transfer of iperf3 is captured in both hosts, and the captures are explained. Needs root, and the programs that
tools/test-programs installs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from compare_emulators import MEMORY, emulate
from transfers import DONE, boot

from lab.batch import compile_whydrop  # type: ignore[import-not-found]

RATE = "rate=20M"
LOOPS = {
    "policer": f"policer:{RATE},burst=80kB",
    "fifo": f"fifo:{RATE},limit=60packets",
    "codel": f"codel:{RATE},limit=1000packets",
    "pie": f"pie:{RATE},limit=1000packets",
    "red": f"red:{RATE},min=20packets,max=60packets,max-probability=10%",
    "fq-codel": f"fq-codel:{RATE},limit=10240packets",
    "fq-pie": f"fq-pie:{RATE},limit=10240packets",
    "cake": f"cake:{RATE},limit=4MB",
}


def main() -> int:
    """Record and explain; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where captures go")
    parser.add_argument("loops", nargs="*", metavar="LOOP", help=f"some of them: {', '.join(LOOPS)} (default: all)")
    parser.add_argument("--duration", type=int, default=10, help="seconds of each transfer (default: 10)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder.resolve()
    names = given.loops or list(LOOPS)
    if given.inside:
        record(folder, names, given.duration)
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    compile_whydrop()
    words = [__file__, str(folder), *names, "--duration", str(given.duration), "--inside"]
    status = boot(folder, words, len(names))
    for name in names:
        print(*lines(name, folder / name), sep="\n")
    return status


def record(folder: Path, names: list[str], duration_s: int) -> None:
    """Record all that is missing, inside of the machine."""
    # Each program is read into the machine's memory before time matters.
    once(LOOPS[names[0]], 1)
    for name in names:
        kept = folder / name
        if (kept / "far.pcap").exists():
            continue
        own = once(LOOPS[name], duration_s)
        kept.mkdir(parents=True, exist_ok=True)
        for file in own.iterdir():
            shutil.copyfile(file, kept / file.name)
        print(name, flush=True)
    print(DONE, flush=True)


def once(path: str, duration_s: int) -> Path:
    """Emulate a path; the folder of its captures."""
    own = MEMORY / "loop"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    emulate(path, duration_s, own)
    return own


def lines(name: str, folder: Path) -> Iterator[str]:
    """The path, and its first two verdicts."""
    import whydrop

    yield LOOPS[name]
    found = whydrop.explain(folder / "near.pcap", folder / "far.pcap")
    for verdict in found.verdicts[:2]:
        family = f", {verdict.family} family" if verdict.family else ""
        yield f"    {verdict.cause}{family} ({verdict.confidence:.0%}): {verdict.sentence}"
        yield "        " + ", ".join(f"{key} {one.value:g}" for key, one in verdict.parameters.items())


if __name__ == "__main__":
    sys.exit(main())
