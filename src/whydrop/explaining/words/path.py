"""Outages, packet sizes, order, copies, damage, SACK, ECN and jitter: headlines, evidence for and against, advice."""

from __future__ import annotations

from whydrop.explaining.words.common import Advice, Derived, Values
from whydrop.text.phrases import table

HEADLINES = table("""
    nothing-passed: [several?{outages} times nothing passed, for {total_s} in all and up to {longest_s}|Nothing passed
        for {outage_s}, then packets passed again]: this explains {losses}.
    lost-in-silence: [lost?Nothing passed for {silence_s}: this explains {losses}.|Nothing was acknowledged for
        {silence_s}, then packets passed again; no packet was lost.]
    too-large-reported: Packets of [failed_bytes?{failed_bytes:exact_size} do not pass, those of
        {passed_bytes:exact_size} do|more than {mtu_bytes:exact_size} do not pass][router?, as {router} reported to
        their sender][lost?: {losses} [one_lost?was|were] too large].
    too-large-unreported: Packets of [failed_bytes?{failed_bytes:exact_size} do not pass, those of
        {passed_bytes:exact_size} do|more than {mtu_bytes:exact_size} do not pass], and no router reports it to their
        sender[lost?: {losses} [one_lost?was|were] too large].
    joined-before-router: A device on the path joins packets: {router} refused one of {packet_bytes:exact_size} as too
        large, but none of more than {largest_sent_bytes:exact_size} was sent[lost?. This explains {losses}].
    gap-remains: {missing_bytes} never arrived at the receiver, which asked for them until the capture ended,
        {waited_s} later.
    sack-mangled: A device on the path damages selective acknowledgments: they report sequence numbers that were never
        sent.
    sack-stripped: Both ends agreed on selective acknowledgments, but none arrives.
    sack-refused: The connection has no selective acknowledgments: only one end permits them.
    damaged: Packets are damaged on the path: the receiver dropped {losses} because of a wrong checksum.
    marks-not-echoed: Congestion marks are not echoed to the sender: it does not learn of {marked|mark}.
    ecn-bleached: Both ends agreed on ECN, but data arrives without it: a device on the path removed it, or the sender
        never set it.
    ecn-blocked: SYNs to {host} that offer ECN are dropped: {connections|connection} lost {waited_s} in all before
        they went on without it.
    ecn-refused: {host} does not accept the offered ECN, or a device on the path removes the offer.
    delay-varies-alone: Delays vary by {spread_s}, and the load of this traffic does not cause it.
    released-in-batches: Packets leave in batches of {batch_packets|packet}, one batch every {interval_s}.
    doubled-on-path: The path delivers packets twice: {copies} of {data_packets|data packet}.
    doubled-by-tap: The capture holds {copies|packet} twice: the capture made the copies, not the path.
    reordered: [lost_besides?The path reorders packets: |Nothing was lost. The path reorders packets:
        ]{reordered|packet} arrived late[ and caused {spurious|needless retransmission}][; this does not explain
        {lost_besides|loss}].
""")

EVIDENCE = table("""
    departed-in-silence: an outage lets no packet pass, but packets left the path during {out_s} of the {silence_s} in
        which all entering packets were lost
    retransmitted-into-silence: {trials|transmission} within {silence_s}, each a round trip or more after the one
        before, had no reply; random loss as frequent as in the rest of the capture (at most {loss_share}) does not
        explain that
    too-big-messages: {router} reported {messages|time} that packets of {packet_bytes:exact_size} are too large, and
        named [mtu_bytes?an MTU of {mtu_bytes:exact_size}|no MTU]
    sizes-show: all {failed|transmission} of {smallest_lost_bytes:exact_size} or more failed, and {passed|packet} of
        up to {largest_passed_bytes:exact_size} arrived, [lowered?after the sender gave up the larger ones|some of
        them in between]
    joined-before-router: each packet that {router} refused is the sum of two or more that were sent one by one: large
        or generic receive offload joined them on a device that forwards packets
    gap-remains: {missing_bytes} stayed missing for {waited_s}, until the capture ended, although later data or
        packets arrived[full_bytes?; the missing data are whole segments of {full_bytes:exact_size}, and no segment of
        that size ever arrived]
    sack-mangled: {outside} of {blocks|block} of selective acknowledgments report sequence numbers that were never
        sent: a device shifts the sequence numbers of segments but not those in the option
    sack-stripped: both ends permit selective acknowledgments, but none of the duplicate acknowledgments before the
        repair of {holes|gap} reported the data after the gap
    sack-refused: the SYN of one end permits selective acknowledgments, that of the other does not
    damaged: {damaged} of the lost packets reached the capture point with a wrong checksum; all other packets have a
        correct one
    marks-not-echoed: {marked|data packet} passed the capture point with the congestion mark, and no acknowledgment
        echoes one
    ecn-bleached: none of {data_packets|new data packet} is ECN-capable here, although both ends agreed on it
    ecn-blocked: {syns|SYN} that offered ECN had no reply; {connections|connection} had one when the SYN did not offer
        it
    ecn-refused: {connections|connection} offered ECN, and the reply to the SYN did not accept it
    delay-varies-alone: {packets|packet} passed alone, after pauses longer than any delay; their delays differ by
        {spread_s} (10th to 90th percentile), and by {change_s} from one packet to the next (median)
    released-in-batches: {batches} times, packets that entered one after the other left at the same moment; the first
        of each batch had been delayed by up to {held_s}
    doubled-on-path: the receiver reports {copies} of {data_packets|data packet} as received twice, and each was sent
        once
    acknowledged-late: {reordered} of {data_packets|data packet} were acknowledged after later ones and were not
        retransmitted
    overtaken-between: between the captures, later packets overtook {overtaken|packet}
    retransmitted: [one?1 packet was retransmitted[spurious? needlessly|, and not needlessly]|[spurious?of
        {retransmitted|retransmitted packet}, only {spurious} had arrived before|[retransmitted?{retransmitted|packet}
        were retransmitted, none needlessly|no packet was retransmitted]]]
    losses-without-sack: without SACK (RFC 2018), acknowledgments do not show which retransmitted packets had arrived;
        between {low} and {high|packet} were lost
""")


def with_singulars(v: Values) -> Derived:
    """Values that distinguish one from several."""
    return {
        "one": v.get("retransmitted") == 1,
        "one_lost": v.get("lost") == 1,
        "several": (v.get("outages") or v.get("variants") or 0) > 1,
    }


def _mtu(v: Values) -> Derived:
    largest = v.get("mtu_bytes", 1500.0)
    # Of IP, without options, and ICMP.
    headers = 48 if v["is_ipv6"] else 28
    return {"headers": str(headers), "payload": f"{largest - headers:.0f}", "hole": v.get("detail") == "black-hole"}


ADVICE: Advice = {
    ("mtu", None): (
        "Find the largest packet that passes without fragmentation ({headers} bytes are headers):",
        "$ ping -M do -c 3 -s {payload} HOST",
        '[hole?Let ICMP "fragmentation needed" and ICMPv6 "packet too big" pass every filter (RFC 4890).]',
        "On the router before the narrow link, lower the segment size on which TCP connections agree (MSS):",
        "$ nft add rule inet filter forward tcp flags syn tcp option maxseg size set rt mtu",
        "Or let the sender probe for the path's MTU (RFC 4821):",
        "$ sysctl -w net.ipv4.tcp_mtu_probing=1",
    ),
    ("mtu", "joined"): (
        "On the router that refused the packet, and on every device before it, do not join packets that are forwarded:",
        "$ ethtool -K DEV lro off gro off",
        "$ ethtool -k DEV | grep -E 'large-receive|generic-receive'",
    ),
    ("reordering", None): (
        "Packets overtake each other. Look for load balancing per packet instead of per flow (link aggregation, ECMP), "
        "or for links of unequal delay used as one.",
        "Until that is repaired, let the sender tolerate reordering:",
        "$ sysctl -w net.ipv4.tcp_reordering=30",
    ),
    ("outage", None): (
        "See what happened to the path at that time: a link or a radio that went away, a route that changed, a host "
        "that was suspended. On each host and router:",
        "$ journalctl -k | grep -iE 'link (is )?(down|up)|carrier|deauth'",
        "$ ip -s link show DEV",
        "To record the next outage, run ping beside the traffic, with timestamps:",
        "$ ping -D -O HOST",
    ),
    ("sack", "mangled"): (
        "Switch off the rewriting of sequence numbers on the firewall (Cisco ASA: set connection "
        "random-sequence-number disable). Until then, switch the option off at the sender:",
        "$ sysctl -w net.ipv4.tcp_sack=0",
    ),
    ("sack", None): (
        "See whether both ends permit selective acknowledgments (1: yes), and capture the SYN at both ends: a device "
        "between them may remove the option:",
        "$ sysctl net.ipv4.tcp_sack",
    ),
    ("ecn", "blocked"): (
        "Find the filter that drops SYNs with ECE and CWR (RFC 3360). Until then do not offer ECN there:",
        "$ ip route replace DESTINATION via GATEWAY features 0",
        "$ sysctl -w net.ipv4.tcp_ecn=2",
    ),
    ("ecn", "refused"): (
        "If that host is yours, let it accept ECN (the default, 2, accepts it when it is offered):",
        "$ sysctl net.ipv4.tcp_ecn",
    ),
    ("ecn", None): (
        "Find the hop that rewrites the two bits of ECN, often with the whole byte of DSCP. tracebox, or two captures, "
        "show where:",
        "$ tcpdump -nvi DEV tcp | grep -o 'tos 0x[0-9a-f]*[^,]*'",
    ),
    ("duplicate", "path"): (
        "Look for a device that copies packets: a bond in broadcast mode, redundant paths (PRP, dual attachment), a "
        "loop that spanning tree does not see:",
        "$ ip -d link show type bond",
    ),
    ("duplicate", None): (
        "The copies are left out of every count. To avoid them, capture on one interface instead of all of them "
        "(`any`), and mirror only one direction of each port:",
        "$ tcpdump -i DEV -w FILE.pcap",
    ),
    ("checksum", None): (
        "Something changes bits after the last check of a link: a faulty interface, memory of a router, a broken "
        "offload or a middlebox that rewrites packets. Look at the counters of each hop, and on the receiver:",
        "$ nstat -az TcpInCsumErrors IpExtInCsumErrors",
        "$ ethtool -S DEV | grep -Ei 'csum|crc|err'",
    ),
    ("batching", "power-save"): (
        "A station in power-save mode gets its packets when it wakes. Turn power save off:",
        "$ iw dev DEV get power_save",
        "$ iw dev DEV set power_save off",
    ),
    ("batching", None): (
        "The link sends several packets at once. Where delay matters, allow shorter aggregates, and pace the sender. "
        "Look at rates and airtime of the stations:",
        "$ iw dev DEV station dump",
    ),
    ("jitter", None): (
        "Something other than this flow delays packets: a radio that retransmits, a scheduler, other traffic. Probe "
        "with and without the traffic, and look at the link's own counters:",
        "$ ping -i 0.2 HOST",
        "$ ip -s link show dev DEV",
    ),
}

DERIVED = {"mtu": _mtu}
