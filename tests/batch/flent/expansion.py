"""Expand batch files as Flent does: run with a Python that can import Flent 2.3.0; prints JSON.

    build/flent-venv/bin/python tests/batch/flent/expansion.py FILE.batch...

The outcome is kept in ``expected.json``, with which our conversion is compared.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

KEPT = ("LENGTH", "DELAY", "STEP_SIZE", "IP_VERSION", "TITLE", "NOTE", "HOSTS", "TEST_PARAMETERS")


def expansion(path: str) -> list[dict[str, object]]:
    from flent import batch, settings

    made = settings.new()
    made.BATCH_FILES = [path]
    made.BATCH_SHUFFLE = False
    runner = batch.new(made)
    found = []
    for name, section in runner.batches.items():
        if section.get("abstract") or section.get("disabled") or not section.get("enabled", True):
            continue
        for values, run in runner.expand_argsets(
            section, runner.get_argsets(section), made.TIME, name, print_status=False, no_shuffle=True
        ):
            commands = [
                {key: command.get(key) for key in ("type", "exec", "essential", "kill")}
                for command in runner.commands_for(values, run)
            ]
            found.append(
                {
                    "batch": name,
                    "test": run.NAME,
                    "repetition": int(values["repetition"]),
                    "output": values.get("output_path"),
                    "pause": int(values.get("pause", 0)),
                    "commands": commands,
                    **{key.lower(): getattr(run, key) for key in KEPT},
                }
            )
    return found


if __name__ == "__main__":
    time = "BATCH-TIME"
    import flent.batch

    flent.batch.format_date = lambda *_arguments, **_named: time
    json.dump({Path(path).name: expansion(path) for path in sys.argv[1:]}, sys.stdout, indent=1, sort_keys=True)
    print()
