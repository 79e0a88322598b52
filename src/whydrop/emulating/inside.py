"""The process that becomes an emulation: it has one thread, as user namespaces need, and loads nothing else.

::

    python -P -m whydrop.emulating.inside PARENT REPORT

Both are descriptors: of a pipe with the settings, which ends when the parent has ended, and of one for the report.
"""

from __future__ import annotations

import sys

from whydrop import _core

if __name__ == "__main__":
    _core.emulate(int(sys.argv[1]), int(sys.argv[2]))
