"""Where tests find the examples, and the type of the fixture ``run``. (A conftest cannot be imported by its name: there
are several.)"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
POLICED = EXAMPLES / "policed-download.pcap.zst"
POLICED_FAR = EXAMPLES / "policed-download-far.pcap.zst"

Run = Callable[..., subprocess.CompletedProcess[str]]
