"""Words for what is not TCP data: requests without an answer, ICMP errors, echo requests, captures without a failure.

Sentences, phrases and advice by the codes of facts; the tables of the neighbouring modules take them in.
"""

from __future__ import annotations

from whydrop.text.quantities import count, plural

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from whydrop.explaining.filling import Phrase

    Values = Mapping[str, Any]


def _others(v: Values, noun: str = "other endpoint") -> str:
    return f" and {plural(v['other_responders'], noun)}" if v.get("other_responders") else ""


def _server(v: Values) -> str:
    return "{responder}" + _others(v, "other server")


def _names(v: Values) -> str:
    return f" for {', '.join(v['names'])}" + (", ..." if len(v["names"]) > 2 else "") if v.get("names") else ""


_ASKED = {"QUIC": "handshake", "WireGuard": "handshake", "IKE": "exchange"}


def _requests(v: Values, number: str = "requests") -> str:
    """``1 DNS request for a.example``, ``12 SNMP requests``."""
    return plural(v[number], f"{v['service']} {_ASKED.get(v['service'], 'request')}") + _names(v)


def _tried(v: Values) -> str:
    return ", in {attempts|attempt} over {waited_s}" if v["attempts"] > v["unanswered"] else ""


def _requests_unanswered(v: Values) -> str:
    if v["service"] in ("DHCP", "DHCPv6"):
        return f"No {v['service']} server answered {_requests(v)}{_tried(v)}."
    verb = "did not answer" if v["unanswered"] == 1 else "answered none of"
    reason = "it is down, or a filter drops requests or answers"
    if v.get("stranger"):
        reason = "answers came from {stranger} instead, and a client takes none from there"
    elif v["attempts"] == v["unanswered"] > 2:
        reason = "it is down, a filter drops requests or answers, or the capture does not hold the answers"
    return f"{_server(v)} {verb} {_requests(v)}{_tried(v)}: {reason}."


def _in_part(v: Values) -> str:
    return (
        f"{_server(v)} left {count(v['unanswered'])} of {_requests({**v, 'names': ()})} without an answer{_names(v)}."
    )


def _late(v: Values) -> str:
    took = f"late{_names(v)}, after up to {{longest_wait_s}}."
    return f"{_server(v)} answered {count(v['late'])} of {_requests({**v, 'names': ()})} {took}"


def _repeated(v: Values) -> str:
    number = count(v["repeated"])
    return (
        f"{number} of {_requests({**v, 'names': ()})} to {_server(v)} had to be repeated before an answer came: "
        f"{plural(v['lost_attempts'], 'request')}, or the answers, were lost."
    )


_ERRORS = {
    "network-unreachable": "it has no route to that network",
    "host-unreachable": "it cannot reach that host",
    "port-unreachable": "nothing listens on that port",
    "prohibited": "a filter forbids it",
    "time-exceeded": "the hop limit ran out",
}


def _error(v: Values) -> str:
    return _ERRORS.get(v.get("error") or "", (v.get("error") or "").replace("-", " "))


def _reporter(v: Values) -> str:
    """Who says so: the host itself, its sender, or a router on the way."""
    if v.get("router_is_responder"):
        return "that host"
    return "the sender itself" if v.get("router_is_sender") else "{router}, on the way,"


def _rejected(v: Values) -> str:
    if v.get("router_is_responder") and v.get("error") == "port-unreachable":
        return (
            "{responder}" + _others(v) + f" is closed: {{messages|{v['what']}}} came back as ICMP port unreachable; "
            "nothing listens there, or a filter rejects it."
        )
    return (
        f"{_reporter(v)} rejected {{messages|{v['what']}}} to {{responder}}" + _others(v) + f" by ICMP: {_error(v)}."
    ).replace("that host rejected", "{responder} rejected", 1)


def _unreachable(v: Values) -> str:
    return f"{{responder}}{_others(v)} cannot be reached: {_reporter(v)} said by ICMP that {_error(v)}."


def _looped(v: Values) -> str:
    return (
        f"Packets to {{responder}}{_others(v)} go round in circles: their hop limit ran out at {{router}}, though it "
        "was large enough for any path."
    )


def syns_rejected(v: Values) -> str:
    """Connections that an ICMP error rejected."""
    who = "{responder}" + _others(v)
    if v.get("router_is_responder"):
        what = "nothing listens there" if v.get("error") == "port-unreachable" else "a filter there forbids it"
        return who + " rejected {connections|attempt} to connect by an ICMP error: " + what + "."
    if v.get("router"):
        return (
            "{router}, a filter on the way, rejected {connections|attempt} to connect to " + who + " by an ICMP error."
        )
    return who + " cannot be connected to: an ICMP error rejected {connections|attempt}."


def _syns_unreachable(v: Values) -> str:
    who = "{responder}" + _others(v)
    return who + f" cannot be connected to: {_reporter(v)} said by ICMP that {_error(v)}."


def _taken_for_old(v: Values) -> str:
    old = (
        "{responder} took {connections|SYN} from a port that was used again for one of the earlier connection, which "
        "it still kept"
    )
    if v["accepted"] == v["connections"]:
        return old + ": the connection was set up {lasted_s} late."
    return old + ": it was not set up."


def _tls_alert(v: Values) -> str:
    server = "{responder}" + _others(v, "other server")
    if v["by_server"]:
        return f"{server} ended the TLS handshake of {{connections|connection}}: {{description}}."
    return f"The client ended the TLS handshake of {{connections|connection}} with {server}: {{description}}."


def _pings_lost(v: Values) -> str:
    lost = "{lost} of {sent|echo request} to {responder} had no reply"
    if v.get("silence_s") is None:
        return lost + ": requests or replies were lost."
    if v["to_the_end"]:
        return lost + ", the last {longest_run} one behind the other: it fell silent, or the path to it broke."
    return lost + ", {longest_run} of them one behind the other, for about {silence_s}: then replies came again."


def _nothing_failed(v: Values) -> str:
    parts = [
        plural(v[number], noun)
        for number, noun in (
            ("connections_without_data", "TCP connection without data"),
            ("udp_flows", "UDP flow"),
            ("pings", "echo request"),
        )
        if v[number]
    ]
    if not parts and v["icmp_errors"]:
        parts = [plural(v["icmp_errors"], "ICMP message")]
    held = f": {', '.join(parts)}" if parts else ""
    return "The capture holds no TCP data, and nothing in it shows a failure" + held + "."


SENTENCES: Mapping[str, Phrase] = {
    "requests-unanswered": _requests_unanswered,
    "requests-unanswered-in-part": _in_part,
    "answers-not-captured": lambda v: (
        f"The capture holds no answers: {_requests({**v, 'names': ()})} to {_server(v)} were not repeated, so "
        "most likely they were answered where the capture did not see it."
    ),
    "requests-refused": lambda v: (
        f"{_server(v)} refused {_requests({**v, 'names': v['names']}, 'refused')}: it does not serve this client."
    ),
    "requests-failed": lambda v: (
        f"{_server(v)} could not answer {_requests(v, 'failed')}: it replied with an error of its own."
    ),
    "requests-repeated": _repeated,
    "requests-answered-late": _late,
    "datagrams-repeated": lambda v: (
        f"{{responder}}{_others(v)} did not answer: the same datagram was sent {{attempts|time}} over {{waited_s}}, "
        "with longer and longer waits, and nothing came back."
    ),
    "datagrams-rejected": _rejected,
    "datagrams-unreachable": _unreachable,
    "datagrams-looped": _looped,
    "datagrams-not-reassembled": (
        "{router} could not put {messages|packet} together: fragments of what {sender} sent were lost."
    ),
    "pings-unanswered": lambda v: (
        f"{{responder}}{_others(v, 'other host')} answered none of {{sent|echo request}}: down, not reachable, or "
        "behind a filter that drops them."
    ),
    "pings-lost": _pings_lost,
    "pings-delayed": (
        "Echo replies of {responder} took up to {spread_s} longer than the fastest ({shortest_s}): they waited in a "
        "queue or a radio that this traffic does not load."
    ),
    "syns-rejected": syns_rejected,
    "syns-unreachable": _syns_unreachable,
    "syns-looped": _looped,
    "syn-taken-for-old": _taken_for_old,
    "tls-alert": _tls_alert,
    "nothing-failed": _nothing_failed,
    "nothing-readable": lambda v: (
        f"Nothing to judge: none of {plural(v['packets'], 'packet')} could be read as TCP, UDP or ICMP."
    ),
    "rtp-lost": (
        "{lost} of {expected_packets|RTP packet} never came; a capture behind the loss does not tell what dropped them."
    ),
}


def _requests_counted(v: Values) -> str:
    return f"{_requests({**v, 'names': ()})}, {{attempts|attempt}}, {{answered}} answered"


def _held(v: Values) -> str:
    said = []
    if v["requests"]:
        said.append("{answered} of {requests|request} over UDP answered")
    if v["rtp_streams"]:
        said.append("{rtp_streams|RTP stream} without a missing packet")
    if v["pings"]:
        said.append("{pings_answered} of {pings|echo request} answered")
    if v["udp_flows_one_way"]:
        said.append(
            "{udp_flows_one_way|UDP flow} one way only, which is usual of logs, streams and announcements; whether "
            "they arrived does not show"
        )
    if v["icmp_errors"]:
        said.append("{icmp_errors|ICMP message} of the kinds that probes of the path, or clients that are done, get")
    if v["unread"]:
        said.append("{unread|packet} of other kinds, not looked into")
    return "; ".join(said) or "no TCP connection carried data"


def _icmp_counted(v: Values) -> str:
    return f"{{router}} sent {{messages|ICMP error}} ({v['error'].replace('-', ' ')}) about packets of {{sender}}"


PHRASES: Mapping[str, Phrase] = {
    "requests-unanswered": _requests_counted,
    "requests-unanswered-in-part": _requests_counted,
    "answers-not-captured": _requests_counted,
    "requests-refused": _requests_counted,
    "requests-failed": _requests_counted,
    "requests-repeated": lambda v: _requests_counted(v) + "; {waited_s} of waiting for those that were repeated",
    "requests-answered-late": lambda v: _requests_counted(v) + "; {waited_s} of waiting for the late answers",
    "answers-from-elsewhere": (
        "{answers|answer} came from {stranger} instead: a client takes none from another address than it asked"
    ),
    "fastest-answer": lambda v: (
        "the one answer that there is does not tell the server from the path"
        if v["answered"] == 1
        else "the fastest answer came after {shortest_wait_s}"
    ),
    "datagrams-repeated": "{attempts|datagram} of the same content, none from there",
    "datagrams-rejected": _icmp_counted,
    "datagrams-unreachable": _icmp_counted,
    "datagrams-looped": _icmp_counted,
    "datagrams-not-reassembled": _icmp_counted,
    "datagrams-marked": "{marked} of {packets|UDP packet} of those flows came with the mark (CE)",
    "pings-unanswered": "{sent|echo request} in {lasted_s}",
    "pings-lost": lambda v: (
        "the longest run without a reply: {longest_run}"
        + ("; {missing|number} missing among the requests that were captured" if v["missing"] else "")
    ),
    "pings-delayed": "{answered} echo replies; one in twenty took that much longer",
    "syns-unreachable": "{syns|SYN}, answered by an ICMP error instead of a SYN/ACK",
    "syns-looped": "{syns|SYN}, answered by an ICMP error instead of a SYN/ACK",
    "syn-taken-for-old": (
        "the SYN was answered by the acknowledgment of an earlier connection, which was then reset; {syns|SYN} were "
        "sent"
    ),
    "tls-alert": lambda v: f"a fatal alert in the clear, sent by the {'server' if v['by_server'] else 'client'}",
    "nothing-failed": _held,
    "nothing-readable": (
        "{not_ip} not IP, {other_ip} of other IP protocols, {fragments|fragment}, {undecodable} not decoded"
    ),
    "rtp-lost": "by the numbers of {streams|RTP stream}",
}


_ARRIVES = "A capture on the server itself tells whether the requests arrive there and the answers leave."


def _silent_server(v: Values) -> list[str]:
    service, port = v.get("service"), str(v.get("responder", "")).rpartition(":")[2]
    if service in ("DHCP", "DHCPv6"):
        return [
            "See whether a server, or a relay to one, is in this network (VLAN), has addresses left, and whether a "
            "switch (DHCP snooping) or a filter drops its answers. On the server:",
            "$ tcpdump -ni DEV 'udp port 67 or udp port 547'",
        ]
    ask = {"DNS": "$ dig @SERVER NAME +tries=1 +time=3", "NTP": "$ ntpdate -q SERVER"}.get(service or "")
    lines = [
        "See whether the server runs and is reachable on that port, and whether a filter on the way or on it drops UDP:"
    ]
    lines += [ask] if ask else []
    return [*lines, f"$ nmap -sU -p {port or 'PORT'} SERVER", _ARRIVES]


def _icmp_rejected(v: Values) -> list[str]:
    if v.get("router_is_responder") and v.get("error") == "port-unreachable":
        listening = "-ltnp" if "connections" in v or v.get("what") == "TCP segment" else "-lunp"
        return [
            "See whether the service runs and listens on that address and port, on the host itself, and whether a "
            "filter there rejects it:",
            f"$ ss {listening}",
            "$ nft list ruleset",
        ]
    if v.get("router_is_responder"):
        return [
            "The host is there, and its own filter rejects the packets. On it:",
            "$ nft list ruleset",
        ]
    return [
        f"The filter is on the way, at {v.get('router', 'the router')}, not at the target: look at its rules, or "
        "ask whoever runs it. On it, if it is Linux:",
        "$ nft list ruleset",
    ]


def _icmp_unreachable(v: Values) -> list[str]:
    if v.get("router_is_sender"):
        return [
            "The sender's own kernel said so: it has no route, or the next hop does not answer to ARP or neighbour "
            "discovery. On the sender:",
            "$ ip route get DESTINATION",
            "$ ip neigh show",
        ]
    return [
        f"Look at the router that said so, {v.get('router', 'on the way')}: it has no route there, or the host does "
        "not answer to ARP or neighbour discovery. On it:",
        "$ ip route get DESTINATION",
        "$ ip neigh show",
    ]


def _loop(v: Values) -> list[str]:
    return [
        f"Two or more routers send the packets to each other, {v.get('router', 'one of them')} among them: compare "
        "their routes to that destination.",
        "$ traceroute -n DESTINATION",
    ]


def advice(cause: str, detail: str | None, values: Values) -> list[str] | None:
    """Advice on a cause of what is no TCP data; ``None`` where there is none of its own."""
    steps = ADVICE.get((cause, detail or ""))
    return steps(values) if callable(steps) else steps


def _mtu_of_datagrams(v: Values) -> list[str]:
    headers = 48 if v.get("is_ipv6") else 28
    mtu = v.get("mtu_bytes", 1500.0)
    return [
        f"Send datagrams of at most {mtu - headers:.0f} bytes of payload that way, or let them be fragmented; a "
        "program that looks for the path's MTU does so by itself (RFC 8899). To see what passes:",
        f"$ ping -M do -c 3 -s {mtu - headers:.0f} HOST",
    ]


#: By cause and detail, before the advice on the cause alone.
ADVICE: Mapping[tuple[str, str], list[str] | Callable[[Values], list[str]]] = {
    ("no-answer", "requests"): _silent_server,
    ("no-answer", "unreachable"): _icmp_unreachable,
    ("no-answer", "loop"): _loop,
    ("no-answer", "ping"): [
        "See whether the host is up, and how far packets get. Many filters drop echo requests: try a port that is "
        "open, too:",
        "$ traceroute -n HOST",
        "$ tcptraceroute HOST PORT",
    ],
    ("refused", "icmp"): _icmp_rejected,
    ("refused", "requests"): [
        "The server is there and does not serve this client: see its list of clients (BIND: allow-query, "
        "allow-recursion; unbound: access-control), or ask the resolver that is meant for this network:",
        "$ resolvectl status",
        "$ dig @SERVER NAME",
    ],
    ("peer-application", "server-failure"): [
        "The path is innocent: the server failed. For DNS, see whether its forwarders answer, and whether the zone's "
        "signatures are valid (without checking, +cd, it answers then):",
        "$ dig @SERVER NAME +cd",
        "$ delv @SERVER NAME",
    ],
    ("peer-application", "late-answers"): [
        "See what the server waits for: of DNS its forwarders, or servers of the zone that are far or dead; its log "
        "and load. Ask it twice: an answer that it has in its cache comes at once, and then the path is fast:",
        "$ dig @SERVER NAME | grep 'Query time'",
    ],
    ("unknown", "requests"): [
        "Requests or answers were lost on the way, or the server dropped some. Ask often, and see whether losses "
        "follow load; two captures, here and at the server, tell the direction:",
        "$ ping -i 0.2 -c 500 SERVER",
    ],
    ("random-loss", "ping"): [
        "Look for errors on each hop's interfaces, and see where the losses begin:",
        "$ mtr -n -c 100 HOST",
        "$ ip -s -s link show DEV",
    ],
    ("refused", "tls"): [
        "The path is innocent: the two ends do not agree on TLS, a certificate or a name. See what the server "
        "offers, and its log:",
        "$ openssl s_client -connect HOST:PORT -servername HOST",
    ],
    ("unknown", "ping"): ["See where the losses begin:", "$ mtr -n -c 100 HOST"],
    ("unknown", "fragments"): [
        "Fragments are lost together with their packet: send datagrams that fit the path's MTU, and let fragments "
        "pass every filter.",
    ],
    ("mtu", "datagrams"): _mtu_of_datagrams,
    ("reset", "port-reused"): [
        "Do not use the same port again at once: leave the choice to the kernel (no bind to a fixed port), or let the "
        "client close first, so that the connection is left over (TIME_WAIT) there. With timestamps (RFC 7323) on "
        "both hosts the new SYN is accepted at once (RFC 6191):",
        "$ sysctl net.ipv4.tcp_timestamps",
    ],
}
