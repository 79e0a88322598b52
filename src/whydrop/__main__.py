"""The program ``whydrop``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the process ends with the exit status of the contract (0, 1 or 2; 130 after Ctrl-C)."""
    arguments = sys.argv[1:]
    from whydrop.cli import direct

    capture = direct.capture_of(arguments)
    if capture is not None:
        sys.exit(direct.explain(capture))

    try:
        from whydrop.cli.commands import whydrop
    except KeyboardInterrupt as reason:
        from whydrop.cli import ending

        sys.exit(ending.status(reason))

    sys.exit(whydrop.main(arguments, prog_name="whydrop", standalone_mode=True))


if __name__ == "__main__":
    main()
