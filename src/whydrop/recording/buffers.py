"""When a send buffer limits a flow: the thresholds of the run, which warns of it, and of what explains recordings."""

from __future__ import annotations

# Linux wakes who waits for room in a send buffer when a third of it is free (sk_stream_is_writeable): until then the
# buffer stops the application.
BUFFER_FULL = 2 / 3
# A flow whose round trip is this many times its least waits in a queue: a larger buffer would wait there too.
WAITS_IN_QUEUE = 1.25
# The kernel's clock of the send buffer runs while nothing that was written is unsent. Where it ran for this share of
# an interval, the buffer was emptied again and again in it.
RUNS_DRY = 0.1
# Congestion controls that send by their estimate of the path's rate, and keep a window of twice what that needs.
BY_RATE = frozenset({"bbr", "bbr1", "bbr2", "bbr3"})
