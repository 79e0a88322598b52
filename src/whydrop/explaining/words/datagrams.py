"""Requests without an answer, ICMP errors, echo requests, and captures without TCP data or without a failure."""

from __future__ import annotations

from whydrop.explaining.words.common import Advice, Derived, Phrases, Values
from whydrop.text.phrases import table

_NAMES = "[names? for {named}]"
_TRIED = "[tried?, in {attempts|attempt} over {waited_s}]"

_ASKED = {"QUIC": "handshake", "WireGuard": "handshake", "IKE": "exchange"}

_ERRORS = {
    "network-unreachable": "it has no route to that network",
    "host-unreachable": "it cannot reach that host",
    "port-unreachable": "nothing listens on that port",
    "prohibited": "a filter forbids it",
    "time-exceeded": "the hop limit ran out",
}


def derived(v: Values) -> Derived:
    """Values that the phrases need beside the values of the fact."""
    named: Derived = {}
    names = v.get("names") or ()
    if "service" in v:
        # One DNS request, twelve SNMP requests.
        asked = f"{v['service']} {_ASKED.get(v['service'], 'request')}"
        many = ("requests", "refused", "failed")
        named = {f"{key}_asked": _plural(v[key], asked) for key in many if v.get(key) is not None}
    error = v.get("error") or ""
    return {
        **named,
        "named": ", ".join(names) + (", ..." if len(names) > 2 else ""),
        "tried": v.get("attempts", 0) > v.get("unanswered", 0),
        "is_dhcp": v.get("service") in ("DHCP", "DHCPv6"),
        "why": _ERRORS.get(error, error.replace("-", " ")),
        "error_words": error.replace("-", " "),
        "is_closed": v.get("router_is_responder") and error == "port-unreachable",
        "sides": "the host" if v.get("router_is_responder") else "the sender",
        "by_host": v.get("router_is_responder") or v.get("router_is_sender"),
        "rejected": _plural(v["messages"], v["what"]) if "what" in v and "messages" in v else "",
        "all_accepted": v.get("accepted") == v.get("connections"),
        "one_answer": v.get("answered") == 1,
        "partly_late": v.get("late", 0) < v.get("requests", 0),
        "no_route": v.get("router_is_sender"),
    }


def _plural(number: float, noun: str) -> str:
    from whydrop.text.quantities import plural

    return plural(number, noun)


def _requests_unanswered(v: Values) -> str:
    if v["service"] in ("DHCP", "DHCPv6"):
        return "No {service} server answered {requests_asked}" + _NAMES + _TRIED + "."
    verb = "did not answer" if v["unanswered"] == 1 else "answered none of"
    reason = "The server is down, or a filter drops requests or answers"
    if v.get("stranger"):
        reason = "Answers came from {stranger} instead, and a client accepts none from there"
    elif v["attempts"] == v["unanswered"] > 2:
        reason = "The server is down, a filter drops requests or answers, or the capture does not hold the answers"
    return f"{{all_servers}} {verb} {{requests_asked}}{_NAMES}{_TRIED}. {reason}."


# Who reports an error: the host itself, its sender, or a router on the path.
_REPORTER = "[by_host?{sides} itself|{router}, on the path,]"


def _rejected(v: Values) -> str:
    if v.get("router_is_responder") and v.get("error") == "port-unreachable":
        return (
            "{all_endpoints} is closed: {rejected} came back as ICMP port unreachable. Nothing listens there, or a "
            "filter rejects them."
        )
    who = "{responder}" if v.get("router_is_responder") else _REPORTER
    return who + " rejected {rejected} to {all_endpoints} by ICMP: {why}."


def _pings_lost(v: Values) -> str:
    lost = "{lost} of {sent|echo request} to {responder} had no reply"
    if v.get("silence_s") is None:
        return lost + ": requests or replies were lost."
    if v["to_the_end"]:
        return lost + ", the last {longest_run} without a break: the host fell silent, or the path to it broke."
    return lost + ", {longest_run} of them without a break, for about {silence_s}. Then replies came again."


def _nothing_failed(v: Values) -> str:
    parts = [
        _plural(v[number], noun)
        for number, noun in (
            ("connections_without_data", "TCP connection without data"),
            ("udp_flows", "UDP flow"),
            ("pings", "echo request"),
        )
        if v[number]
    ]
    if not parts and v["icmp_errors"]:
        parts = [_plural(v["icmp_errors"], "ICMP message")]
    return "The capture holds no TCP data, and nothing in it shows a failure" + (
        f": {', '.join(parts)}." if parts else "."
    )


def _kinds(v: Values) -> str:
    parts = (
        ("requests", "{answered} of {requests|request} over UDP answered"),
        ("rtp_streams", "{rtp_streams|RTP stream} without a missing packet"),
        ("pings", "{pings_answered} of {pings|echo request} answered"),
        (
            "udp_flows_one_way",
            "{udp_flows_one_way|UDP flow} in one direction only, which is usual for logs, streams and announcements; "
            "the capture does not show whether their packets arrived",
        ),
        (
            "icmp_errors",
            "{icmp_errors|ICMP message} of kinds that answer path probes, or packets to a client that has closed",
        ),
        ("unread", "{unread|packet} of other kinds, not analysed"),
    )
    return "; ".join(text for name, text in parts if v[name]) or "no TCP connection carried data"


HEADLINES: Phrases = {
    **table("""
    requests-unanswered-in-part: {all_servers} did not answer {unanswered} of {requests_asked}[names? for {named}].
    answers-not-captured: The capture holds no answers: {requests_asked} to {all_servers} were not repeated, so they
        were most likely answered on another path.
    requests-refused: {all_servers} refused {refused_asked}[names? for {named}]: it does not serve this client.
    requests-failed: {all_servers} could not answer {failed_asked}[names? for {named}]: it replied with an error of its
        own.
    requests-repeated: {repeated} of {requests_asked} to {all_servers} had to be repeated before an answer came:
        {lost_attempts|request}, or the answers, were lost.
    requests-answered-late: {all_servers} answered [partly_late?{late} of ]{requests_asked}[names? for {named}] late,
        after up to {longest_wait_s}.
    datagrams-repeated: {all_endpoints} did not answer: the same datagram was sent {attempts|time} over {waited_s}, at
        growing intervals, without a reply.
    datagrams-unreachable: {all_endpoints} cannot be reached: [by_host?{sides} itself|{router}, on the path,] reported
        by ICMP that {why}.
    datagrams-looped, syns-looped: Packets to {all_endpoints} loop: their hop limit ran out at {router}, although it was
        large enough for any path.
    datagrams-not-reassembled: {router} could not reassemble {messages|packet}: fragments of the data that {sender} sent
        were lost.
    pings-unanswered: {all_hosts} answered none of {sent|echo request}: the host is down or not reachable, or a filter
        drops them.
    pings-delayed: Echo replies of {responder} took up to {spread_s} longer than the fastest ({shortest_s}): they were
        delayed in a queue or a radio that this traffic does not load.
    syns-rejected: [router_is_responder?{all_endpoints} rejected {connections|attempt} to connect by an ICMP error:
        [is_closed?nothing listens there|a filter there forbids it].|[router?{router}, a filter on the path, rejected
        {connections|attempt} to connect to {all_endpoints} by an ICMP error.|{all_endpoints} cannot be connected to: an
        ICMP error rejected {connections|attempt}.]]
    syns-unreachable: {all_endpoints} cannot be connected to: [by_host?{sides} itself|{router}, on the path,] reported
        by ICMP that {why}.
    syn-taken-for-old: {responder} mistook {connections|SYN} from a reused port for a packet of the earlier connection,
        because it still had that connection's state: [all_accepted?the new connection was set up {lasted_s} late|the
        new connection was not set up].
    tls-alert: [by_server?{all_servers} ended the TLS handshake of {connections|connection}|The client ended the TLS
        handshake of {connections|connection} with {all_servers}]: {description}.
    nothing-readable: No packet can be analysed: none of {packets|packet} could be read as TCP, UDP or ICMP.
    rtp-lost: {lost} of {expected_packets|RTP packet} never arrived; the capture was made behind the loss and does not
        show what dropped them.
    rtcp-lost: The receivers of RTP streams report {lost|lost packet}. The capture shows none missing: any loss was
        behind the capture point, or before the capture began.
    """),
    "requests-unanswered": _requests_unanswered,
    "datagrams-rejected": _rejected,
    "pings-lost": _pings_lost,
    "nothing-failed": _nothing_failed,
}


EVIDENCE: Phrases = {
    **table("""
    requests-unanswered, requests-unanswered-in-part, requests-refused, requests-failed: {requests_asked},
        {attempts|attempt}, {answered} answered
    answers-not-captured: {requests_asked}, {attempts|attempt}, {answered} answered
    requests-repeated: {requests_asked}, {attempts|attempt}, {answered} answered; {waited_s} spent on the repeated ones
    requests-answered-late: {requests_asked}, {attempts|attempt}, {answered} answered; {waited_s} spent on the late
        answers
    answers-from-elsewhere: {answers|answer} came from {stranger} instead: a client accepts none from another address
        than it asked
    fastest-answer: [one_answer?a single answer does not show whether the server or the path was slow|the fastest answer
        came after {shortest_wait_s}]
    datagrams-repeated: {attempts|datagram} with the same content, and none from that host
    datagrams-rejected, datagrams-unreachable, datagrams-looped, datagrams-not-reassembled: {router} sent {messages|ICMP
        error} ({error_words}) about packets of {sender}
    datagrams-marked: {marked} of {packets|UDP packet} of those flows came with the congestion mark (CE)
    pings-unanswered: {sent|echo request} in {lasted_s}
    pings-lost: the longest run without a reply: {longest_run}[; {missing|number} missing among the captured requests]
    pings-delayed: {answered|echo reply}; one in twenty took that much longer
    syns-unreachable, syns-looped: {syns|SYN}, answered by an ICMP error instead of a SYN/ACK
    syn-taken-for-old: the SYN was answered by the acknowledgment of an earlier connection, which was then reset;
        {syns|SYN} were sent
    tls-alert: a fatal alert in clear text, sent by the [by_server?server|client]
    nothing-readable: {not_ip|packet} without IP, {other_ip} of other IP protocols, {fragments|fragment}, {undecodable}
        not decoded
    rtp-lost: by the sequence numbers of {streams|RTP stream}
    rtcp-lost: by the receiver reports (RTCP) on {streams|RTP stream}
    """),
    "nothing-failed": _kinds,
}


def for_advice(v: Values) -> Derived:
    """Values that the advice needs beside the values of the headline."""
    service = v.get("service")
    headers = 48 if v.get("is_ipv6") else 28
    is_tcp = "connections" in v or v.get("what") == "TCP segment"
    return {
        **derived(v),
        "ask": {"DNS": "dig @SERVER NAME +tries=1 +time=3", "NTP": "ntpdate -q SERVER"}.get(service or ""),
        "port": str(v.get("responder", "")).rpartition(":")[2] or "PORT",
        "listening": "-ltnp" if is_tcp else "-lunp",
        "at": v.get("router", "the router"),
        "payload": f"{v.get('mtu_bytes', 1500.0) - headers:.0f}",
    }


ADVICE: Advice = {
    ("no-answer", "requests"): (
        "[is_dhcp?See whether this network (VLAN) has a server, or a relay to one, with free addresses, and whether a "
        "switch (DHCP snooping) or a filter drops its answers. On the server:|See whether the server runs and is "
        "reachable on that port, and whether a filter on the path or on the server drops UDP:]",
        "[is_dhcp?$ tcpdump -ni DEV 'udp port 67 or udp port 547']",
        "[!is_dhcp?[ask?$ {ask}]]",
        "[!is_dhcp?$ nmap -sU -p {port} SERVER]",
        "[!is_dhcp?A capture on the server itself shows whether the requests arrive there and the answers leave.]",
    ),
    ("no-answer", "unreachable"): (
        "[no_route?The sender's own kernel reported this: it has no route, or the next hop does not answer ARP or "
        "neighbour discovery. On the sender:|Look at the router that reported this, {at}: it has no route, or the host "
        "does not answer ARP or neighbour discovery. On it:]",
        "$ ip route get DESTINATION",
        "$ ip neigh show",
    ),
    ("no-answer", "loop"): (
        "Two or more routers send the packets to each other, {at} among them: compare their routes to that "
        "destination.",
        "$ traceroute -n DESTINATION",
    ),
    ("no-answer", "ping"): (
        "See whether the host is up, and how far packets get. Many filters drop echo requests: try an open port, too:",
        "$ traceroute -n HOST",
        "$ tcptraceroute HOST PORT",
    ),
    ("refused", "icmp"): (
        "[router_is_responder?[is_closed?See whether the service runs and listens on that address and port, on the "
        "host itself, and whether a filter there rejects it:|The host is there, and its own filter rejects the "
        "packets. On it:]|The filter is on the path, at {at}, not at the target: look at its rules, or ask its "
        "operator. On it, if it is Linux:]",
        "[is_closed?$ ss {listening}]",
        "$ nft list ruleset",
    ),
    ("refused", "requests"): (
        "The server is there and does not serve this client: see its list of clients (BIND: allow-query, "
        "allow-recursion; unbound: access-control), or ask the resolver of this network:",
        "$ resolvectl status",
        "$ dig @SERVER NAME",
    ),
    ("peer-application", "server-failure"): (
        "The path works: the server failed. For DNS, see whether its forwarders answer, and whether the zone's "
        "signatures are valid (without validation, +cd, the server then answers):",
        "$ dig @SERVER NAME +cd",
        "$ delv @SERVER NAME",
    ),
    ("peer-application", "late-answers"): (
        "Find what delays the server: its load, or, for DNS, slow forwarders and dead servers of the zone. "
        "Ask it twice: a cached answer comes at once if the path is fast:",
        "$ dig @SERVER NAME | grep 'Query time'",
    ),
    ("unknown", "requests"): (
        "Requests or answers were lost on the path, or the server dropped some. Probe often, and see whether losses "
        "follow load; two captures, here and at the server, show the direction:",
        "$ ping -i 0.2 -c 500 SERVER",
    ),
    ("random-loss", "ping"): (
        "Look for errors on each hop's interfaces, and see where the losses begin:",
        "$ mtr -n -c 100 HOST",
        "$ ip -s -s link show DEV",
    ),
    ("refused", "tls"): (
        "The path works: the two ends do not agree on TLS, a certificate or a name. See what the server offers, and "
        "its log:",
        "$ openssl s_client -connect HOST:PORT -servername HOST",
    ),
    ("unknown", "ping"): ("See where the losses begin:", "$ mtr -n -c 100 HOST"),
    ("unknown", "fragments"): (
        "A packet is lost with any of its fragments: send datagrams that fit the path's MTU, and let fragments pass "
        "every filter.",
    ),
    ("mtu", "datagrams"): (
        "Send datagrams of at most {payload} bytes of payload in that direction, or let them be fragmented. A program "
        "can discover the path's MTU (RFC 8899). To see what passes:",
        "$ ping -M do -c 3 -s {payload} HOST",
    ),
    ("reset", "port-reused"): (
        "Do not reuse the same port at once: leave the choice to the kernel (no bind to a fixed port), or let the "
        "client close first, so that the old connection stays in TIME_WAIT there. With timestamps (RFC 7323) on both "
        "hosts the new SYN is accepted at once (RFC 6191):",
        "$ sysctl net.ipv4.tcp_timestamps",
    ),
}
