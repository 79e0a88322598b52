"""The tables of recorded tests in a store: one row for each recording, its metrics, and its delays.

A recording is known by the SHA-256 of its files together; it is in every row and in every key. Objects and lists are
JSON text, so that every engine reads them. Durations are nanoseconds.
"""

from __future__ import annotations

import polars as pl

from whydrop.store.capture_tables import Schema, columns

_I64, _F64, _TEXT, _BOOL = pl.Int64(), pl.Float64(), pl.String(), pl.Boolean()

_WHICH: Schema = {
    "time_ns": _I64,  # start of the recording
    "recording": _TEXT,  # SHA-256 of its files, as hexadecimal digits
}

RECORDINGS: Schema = {
    **_WHICH,
    "end_ns": _I64,
    **columns(_TEXT, "name title test status"),
    "failures": _TEXT,  # JSON list of texts
    "whydrop": _TEXT,  # version that measured
    "kernel": _TEXT,  # release, of the host that ran the test
    "batch": _TEXT,  # name
    "run": _TEXT,  # key in the batch
    "repetition": _I64,
    "seed": _I64,  # of the order of the runs
    "arguments": _TEXT,  # JSON list: of the batch's axes
    "variables": _TEXT,  # JSON object: of the batch
    "outputs": _TEXT,  # JSON object: what commands of the batch printed
    "load_start_ns": _I64,  # null: the test makes no load
    "load_end_ns": _I64,
    "last_start_ns": _I64,  # start of the flow that was the last to begin its load
    "step_ns": _I64,  # of table delays
}

# One row for each metric of a recording (docs/statistics.md), and counters of the queues that its batch kept.
METRICS: Schema = {
    **_WHICH,
    "metric": _TEXT,
    "name": _TEXT,
    "units": _TEXT,
    "value": _F64,  # null: not known
    "note": _TEXT,
}

# Induced delay over time: round-trip times of probes, less the median of the same stream's idle time before the load.
DELAYS: Schema = {
    "time_ns": _I64,  # start of the step
    "recording": _TEXT,
    "after_load_ns": _I64,  # start of the step, less load_start_ns
    **columns(_I64, "samples lost min_ns median_ns max_ns"),
}

# The same as a histogram.
DELAY_COUNTS: Schema = {
    **_WHICH,
    "load": _BOOL,  # under load; false: in the idle time before it
    "lower_ns": _I64,
    "upper_ns": _I64,  # not included
    "samples": _I64,
}

TABLES: dict[str, Schema] = {
    "recordings": RECORDINGS,
    "metrics": METRICS,
    "delays": DELAYS,
    "delay_counts": DELAY_COUNTS,
}
KEYS: dict[str, tuple[str, ...]] = {
    "recordings": ("recording",),
    "metrics": ("recording", "metric"),
    "delays": ("recording", "time_ns"),
    "delay_counts": ("recording", "load", "lower_ns"),
}
ORDER: dict[str, tuple[str, ...]] = {
    "recordings": ("time_ns", "recording"),
    "metrics": ("metric", "recording"),
    "delays": ("recording", "time_ns"),
    "delay_counts": ("recording", "load", "lower_ns"),
}
