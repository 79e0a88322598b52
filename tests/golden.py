"""Golden documents: the results for the example captures, kept as JSON beside the tests.

``make golden`` writes them, and the snapshots of all text (``snapshots.py``), again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "golden"
NEAR = sorted(path for path in (ROOT / "examples").glob("*.pcap.zst") if "-far." not in path.name)
# Each example by itself, and together with the capture at the other side of its impairment.
EXAMPLES: list[tuple[Path, ...]] = [(path,) for path in NEAR]
EXAMPLES += [(path, path.with_name(path.name.replace(".", "-far.", 1))) for path in NEAR]

# Floats may differ between machines in their last digits; a search that ends elsewhere differs by far more.
RELATIVE = 1e-6


def name_of(example: tuple[Path, ...]) -> str:
    """The name of an example: that of its first capture, and whether there is a second one."""
    return example[0].name.partition(".")[0] + ("-pair" if len(example) > 1 else "")


def path_of(example: tuple[Path, ...]) -> Path:
    """Where the golden document of an example is kept."""
    return FOLDER / f"{name_of(example)}.json"


def document_of(example: tuple[Path, ...]) -> dict[str, Any]:
    """The document of an example, with its paths as a reader of the repository would write them."""
    import whydrop

    found = whydrop.explain(*example)
    document = found.document
    for capture in document["captures"]:
        capture["path"] = Path(capture["path"]).relative_to(ROOT).as_posix()
    # A new version alone is no change of results.
    document["whydrop"] = "VERSION"
    return document


def differences(wanted: Any, got: Any, where: str = "document") -> Iterator[str]:
    """Every place at which two documents differ, in words."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in [*wanted, *(key for key in got if key not in wanted)]:
            if key not in got or key not in wanted:
                yield f"{where}.{key}: {'missing' if key not in got else 'new'}"
            else:
                yield from differences(wanted[key], got[key], f"{where}.{key}")
    elif isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            yield f"{where}: {len(wanted)} entries wanted, {len(got)} found"
        for number, (one, other) in enumerate(zip(wanted, got, strict=False)):
            yield from differences(one, other, f"{where}[{number}]")
    elif isinstance(wanted, float) and isinstance(got, (int, float)):
        if not math.isclose(wanted, got, rel_tol=RELATIVE, abs_tol=1e-12):
            yield f"{where}: {wanted} wanted, {got} found"
    elif wanted != got:
        yield f"{where}: {wanted!r} wanted, {got!r} found"


def main() -> None:
    """Write every golden document and every snapshot."""
    import snapshots

    FOLDER.mkdir(exist_ok=True)
    for example in EXAMPLES:
        text = json.dumps(document_of(example), indent=1, ensure_ascii=False)
        path_of(example).write_text(text + "\n", encoding="utf-8")
        print(f"wrote {path_of(example).relative_to(ROOT)}")
    snapshots.write()


if __name__ == "__main__":
    main()
