"""Linux's ``tcp_info`` (include/uapi/linux/tcp.h) as columns of the table tcp, from any program.

tcp-info records the structure as bytes, NDT5 and NDT7 as JSON with M-Lab's names of its fields; both are brought to a
frame of the names in `FIELDS` here (whole numbers, null where absent) and then to the table's columns and units.
"""

from __future__ import annotations

import polars as pl

from whydrop.formats.archives.columns import scaled

# Offset in the structure and size. Older kernels' structures are shorter: what they lack is null.
FIELDS: dict[str, tuple[int, int]] = {
    "State": (0, 1), "CAState": (1, 1), "Retransmits": (2, 1), "AppLimited": (7, 1),
    "RTO": (8, 4), "SndMSS": (16, 4), "Unacked": (24, 4), "Lost": (32, 4),
    "RTT": (68, 4), "RTTVar": (72, 4), "SndSsThresh": (76, 4), "SndCwnd": (80, 4),
    "TotalRetrans": (100, 4), "PacingRate": (104, 8), "MaxPacingRate": (112, 8),
    "BytesAcked": (120, 8), "BytesReceived": (128, 8), "SegsOut": (136, 4), "SegsIn": (140, 4),
    "NotsentBytes": (144, 4), "MinRTT": (148, 4), "DataSegsOut": (156, 4), "DeliveryRate": (160, 8),
    "BusyTime": (168, 8), "RWndLimited": (176, 8), "SndBufLimited": (184, 8),
    "Delivered": (192, 4), "DeliveredCE": (196, 4), "BytesSent": (200, 8), "BytesRetrans": (208, 8),
    "DSackDups": (216, 4), "ReordSeen": (220, 4), "SndWnd": (228, 4),
}  # fmt: skip

# As Linux numbers them (include/net/tcp_states.h), by RFC 9293's names.
STATES = (
    "ESTABLISHED", "SYN-SENT", "SYN-RECEIVED", "FIN-WAIT-1", "FIN-WAIT-2", "TIME-WAIT", "CLOSED", "CLOSE-WAIT",
    "LAST-ACK", "LISTEN", "CLOSING", "SYN-RECEIVED",
)  # fmt: skip

# Of the congestion control (enum tcp_ca_state), by the names of a recording's tcp_info.
CONGESTION_STATES = ("open", "disorder", "reduced", "recovery", "loss")

_US = 10**3
NO_RTT = 0xFFFFFFFF  # tcpi_min_rtt before the first sample
_NO_THRESHOLD = 0x7FFFFFFF  # TCP_INFINITE_SSTHRESH, segments

_COUNTS = {
    "acked_bytes": "BytesAcked", "received_bytes": "BytesReceived", "sent_bytes": "BytesSent",
    "sent_segments": "SegsOut", "sent_data_segments": "DataSegsOut", "received_segments": "SegsIn",
    "retransmitted_segments": "TotalRetrans", "retransmitted_bytes": "BytesRetrans", "lost_segments": "Lost",
    "mss_bytes": "SndMSS", "receive_window_bytes": "SndWnd", "current_timeout_count": "Retransmits",
    "delivered_packets": "Delivered", "delivered_ce_packets": "DeliveredCE", "reordering_seen": "ReordSeen",
    "not_sent_bytes": "NotsentBytes", "duplicate_sacks": "DSackDups",
}  # fmt: skip
# In µs.
_TIMES = {"busy_ns": "BusyTime", "receiver_limited_ns": "RWndLimited", "send_buffer_limited_ns": "SndBufLimited"}
# Bytes a second. The largest number of 64 bits is "unlimited", and reads as -1; zero: no rate yet.
_RATES = {
    "pacing_rate_bps": "PacingRate", "max_pacing_rate_bps": "MaxPacingRate", "delivery_rate_bps": "DeliveryRate",
}  # fmt: skip


def columns() -> list[pl.Expr]:
    """Expressions over a frame of `FIELDS` (all ``Int64``), one for each column of ``tcp`` that Linux reports."""
    threshold = pl.when(pl.col("SndSsThresh") < _NO_THRESHOLD).then("SndSsThresh")
    # A smoothed round-trip time of zero is one that was never measured, as is a variation beside it.
    measured = pl.col("RTT") > 0
    min_rtt = pl.when((pl.col("MinRTT") > 0) & (pl.col("MinRTT") < NO_RTT)).then("MinRTT")
    return [
        *(scaled(pl.col(field)).alias(column) for column, field in _COUNTS.items()),
        *(scaled(pl.col(field), _US).alias(column) for column, field in _TIMES.items()),
        *(
            pl.when(pl.col(field) > 0).then(pl.col(field).cast(pl.Float64) * 8).alias(column)
            for column, field in _RATES.items()
        ),
        _product(pl.col("SndCwnd"), pl.col("SndMSS")).alias("congestion_window_bytes"),
        _product(threshold, pl.col("SndMSS")).alias("slow_start_threshold_bytes"),
        _product(pl.col("Unacked"), pl.col("SndMSS")).alias("flight_bytes"),
        scaled(pl.when(measured).then("RTT"), _US).alias("srtt_ns"),
        scaled(pl.when(measured).then("RTTVar"), _US).alias("rtt_variation_ns"),
        scaled(min_rtt, _US).alias("min_rtt_ns"),
        scaled(pl.when(pl.col("RTO") > 0).then("RTO"), _US).alias("retransmission_timeout_ns"),
        # The lowest bit of a byte; the ones above it are of TCP Fast Open. Its rate came with Linux 4.9.
        pl.when(pl.col("DeliveryRate").is_not_null())
        .then(pl.col("AppLimited") % 2 == 1)
        .alias("delivery_rate_app_limited"),
        pl.col("CAState")
        .replace_strict(dict(enumerate(CONGESTION_STATES)), default=None, return_dtype=pl.String)
        .alias("congestion_state"),
        pl.col("State").replace_strict(dict(enumerate(STATES, 1)), default=None, return_dtype=pl.String).alias("state"),
    ]


def _product(segments: pl.Expr, bytes_each: pl.Expr) -> pl.Expr:
    """Segments as bytes; both are below 2^32 in the structure, but JSON holds what it likes."""
    fits = (segments >= 0) & (segments < 1 << 32) & (bytes_each >= 0) & (bytes_each < 1 << 31)
    return pl.when(fits).then(segments * bytes_each)
