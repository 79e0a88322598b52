"""Connections that failed, or stalled: headlines, evidence for and against, and advice."""

from __future__ import annotations

from whydrop.explaining.words.common import Advice, Derived, Phrases, Values
from whydrop.text.phrases import fill, table


def _request_unanswered(v: Values) -> str:
    took = "{all_endpoints} acknowledged {connections|request} and sent no answer"
    if v["by_nobody"] == v["connections"]:
        return took + " in the {longest_s} until the capture ended."
    if v["by_asked"] == v["connections"]:
        return took + ". It closed the connection {longest_s} later."
    who = "The other side" if v["connections"] == 1 else "The others"
    return took + f". {who} gave up after {{longest_s}}."


def _reset_after_close(v: Values) -> str:
    who = "{all_endpoints}" if v["by_responder"] == v["connections"] else "One side"
    if not v["by_responder"]:
        who = "The client of {all_endpoints}"
    return (
        who + " closed {connections|connection} while data still arrived, and answered {data_bytes} of it with a reset."
    )


def _reset_under_way(v: Values) -> str:
    by = "the responder" if v["by_responder"] == v["connections"] else "the initiator"
    if 0 < v["by_responder"] < v["connections"]:
        by = "either end"
    return (
        f"reset by {by} with {{outstanding_bytes}} not acknowledged[from_elsewhere?; {{from_elsewhere}} of the resets "
        "have another hop count than the other packets of that host: a device on the path sent them]"
    )


def _reset_fields(v: Values) -> str:
    usual = v["least_ttl"]
    if usual is not None and v["largest_ttl"] != usual:
        usual = f"{usual} to {v['largest_ttl']}"
    before = "unknown" if usual is None else str(usual)
    return (
        "the reset has TTL {ttl}, IP identification {identification} and window {window}; the packets before it from "
        f"the same address have TTL {before}, identification {{previous_identification}} and window {{previous_window}}"
        "[; {packets_after|packet} of that host came after it]"
    )


HEADLINES: Phrases = {
    **table("""
    syns-unanswered: {all_endpoints} never answered: {connections|attempt} to connect got no reply. The host is down, or
        a filter drops the packets.
    syns-refused: {all_endpoints} refused {connections|connection}: nothing listens there, or a firewall rejects them.
    set-up-repeated: {all_endpoints} answered {connections|connection} only after the SYN was retransmitted: set-up took
        {longest_s} longer.
    request-reset: {all_endpoints} acknowledged {connections|request} and answered with a reset: no data came back.
    reset-when-idle: {all_endpoints} ended {connections|connection} with a reset after {idle_s} without a packet.
    reset-mid-stream: A reset ended {connections|transfer} with {all_endpoints} in the middle of a stream.
    reset-under-way: A reset ended {connections|connection} with {all_endpoints} while data was in flight.
    reset-by-middlebox: A device on the path reset {connections|connection} with {all_endpoints}, in the name of a host
        that sent no reset.
    forgotten-when-idle: {connections|connection} with {all_endpoints} did not survive a pause of {idle_s}: a device on
        the path, or the other end, had dropped the connection's state.
    """),
    "data-unanswered": lambda v: (
        "The other end closed and then fell silent: data in {connections|connection} was retransmitted repeatedly "
        "without a reply."
        if v.get("closed_before") == v["connections"]
        else "The other end fell silent: data in {connections|connection} was retransmitted repeatedly without a reply."
    ),
    "request-unanswered": _request_unanswered,
    "reset-after-close": _reset_after_close,
}

EVIDENCE: Phrases = {
    **table("""
    syns-unanswered: {syns|SYN} within {lasted_s}, none answered
    syns-refused: {syns|SYN} answered by a reset
    data-unanswered: {outstanding_bytes} were retransmitted {repeats|time}, and no packet came back until the capture
        ended[closed_before?; the silent side had sent its FIN before]
    request-unanswered: all {data_bytes} of the request were acknowledged, so the path delivered them: the application
        caused the {waited_s} after that
    set-up-repeated: {syns|SYN} in all; those without a reply were lost on the path, or dropped by a host with a full
        queue of new connections
    request-reset: all {data_bytes} of the request were acknowledged before the reset came
    reset-when-idle: all data was acknowledged, and neither side had closed
    reset-mid-stream: the last segments before the reset were of full size, and neither side had closed: the stream was
        not finished
    reset-after-close: a host that has closed answers further data with a reset (RFC 9293, section 3.10.4); {data_bytes}
        were not acknowledged
    reset-by-middlebox: of the resets, [other_distance?{other_distance} have another hop count than the packets of the
        host that they name][both?, and ][went_on?after {went_on} that host went on as if it had sent none]
    syns-rejected: {syns|SYN}, answered by an ICMP error instead of a SYN/ACK
    icmp-error: {router} reported: {kind:spaced}
    forgotten-when-idle: after {idle_s} without a packet, data was answered by [resets?{resets|reset}|nothing, although
        the same host answered others meanwhile]; before that, the connection had survived [survived_s?pauses of up to
        {survived_s}|no longer pause]
    """),
    "reset-under-way": _reset_under_way,
    "reset-fields": _reset_fields,
}


def with_both_signs(v: Values) -> Derived:
    """The values of ``reset-by-middlebox`` with whether it shows both of its signs."""
    return {"both": v.get("other_distance") and v.get("went_on")}


_RESPONDERS = {"all_endpoints": "endpoint", "all_servers": "server", "all_hosts": "host"}


def with_responders(v: Values) -> Derived:
    """The host that answers, or should, and how many more do so."""
    if "responder" not in v:
        return {}
    template = "{responder}[ and {other_responders|other NOUN}]"
    return {name: fill(template.replace("NOUN", noun), v) for name, noun in _RESPONDERS.items()}


def _idle_timeout(v: Values) -> Derived:
    return {"often": f"{max(v.get('survived_s') or v.get('idle_s', 60.0) / 2, 10.0):.0f}"}


ADVICE: Advice = {
    ("idle-timeout", None): (
        "Send something before the state expires: keep-alives of the application, or of the kernel, which the "
        "application must request (SO_KEEPALIVE). On either end:",
        "$ sysctl -w net.ipv4.tcp_keepalive_time={often} net.ipv4.tcp_keepalive_intvl=10",
        "Or have the firewall or translator keep state for as long as RFC 5382 requires, 2 h 4 min; on Linux:",
        "$ sysctl -w net.netfilter.nf_conntrack_tcp_timeout_established=7440",
    ),
    ("no-answer", None): (
        "See whether the host is up and reachable, and whether a filter drops the packets. Probe the same port to see "
        "how far packets get:",
        "$ tcptraceroute HOST PORT",
        "A capture on the host itself shows whether they arrive there.",
    ),
    ("refused", None): (
        "See whether the service runs and listens on that address and port, on the host itself:",
        "$ ss -ltnp",
    ),
    ("peer-application", "unanswered"): (
        "The host's kernel received the request. Its application did not read it or does not answer, or the answer was "
        "lost on the path, which a capture on that host shows. Look at the application's log and at what it depends on "
        "(a database, a lock, a full pool of workers). On that host, list requests that it has not read (Recv-Q of "
        "connections) and connections that it has not accepted (Recv-Q of listeners):",
        "$ ss -tinmp state established",
        "$ ss -ltn",
    ),
    ("unknown", "set-up"): (
        "See on the host whether its queue of new connections overflows and drops SYNs. If it does not, the path loses "
        "packets:",
        "$ nstat -az TcpExtListenOverflows TcpExtListenDrops",
        "$ ss -ltn",
    ),
    ("reset", "in-place-of-answer"): (
        "The application crashed on this request or refuses it, or a filter on the path that reads requests (a name, a "
        "certificate, a protocol) resets them. Look at the application's log. Send a different request, or send it "
        "from another network:",
        "$ nstat -az TcpExtTCPAbortOnData TcpExtTCPAbortOnClose",
    ),
    ("reset", "idle"): (
        "That side, or a firewall or load balancer in its name, ends idle connections. Raise its timeout, or send "
        "something more often: keep-alives of the application, or of the kernel, which the application must request "
        "(SO_KEEPALIVE):",
        "$ sysctl -w net.ipv4.tcp_keepalive_time=60 net.ipv4.tcp_keepalive_intvl=10",
    ),
    ("reset", "after-close"): (
        "The application of that side closed before it had read all data: its log may show why. The unread data, and "
        "all data after it, is lost to the application.",
    ),
    ("reset", None): (
        "Look at the log of the host that sent the reset, or of the device on the path: the application crashed or "
        "gave up, or a filter ended the connection. On the host:",
        "$ nstat -az TcpExtTCPAbortOnData TcpExtTCPAbortOnTimeout TcpExtTCPAbortOnClose",
    ),
}

DERIVED = {"idle-timeout": _idle_timeout}
