"""The program ``whydrop``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the process ends with the documented exit status (0, 1 or 2; 130 after Ctrl-C)."""
    try:
        sys.exit(_run(sys.argv[1:]))
    except (KeyboardInterrupt, OSError) as reason:
        from whydrop.cli import ending

        sys.exit(ending.status(reason))


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
