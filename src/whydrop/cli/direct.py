"""``whydrop explain CAPTURE --json`` without the option parser.

Scripts call this form thousands of times. Importing click takes 50 ms, several times as long as the analysis of a small
capture, so this form goes straight to the core; click parses every other one.
"""

from __future__ import annotations

# Type checkers know this name; importing typing would take a tenth of the whole start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def capture_of(arguments: Sequence[str]) -> str | None:
    """The capture (or recording), where the arguments are ``explain``, one path and ``--json``; else ``None``."""
    if len(arguments) != 3 or arguments[0] != "explain" or arguments.count("--json") != 1:
        return None
    path = arguments[2] if arguments[1] == "--json" else arguments[1]
    return None if (path.startswith("-") and path != "-") or not path else path


def explain(path: str) -> int:
    """Print the JSON document of a capture, or of a recording; return the exit status."""
    from whydrop.cli import ending
    from whydrop.cli.interruptible import analysed
    from whydrop.errors import Error
    from whydrop.explaining import completing

    try:
        found = completing.document(analysed([path], tables=False).document())
        ending.write_found(found)
    except (Error, OSError) as reason:
        return ending.not_analysed(reason, [path])
    return 0
