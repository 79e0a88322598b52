"""The program ``whydrop``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; the process ends with the documented exit status (0, 1 or 2; 130 after Ctrl-C)."""
    _open_closed_streams()
    try:
        sys.exit(_run(sys.argv[1:]))
    except (KeyboardInterrupt, OSError) as reason:
        from whydrop.cli import ending

        sys.exit(ending.status(reason))


def _open_closed_streams() -> None:
    """Lead streams that the caller has closed (``>&-``) to nowhere, so that no file takes their place."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")


def _run(arguments: list[str]) -> int:
    from whydrop.cli import direct

    capture = direct.capture_of(arguments)
    if capture is not None:
        return direct.explain(capture)

    from whydrop.cli.commands import whydrop

    status: int = whydrop.main(arguments, prog_name="whydrop", standalone_mode=True)
    return status


if __name__ == "__main__":
    main()
