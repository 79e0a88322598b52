"""The end of a process behind that of its server: a server that is killed cannot end its processes itself."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time


def end_with_parent(grace_s: float = 0.0) -> None:
    """End this process when the one that started it has ended, whatever it does then.

    Args:
        grace_s: what the process has for an end of its own, as to keep what was measured.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        time.sleep(grace_s)
        os._exit(1)

    threading.Thread(target=wait, name="end with the server", daemon=True).start()
