"""Why a measured path delayed or dropped packets: verdicts from a recording of a test.

A recording shows less than a capture: no packets, only the delays and losses of probes and flows over time.
``measures`` turns its tables into numbers with intervals and names no cause; ``causes`` turns these into findings, each
a cause with its log-likelihood ratio against the background; one reducer makes verdicts of findings; ``wording`` puts
them into words.
"""
