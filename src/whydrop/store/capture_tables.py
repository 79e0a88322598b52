"""The tables of explained captures in a store: the JSON document of `whydrop explain`, flattened (docs/json.md).

A capture is known by the SHA-256 of its file, and explained once by each version of whydrop: both are in every row and
in every key. Lists are JSON text, so that every engine reads them.
"""

from __future__ import annotations

import polars as pl

Schema = dict[str, pl.DataType]

_I64, _F64, _TEXT, _BOOL = pl.Int64(), pl.Float64(), pl.String(), pl.Boolean()


def columns(kind: pl.DataType, names: str) -> Schema:
    """Columns of one type, by their names in a row."""
    return dict.fromkeys(names.split(), kind)


_WHICH: Schema = {
    "capture": _TEXT,  # SHA-256 of the file, as hexadecimal digits
    "whydrop": _TEXT,  # version of the program that explained it
}

# One row for each capture file, also for those that could not be analysed.
CAPTURES: Schema = {
    "time_ns": _I64,  # of the first packet; null where there is none
    "last_ns": _I64,
    **_WHICH,
    "path": _TEXT,  # where it was when it was explained
    "file_bytes": _I64,
    "modified_ns": _I64,
    "status": _TEXT,  # analysed, truncated (up to the damage), failed
    "message": _TEXT,  # of a failed one: why
    "format": _TEXT,
    "link_type": _TEXT,
    **columns(_I64, "snaplen packets duplicates out_of_order flows lost"),
    "cause": _TEXT,  # of the headline
    "confidence": _F64,
    "notes": _TEXT,  # JSON list of sentences
}

# One row for each direction of a TCP connection.
FLOWS: Schema = {
    "time_ns": _I64,  # of its first packet
    "end_ns": _I64,
    **_WHICH,
    "number": _I64,  # position in the document
    "flow": _TEXT,
    **columns(
        _I64,
        "packets payload_bytes lost retransmitted retransmitted_fast retransmitted_timeout "
        "retransmitted_tail_loss_probe retransmitted_unknown spurious reordered rtt_min_ns rtt_median_ns mss_bytes",
    ),
    "vantage": _TEXT,
    **columns(_I64, "missed_by_capture_bytes ce_marked ecn_echoes zero_windows"),
    "window_limited_share": _F64,
    "window_scale": _I64,
}

# One row for each transfer.
TRANSFERS: Schema = {
    "time_ns": _I64,  # of its first packet
    "end_ns": _I64,
    **_WHICH,
    "number": _I64,  # position in the document
    "flow": _TEXT,
    **columns(_I64, "payload_bytes packets lost"),
    "goodput_bps": _F64,
    "cause": _TEXT,
    "confidence": _F64,
}

# Parameters that verdicts have, in the design's names.
PARAMETERS = (
    "rate_bps", "burst_bytes", "peak_rate_bps", "peak_burst_bytes", "drain_rate_bps",
    "limit_packets", "limit_bytes",
)  # fmt: skip

# One row for each verdict; `number` 0 is the capture's headline.
VERDICTS: Schema = {
    "time_ns": _I64,  # of the capture's first packet
    **_WHICH,
    "number": _I64,
    "cause": _TEXT,
    "confidence": _F64,
    "lost": _I64,
    "explained": _F64,
    "limited_share": _F64,
    # The value, and the ends of its 95 % interval: null where that end is open
    **{name + end: _F64 for name in PARAMETERS for end in ("", "_low", "_high")},
    "other_parameters": _TEXT,  # JSON object: those that have no column
    "byte_basis": _TEXT,
    "family": _TEXT,
    "throughput_lost_bps": _F64,
    "throughput_lost_share": _F64,
    "sentence": _TEXT,
    "flows": _TEXT,  # JSON lists
    **columns(_TEXT, "evidence against advice"),
}

TABLES: dict[str, Schema] = {"captures": CAPTURES, "flows": FLOWS, "transfers": TRANSFERS, "verdicts": VERDICTS}
