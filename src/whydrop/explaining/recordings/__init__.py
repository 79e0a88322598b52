"""Why a measured path made packets wait, or dropped them: verdicts from a recording of a test.

A recording tells less than a capture: no packet, but what probes and flows met in time. ``measures`` turns its tables
into numbers with intervals and names nothing; ``naming`` turns these into findings, each a cause with its
log-likelihood ratio against the background; one reducer makes verdicts of findings; ``phrases`` puts them into words.
"""
