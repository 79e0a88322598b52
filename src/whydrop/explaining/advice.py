"""Advice on a cause: specific, with the arithmetic, and commands to paste (lines that begin with ``$ ``)."""

from __future__ import annotations

import math

from whydrop.explaining import datagrams
from whydrop.explaining.filling import fill

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Values = Mapping[str, Any]

# Pace this far below a limit: the rate is known to a few per cent, and its byte basis may not be.
_PACE_SHARE = 0.95

# What holds all headers of Ethernet, VLAN tags, IPv6 and TCP with options.
_HEADERS_BYTES = 128

# Beyond this share nothing else is told of a capture's flows.
_MOST_MISSING = 0.4

# A window that is closed for so much of the time that it holds its sender back is not too small: nobody reads.
_MOSTLY_CLOSED = 0.1

_READ_SOONER = [
    "A larger buffer only fills later: the receiving application reads more slowly than data comes, "
    "or stops. See what it waits for (a disk, a processor, a lock, a screen, what it passes the data on to). On the "
    "receiver, Recv-Q is the data that the application has not read:",
    "$ ss -tinmp state established",
]

_BBR = "$ sysctl -w net.ipv4.tcp_congestion_control=bbr"


def advice(verdict: Mapping[str, Any], snaplen_bytes: int | None = None) -> list[str]:
    """Sentences, and commands; none for a cause that this version has no advice on.

    ``snaplen_bytes`` is the most that was kept of a packet, where that is known.
    """
    cause, detail = verdict["cause"], verdict.get("detail")
    has_own = (cause, detail or "") in datagrams.ADVICE
    fixed = _FIXED.get((cause, detail)) or _FIXED.get((cause, None))
    if fixed is not None and not has_own:
        return list(fixed)
    write = _BY_CAUSE.get(cause)
    if write is None and not has_own:
        return []
    path: Values = next((fact["values"] for fact in verdict["facts"] if fact["code"] == "path"), {})
    parameters = {name: quantity["value"] for name, quantity in verdict["parameters"].items()}
    values = {"base_rtt_s": 0.0, "mss_bytes": 1460.0, "goodput_bps": 0.0}
    values |= {name: value for name, value in path.items() if value is not None}
    headline: Values = verdict["facts"][0]["values"] if verdict["facts"] else {}
    is_ipv6 = any(flow.startswith("[") for flow in verdict.get("flows", ())[:1])
    about = {"snaplen_bytes": snaplen_bytes or 1 << 18, "detail": detail, "is_ipv6": is_ipv6}
    ends = {
        f"{name}_{end}": quantity[end] for name, quantity in verdict["parameters"].items() for end in ("low", "high")
    }
    every = {**headline, **values, **parameters, **ends, **about}
    own = datagrams.advice(cause, detail, every)
    return own if own is not None else write(every) if write else []


def _kbit(rate_bps: float) -> str:
    return f"{rate_bps * _PACE_SHARE / 1e3:.0f}kbit"


def _pace(rate_bps: float) -> str:
    return f"$ tc qdisc replace dev DEV root fq maxrate {_kbit(rate_bps)}"


def _policer(v: Values) -> list[str]:
    if "rate_bps" not in v or "burst_bytes" not in v:
        return []
    policed, burst, rtt_s = v["rate_bps"], v["burst_bytes"], v["base_rtt_s"]
    lines = [
        fill(
            "Pace the sender below the policer, at {paced_bps}, and it has nothing to drop (DEV is the sender's "
            "interface; fq paces each flow, so divide by the number of flows that share the policer):",
            {"paced_bps": policed * _PACE_SHARE},
        ),
        _pace(policed),
        "Or shape all of them together, with a queue instead of drops:",
        f"$ tc qdisc replace dev DEV root tbf rate {_kbit(policed)} burst {min(max(burst, 3e3), 32e3):.0f} "
        "latency 50ms",
    ]
    if "peak_rate_bps" not in v:
        lines.append(
            "One bucket was seen to bind. Another, of a higher rate and a smaller burst, may stand beside it and show "
            "only in faster bursts: pacing evenly keeps below that, too."
        )
    if rtt_s > 0:
        needed = sawtooth_burst_bytes(policed, rtt_s, v["mss_bytes"])
        lines.append(
            fill(
                "Ask whoever runs the policer for a shaper, or for a larger bucket: one TCP (Reno) flow with a round "
                "trip of {base_rtt_s} needs {needed_bytes} to fill {rate_bps}; {burst_bytes} is {enough}.",
                {**v, "needed_bytes": needed, "enough": "too small" if burst < needed else "large enough"},
            )
        )
    return lines


def sawtooth_burst_bytes(rate_bps: float, rtt_s: float, mss_bytes: float) -> float:
    """Tokens that the sawtooth of one Reno flow (RFC 5681) spends above its mean rate.

    The window swings between 2/3 and 4/3 of the bandwidth-delay product P, growing by one segment a round trip; its
    upper half lasts P/(3 MSS) round trips and exceeds the mean by P/6 in each, together P^2 / (18 MSS). At least P
    itself, for slow start.

    >>> round(sawtooth_burst_bytes(20e6, 0.040, 1448)), sawtooth_burst_bytes(1e6, 0.010, 1448)
    (383671, 1250.0)
    """
    product = rate_bps / 8.0 * rtt_s
    return max(product * product / (18.0 * max(mss_bytes, 1.0)), product)


def _shallow_queue(v: Values) -> list[str]:
    if "drain_rate_bps" not in v or "limit_bytes" not in v:
        return []
    drain, limit = v["drain_rate_bps"], v["limit_bytes"]
    product = drain / 8.0 * v["base_rtt_s"]
    lines = []
    if product >= limit + v["mss_bytes"]:
        lines.append(
            fill(
                "The queue holds {limit_bytes}; one flow needs a bandwidth-delay product of {product_bytes} "
                "({drain_rate_bps} x {base_rtt_s}) to keep the link busy, n flows that product over the square root "
                "of n (Appenzeller et al. 2004): {missing_bytes} are missing.",
                {**v, "product_bytes": product, "missing_bytes": product - limit},
            )
        )
    smoothly = "Bursts overflow it, so send smoothly: pace at {paced_bps} or below (DEV is the sender's interface):"
    return [*lines, fill(smoothly, {"paced_bps": drain * _PACE_SHARE}), _pace(drain)]


def _deep_queue(v: Values) -> list[str]:
    if "drain_rate_bps" not in v:
        return []
    below = _kbit(v["drain_rate_bps"])
    return [
        "Manage the queue where it stands: just below the link's rate, on the router's interface DEV before it, so "
        "that the queue forms under your control:",
        f"$ tc qdisc replace dev DEV root cake bandwidth {below}",
        "Or, where cake is missing, fq_codel behind a rate limit:",
        "$ tc qdisc replace dev DEV root handle 1: htb default 1 && tc class add dev DEV parent 1: classid 1:1 htb "
        f"rate {below} && tc qdisc add dev DEV parent 1:1 fq_codel",
        "If only the sender is yours: a congestion control that does not fill queues, or pacing below the drain rate:",
        _BBR,
    ]


def _shaper(v: Values) -> list[str]:
    if "typical_wait_s" in v:
        return [
            "See what else fills the way back, which acknowledgments share (RFC 3449). Manage the queue where it "
            "stands, on the router's interface DEV towards the sender, just below the link's rate:",
            "$ tc qdisc replace dev DEV root cake bandwidth RATE ack-filter",
        ]
    if "rate_bps" not in v:
        return []
    shaped = (
        "The path is shaped to {rate_bps}: more needs another contract or another path. To avoid the wait in the "
        "shaper's queue, pace below it:"
    )
    return [fill(shaped, v), _pace(v["rate_bps"])]


def _aqm(v: Values) -> list[str]:
    if v.get("ecn_in_use"):
        return ["The queue signals congestion early to keep delay short: it works as intended."]
    return [
        "The queue drops early to keep delay short: it works as intended. With ECN it can mark instead of dropping:",
        "$ sysctl -w net.ipv4.tcp_ecn=1",
    ]


def _random_loss(v: Values) -> list[str]:
    lines = [
        "Losses that follow neither load nor time are those of a broken link rather than of a full one. Look for "
        "errors on each hop's interfaces, optical power, duplex, radio:",
        "$ ethtool -S DEV | grep -Ei 'err|drop|crc|fcs'",
        "$ ip -s -s link show DEV",
    ]
    return [*lines, *_more_despite_loss(v)]


# An interval of rates that spans more than this says nothing.
_WIDEST_RATES = 4.0


def _more_despite_loss(v: Values) -> list[str]:
    """Rates that a sender gets at this share lost, and what does better; nothing where losses do not limit it."""
    if v.get("link_is_full"):
        full = "The link of {link_rate_bps} is full: without the losses a transfer gets no more than that."
        return [fill(full, v)]
    low, high = v.get("loss_probability_low"), v.get("loss_probability_high")
    if not low or not high or v["base_rtt_s"] <= 0:
        return []
    segment_bits = v["mss_bytes"] * 8.0
    least_bps = segment_bits / _reno_segment_s(high, v["base_rtt_s"])
    most_bps = segment_bits * max(_reno_window(low), _cubic_window(low, v["base_rtt_s"])) / v["base_rtt_s"]
    most_bps = min(most_bps, v.get("link_rate_bps") or math.inf)
    # Who gets more does not follow his losses, or the round trip is another than the one that was seen.
    if v["goodput_bps"] > most_bps:
        return []
    if most_bps > _WIDEST_RATES * least_bps:
        return ["A loss-based congestion control takes each loss for congestion; BBR depends on loss far less:", _BBR]
    gets = (
        "At this loss rate and a round trip of {base_rtt_s} a loss-based congestion control gets {least_bps} to "
        "{most_bps} in the long run (Mathis et al. 1997, Padhye et al. 1998, RFC 9438); BBR depends on loss far less:"
    )
    return [fill(gets, {**v, "least_bps": least_bps, "most_bps": most_bps}), _BBR]


def _reno_window(loss_share: float) -> float:
    """Segments of the mean window of Reno without timeouts: Mathis et al. 1997, an acknowledgment for each segment.

    >>> round(_reno_window(0.01), 1)
    12.2
    """
    return math.sqrt(1.5 / loss_share)


def _cubic_window(loss_share: float, rtt_s: float) -> float:
    """Segments of the mean window of CUBIC, beyond its region of Reno: RFC 9438, section 5.1, with its constants.

    >>> round(_cubic_window(1e-4, 0.1))
    187
    """
    return 1.054 * math.pow(rtt_s / loss_share, 0.75)


def _reno_segment_s(loss_share: float, rtt_s: float) -> float:
    """Time that Reno takes for each segment: equation 30 of Padhye et al. 1998, with Linux's timer."""
    timer_s = rtt_s + 0.2
    repeats = min(1.0, 3.0 * math.sqrt(3.0 * loss_share / 8.0))
    by_timers_s = timer_s * repeats * loss_share * (1.0 + 32.0 * loss_share**2)
    return rtt_s * math.sqrt(2.0 * loss_share / 3.0) + by_timers_s


def _receiver_window(v: Values) -> list[str]:
    if v.get("closed_share", 0.0) > _MOSTLY_CLOSED:
        return _READ_SOONER
    rtt_s = v["base_rtt_s"]
    lines = []
    window = v["goodput_bps"] / 8.0 * rtt_s
    # Less than a segment in a round trip: the window was closed, or the round trip is not that of the path.
    if window >= v["mss_bytes"]:
        lets_out = (
            "The receiver's window lets about {window_bytes} out per round trip of {base_rtt_s}. For twice the rate "
            "it needs twice that; for 1 Gbit/s on this path, {gigabit_bytes}."
        )
        lines.append(fill(lets_out, {**v, "window_bytes": window, "gigabit_bytes": 1e9 / 8.0 * rtt_s}))
    return [
        *lines,
        "On the receiver, allow a larger buffer, and see that the application neither sets SO_RCVBUF nor reads slowly:",
        f"$ sysctl -w net.ipv4.tcp_rmem='4096 131072 {max(2.0 * 1e9 / 8.0 * rtt_s, 6_291_456.0):.0f}'",
    ]


def _capture_loss(v: Values) -> list[str]:
    if v.get("acknowledged") == 0:
        return [
            "What is missing was filtered out, sampled or not recorded. Explain the capture as it was taken, before a "
            "display filter, with both directions; or take a new one without sampling, of all that the connection "
            "sends:",
            "$ tcpdump -i DEV -s 128 -B 65536 -w FILE.pcap host HOST and tcp port PORT",
        ]
    if v.get("missed_share", 0.0) > _MOST_MISSING:
        return [
            "So much is missing that nothing is known of the path or the hosts. Where the capture was sampled or "
            "filtered, explain it as it was taken; else give it a larger buffer:",
            "$ tcpdump -i DEV -s 128 -B 65536 -w FILE.pcap",
        ]
    kept = min(v["snaplen_bytes"], _HEADERS_BYTES)
    shorter = "a shorter snapshot, " if kept < v["snaplen_bytes"] else ""
    return [
        f"The capture lacks packets: give it {shorter}a larger buffer or a filter:",
        f"$ tcpdump -i DEV -s {kept} -B 65536 -w FILE.pcap",
    ]


def _mtu(v: Values) -> list[str]:
    if v.get("detail") == "joined":
        return [
            "On the router that told, and on what is before it, packets that are forwarded must not be joined:",
            "$ ethtool -K DEV lro off gro off",
            "$ ethtool -k DEV | grep -E 'large-receive|generic-receive'",
        ]
    largest = v.get("mtu_bytes", 1500.0)
    # of IP, without options, and ICMP
    headers = 48 if v["is_ipv6"] else 28
    lines = [
        f"Find the largest packet that passes, without fragmentation ({headers} bytes are headers):",
        f"$ ping -M do -c 3 -s {largest - headers:.0f} HOST",
    ]
    if v.get("detail") == "black-hole":
        lines.append('Let ICMP "fragmentation needed" and ICMPv6 "packet too big" pass every filter (RFC 4890).')
    return [
        *lines,
        "On the router before the narrow link, have TCP send less from the start:",
        "$ nft add rule inet filter forward tcp flags syn tcp option maxseg size set rt mtu",
        "Or on the sender, probe for it (RFC 4821):",
        "$ sysctl -w net.ipv4.tcp_mtu_probing=1",
    ]


def _idle_timeout(v: Values) -> list[str]:
    often = max(v.get("survived_s") or v.get("idle_s", 60.0) / 2, 10.0)
    return [
        "Send something before the state is forgotten: keep-alives of the application, or of the kernel, which the "
        "application must ask for (SO_KEEPALIVE). On either end:",
        f"$ sysctl -w net.ipv4.tcp_keepalive_time={often:.0f} net.ipv4.tcp_keepalive_intvl=10",
        "Or have the firewall or translator remember for as long as RFC 5382 asks for, 2 h 4 min; on Linux:",
        "$ sysctl -w net.netfilter.nf_conntrack_tcp_timeout_established=7440",
    ]


# What is said whatever was measured, by cause and detail; without a detail for those that have none of their own.
_FIXED: Mapping[tuple[str, str | None], list[str]] = {
    ("reordering", None): [
        "Packets overtake each other. Look for load balancing per packet instead of per flow (link "
        "aggregation, ECMP), or for links of unequal delay used as one.",
        "Until then let the sender tolerate it:",
        "$ sysctl -w net.ipv4.tcp_reordering=30",
    ],
    ("sender", None): [
        "Neither the path nor the receiver holds this flow back: its sender does. See whether the application has "
        "data ready, whether its send buffer is large enough, and what limits the socket:",
        "$ ss -tinm | grep -A1 -E 'sndbuf_limited|rwnd_limited|app_limited'",
    ],
    ("capture-loss", "one-direction"): [
        "Capture both directions: the packets of the other one pass elsewhere. On the host itself both do; of a "
        "mirror port ask for both, and where the ways differ, merge two captures:",
        "$ mergecap -w BOTH.pcap ONE.pcap OTHER.pcap",
    ],
    ("peer-application", None): [
        "The path was idle while the application thought: look there, at its own log, or at what it waits for (a "
        "database, a disk, another service). On that host, see which requests stand unread or unanswered:",
        "$ ss -tinmp | grep -A1 ESTAB",
    ],
    ("delayed-ack", None): [
        "A sender that may have only a segment or two out waits for the receiver's timer (RFC 1122). Let it send on: a "
        "larger send buffer (no SO_SNDBUF), or TCP_NODELAY where it writes in small pieces (Nagle's algorithm):",
        "$ sysctl -w net.ipv4.tcp_wmem='4096 262144 4194304'",
        "Or let the receiver acknowledge at once, on its route to the sender:",
        "$ ip route change ROUTE quickack 1",
    ],
    ("no-answer", None): [
        "See whether the host is up and reachable, and whether a filter drops the packets: probe the same port, which "
        "tells how far they get:",
        "$ tcptraceroute HOST PORT",
        "A capture on the host itself tells whether they arrive there.",
    ],
    ("refused", None): [
        "See whether the service runs and listens on that address and port, on the host itself:",
        "$ ss -ltnp",
    ],
    ("peer-application", "unanswered"): [
        "The host's kernel took the request. Either its application did not read it, or does not answer; or the answer "
        "was lost on its way, which a capture on that host shows. Look at the application's log, and at what it waits "
        "for (a database, a lock, a full pool of workers). On that host, see requests that it has not read (Recv-Q of "
        "connections) and connections that it has not accepted (Recv-Q of listeners):",
        "$ ss -tinmp state established",
        "$ ss -ltn",
    ],
    ("unknown", "set-up"): [
        "See on the host whether its queue of new connections overflows, which drops SYNs; else packets are "
        "lost on the way:",
        "$ nstat -az TcpExtListenOverflows TcpExtListenDrops",
        "$ ss -ltn",
    ],
    ("reset", "in-place-of-answer"): [
        "Something does not want this request: the application crashed on it or refuses it, or a filter on the path "
        "that reads requests (a name, a certificate, a protocol) resets them. Look at the application's log; ask again "
        "for something else, or from elsewhere:",
        "$ nstat -az TcpExtTCPAbortOnData TcpExtTCPAbortOnClose",
    ],
    ("reset", "idle"): [
        "That side, or a firewall or load balancer in its name, ends connections that are idle: raise its timeout, or "
        "send something more often than that: keep-alives of the application, or of the kernel, which the application "
        "must ask for (SO_KEEPALIVE):",
        "$ sysctl -w net.ipv4.tcp_keepalive_time=60 net.ipv4.tcp_keepalive_intvl=10",
    ],
    ("reset", "after-close"): [
        "The application of that side closed without having read what was sent to it: see its log for why it ended the "
        "connection. What it had not read, and what came after, is lost to it.",
    ],
    ("reset", None): [
        "Look at the log of the host that sent the reset, or of the device on the path: the application crashed or "
        "gave up, or a filter ended the connection. On the host:",
        "$ nstat -az TcpExtTCPAbortOnData TcpExtTCPAbortOnTimeout TcpExtTCPAbortOnClose",
    ],
    ("outage", None): [
        "See what happened to the path at that time: a link or a radio that went away, a route that changed, a host "
        "that was suspended. On each host and router:",
        "$ journalctl -k | grep -iE 'link (is )?(down|up)|carrier|deauth'",
        "$ ip -s link show DEV",
        "To catch the next one, ping beside the traffic, with times:",
        "$ ping -D -O HOST",
    ],
    ("window-scaling", None): [
        "See whether both ends offer window scaling (1), and capture the SYN at both ends: a firewall or a load "
        "balancer between them may remove the option:",
        "$ sysctl net.ipv4.tcp_window_scaling",
        "$ tcpdump -nvi DEV 'tcp[tcpflags] & tcp-syn != 0'",
    ],
    ("sack", "mangled"): [
        "Switch off the rewriting of sequence numbers on the firewall (Cisco ASA: set connection "
        "random-sequence-number disable). Until then the sender is better off without the option:",
        "$ sysctl -w net.ipv4.tcp_sack=0",
    ],
    ("sack", None): [
        "See whether both ends permit it (1), and capture the SYN at both ends: something between them may remove "
        "the option:",
        "$ sysctl net.ipv4.tcp_sack",
    ],
    ("ecn", "blocked"): [
        "Find the filter that drops SYNs with ECE and CWR (RFC 3360). Until then do not offer ECN there:",
        "$ ip route replace DESTINATION via GATEWAY features 0",
        "$ sysctl -w net.ipv4.tcp_ecn=2",
    ],
    ("ecn", "refused"): [
        "If that host is yours, let it take up ECN (2 is the default: when offered):",
        "$ sysctl net.ipv4.tcp_ecn",
    ],
    ("ecn", None): [
        "Find the hop that rewrites the two bits of ECN, often with the whole byte of DSCP; tracebox and two captures "
        "tell where:",
        "$ tcpdump -nvi DEV tcp | grep -o 'tos 0x[0-9a-f]*[^,]*'",
    ],
    ("duplicate", "path"): [
        "Look for what copies packets: a bond in broadcast mode, redundant paths (PRP, dual attachment), a loop "
        "that spanning tree does not see:",
        "$ ip -d link show type bond",
    ],
    ("duplicate", None): [
        "The copies are left out of every count. To have none: capture on one interface, not on any, and mirror one "
        "direction of each port:",
        "$ tcpdump -i DEV -w FILE.pcap",
    ],
    ("checksum", None): [
        "Something changes bits behind the last check of a link: a faulty interface, memory of a router, a broken "
        "offload or a middlebox that rewrites packets. Look at the counters of each hop, and on the receiver:",
        "$ nstat -az TcpInCsumErrors IpExtInCsumErrors",
        "$ ethtool -S DEV | grep -Ei 'csum|crc|err'",
    ],
    ("batching", "power-save"): [
        "A station that sleeps gets its packets when it wakes. Look at its power save, and turn it off:",
        "$ iw dev DEV get power_save",
        "$ iw dev DEV set power_save off",
    ],
    ("batching", None): [
        "The link sends several packets at once. Where delay counts, allow shorter aggregates, and pace what is sent; "
        "look at rates and airtime of the stations:",
        "$ iw dev DEV station dump",
    ],
    ("jitter", None): [
        "Something else than this flow makes packets wait: a radio that repeats, a scheduler, traffic of others. Probe "
        "beside the traffic and without it, and look at the link's own counters:",
        "$ ping -i 0.2 HOST",
        "$ ip -s link show dev DEV",
    ],
    ("unknown", None): [
        "No cause stands out. A longer capture, one taken at the sender, or a second one behind the suspected hop "
        "would tell more."
    ],
}

# What depends on what was measured.
_BY_CAUSE: Mapping[str, Callable[[Values], list[str]]] = {
    "policer": _policer,
    "shallow-queue": _shallow_queue,
    "deep-queue": _deep_queue,
    "shaper": _shaper,
    "aqm": _aqm,
    "random-loss": _random_loss,
    "receiver-window": _receiver_window,
    "capture-loss": _capture_loss,
    "mtu": _mtu,
    "idle-timeout": _idle_timeout,
}
