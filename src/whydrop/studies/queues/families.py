"""Families of queueing disciplines, by the names of `tc`, as the study compares them."""

from __future__ import annotations

# One queue for all flows, with active queue management (AQM).
SINGLE = ("ared", "red", "pie", "codel")
SINGLE_OF_2014 = ("ared", "pie", "codel")
# A queue for each flow (fair queueing, FQ), with AQM or without.
FAIR_OF_2014 = ("sfq", "fq_codel", "fq_nocodel")
FAIR_SINCE = ("fq_pie", "cake")
FAIR = (*FAIR_OF_2014, *FAIR_SINCE)

# Words for those of which the name is not that of `tc`.
WORDS = {
    "ared": "ARED", "red": "RED", "pie": "PIE", "codel": "CoDel", "dualpi2": "DualPI2",
    "sfq": "SFQ", "fq_codel": "FQ-CoDel", "fq_nocodel": "FQ without CoDel", "fq_pie": "FQ-PIE", "cake": "CAKE",
}  # fmt: skip


def sort_key(queue: str) -> tuple[int, str]:
    """The place of a queue in tables and pictures: without AQM, single queues, fair queues, others."""
    order = ("pfifo_fast", *SINGLE, "dualpi2", *FAIR)
    return (order.index(queue) if queue in order else len(order), queue)
