"""Senders, receivers and their applications: headlines, evidence for and against, and advice."""

from __future__ import annotations

from whydrop.explaining.words.common import BESIDES, MOSTLY_CLOSED, Advice, Derived, Phrases, Values
from whydrop.text.phrases import table

# Shares round to whole percent: a half is not most.
_MOST_OF_THE_TIME = 0.505

_AT_THE_SENDER = {
    "application": "its application had nothing to send",
    "send-buffer": "its send buffer was full of unacknowledged data",
    "pacing": "it paces packets at a set rate",
}


def _limited_by_sender(v: Values) -> str:
    if v.get("limiter") in _AT_THE_SENDER:
        share = min(v.get("limiter_share", 1.0), v["limited_share_of_all"])
        part = "most" if share > _MOST_OF_THE_TIME else "{limiter_part:percent}"
        return f"The sender, not the path, limited the flow: {_AT_THE_SENDER[v['limiter']]} for {part} of the time."
    return (
        "The sender, not the path, limited the flow: [!lost_besides?nothing was lost, ]no queue grew"
        f"[window_known?, the receive window was open]{BESIDES}."
    )


def with_limiter_part(v: Values) -> Derived:
    """The share of time that the sender limited the flow."""
    return {"limiter_part": min(v.get("limiter_share", 1.0), v.get("limited_share_of_all", 1.0))}


# A wait that a person feels, and what is long for a transfer.
_FELT_S = 0.5
_LONG_S = 1.0


def _nothing_lost(v: Values) -> str:
    if v.get("longest_trip_s", 0.0) > _FELT_S:
        return "Nothing was lost. The round-trip time is long, up to {longest_trip_s}, and limits the transfers."
    if v.get("others_waited"):
        return "Nothing was lost in these flows, and no cause of their own delayed them."
    if v.get("lasted_s", 0.0) > _LONG_S:
        return "Nothing was lost, and nothing explains why data was in flight for {lasted_s}."
    return "Nothing was lost and nothing was delayed for long."


def _closed(v: Values) -> bool:
    return bool(v.get("closed_share", 0.0) > MOSTLY_CLOSED)


HEADLINES: Phrases = {
    **table("""
    answered-late: The application that sends the data was slow to answer: this took {limited_s}, {limited_share} of
        the transfers' time.
    acknowledgments-delayed: The receiver delayed acknowledgments for {limited_s}, {limited_share} of the transfers'
        time.
    window-misread: The sender reads the receive window {factor} times too small: the window scale option was lost.
    window-unscaled: The receive window cannot exceed 64 KiB: the SYN of {side} came without the window scale option.
    """),
    "limited-by-window": lambda v: (
        (
            "The receiving application did not read: the receive window was closed for {closed_s} while data was ready"
            if _closed(v)
            else "The receive window limited the sender for {window_share:share} of the time"
        )
        + f"[lost_besides?{BESIDES}|; the path dropped nothing]."
    ),
    "limited-by-sender": _limited_by_sender,
    "nothing-lost": _nothing_lost,
    "unexplained": lambda v: (
        "No cause explains the duration of the transfers clearly better than the others."
        if not v["lost"]
        else "{lost|lost packet}: too few to name a cause."
        if v.get("few")
        else "{lost|lost packet}: no cause explains the loss clearly better than the others."
    ),
}

# For flows beside others that did lose packets.
NOTHING_LOST_HERE = "These flows lost nothing, and nothing delayed them for long."

EVIDENCE: Phrases = {
    **table("""
    window-full: for {window_share:share} of the {busy_s} in which data was in flight, less than one segment of the
        receive window was free
    window-closed: the receiver closed its window completely {times|time}[closed_s?: data was blocked for {closed_s}
        in all[probes?, and the sender probed the window {probes|time}]]
    window-open: the receive window was [window_share?full for {window_share:share} of the time|never full]
    window-shrank: the receiver's SYN offered {offered_bytes:exact_size} and no scale that the sender could see; its
        next window reads {read_bytes:exact_size}, although nothing was sent to fill it
    window-capped: the SYN of {side} has no window scale, so that no window exceeds 64 KiB; the largest was
        {window_bytes:exact_size}, and it was full for {window_share} of the time
    application-silent: all data was acknowledged, and the sender sent nothing more for {limited_s}, {limited_share}
        of the time
    arrives-evenly: packets arrive evenly, at {rate_bps} for {steady_share} of the time: either a link of that rate is
        full, or the sender paces its packets. TCP timestamps, or a capture at the sender, would show which
    idle: nothing was in flight for {idle_share} of the time between first and last data
    paused-unseen: data paused for {paused_share} of the time, for longer than a round trip each time; the reason is
        not known because no acknowledgments were captured
    standing-queue-unseen: the amount of data in flight stays constant, at the size of the receive window or of the send
        buffer; the capture does not show which, because it has no acknowledgments
    """),
    "nothing-lost-in-flight": lambda v: (
        "in the {busy_s} in which data was in flight[ ({round_trips|round trip})], "
        "[lost_besides?{lost_besides|packet} did not arrive|nothing was lost]; "
        + (
            "the scale of the receive window is unknown"
            if v["window_share"] is None
            else "the receive window was [window_share?full for {window_share:share} of the time|never full]"
        )
    ),
}


def _receiver_window(v: Values) -> Derived:
    rtt_s = v["base_rtt_s"]
    window = v["goodput_bps"] / 8.0 * rtt_s
    # Less than a segment in a round trip: the window was closed, or the round trip is not that of the path.
    return {
        "is_slow": _closed(v),
        "window_bytes": window if window >= v["mss_bytes"] else None,
        "gigabit_bytes": 1e9 / 8.0 * rtt_s,
        "rmem": f"{max(2.0 * 1e9 / 8.0 * rtt_s, 6_291_456.0):.0f}",
    }


ADVICE: Advice = {
    ("receiver-window", None): (
        "[is_slow?A larger buffer does not help: the receiving application reads more slowly than data arrives, or "
        "stops reading. Find what delays it (disk, processor, a lock, its own output). On the receiver, Recv-Q is the "
        "data that the application has not read:]",
        "[is_slow?$ ss -tinmp state established]",
        "[!is_slow?[window_bytes?The receive window allows about {window_bytes} per round trip of {base_rtt_s}. Twice "
        "the rate needs twice the window; 1 Gbit/s on this path needs {gigabit_bytes}.]]",
        "[!is_slow?On the receiver, allow a larger buffer. Check that the application neither sets SO_RCVBUF nor reads "
        "slowly:]",
        "[!is_slow?$ sysctl -w net.ipv4.tcp_rmem='4096 131072 {rmem}']",
    ),
    ("sender", None): (
        "The sender limits this flow, not the path or the receiver. See whether the application has data ready, "
        "whether its send buffer is large enough, and what limits the socket:",
        "$ ss -tinm | grep -A1 -E 'sndbuf_limited|rwnd_limited|app_limited'",
    ),
    ("peer-application", None): (
        "The path was idle while the application worked. Look at its own log and at what it depends on (a database, a "
        "disk, another service). On that host, list requests that are unread or unanswered:",
        "$ ss -tinmp | grep -A1 ESTAB",
    ),
    ("delayed-ack", None): (
        "A sender with only one or two segments in flight has to stop until the receiver's timer expires (RFC 1122). "
        "Let it send more: a larger send buffer (no SO_SNDBUF), or TCP_NODELAY if it writes small pieces (Nagle's "
        "algorithm):",
        "$ sysctl -w net.ipv4.tcp_wmem='4096 262144 4194304'",
        "Or have the receiver acknowledge at once, on its route to the sender:",
        "$ ip route change ROUTE quickack 1",
    ),
    ("window-scaling", None): (
        "See whether both ends offer window scaling (1), and capture the SYN at both ends: a firewall or a load "
        "balancer between them may remove the option:",
        "$ sysctl net.ipv4.tcp_window_scaling",
        "$ tcpdump -nvi DEV 'tcp[tcpflags] & tcp-syn != 0'",
    ),
    ("unknown", None): (
        "No cause stands out. A longer capture, one taken at the sender, or a second one behind the suspected hop "
        "would show more.",
    ),
}

DERIVED = {"receiver-window": _receiver_window}
