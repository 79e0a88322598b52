"""Names of tests that Flent 2.3 knows: it cannot open a file of any other."""

from __future__ import annotations

from whydrop.recording.recording import Recording

_NAMES = """
bursts bursts_11e cisco_5tcpup cisco_5tcpup_2udpflood command-output cpu_stress cubic_bbr cubic_cdg cubic_dctcp
cubic_ledbat cubic_ledbat_1 cubic_reno cubic_westwood dashtest dslreports_8dn http http-1down http-1up http-rrul
iterated_bidirectional ledbat_cubic_1 mqtt_read ping power_usage qdisc-stats reno_cubic_westwood_cdg
reno_cubic_westwood_ledbat reno_cubic_westwood_lp rrul rrul46 rrul46compete rrul_100_up rrul_50_down rrul_50_up
rrul_be rrul_be_iperf rrul_be_nflows rrul_cs8 rrul_icmp rrul_noclassification rrul_prio rrul_torrent rrul_up
rrul_var rtt_fair rtt_fair4be rtt_fair6be rtt_fair_up rtt_fair_var rtt_fair_var_down rtt_fair_var_mixed
rtt_fair_var_up sctp_vs_tcp tcp_12down tcp_12up tcp_1down tcp_1up tcp_1up_noping tcp_2down tcp_2up tcp_2up_delay
tcp_2up_square tcp_2up_square_westwood tcp_4down tcp_4up tcp_4up_squarewave tcp_50up tcp_6down tcp_6up tcp_8down
tcp_8up tcp_bidirectional tcp_download tcp_ndown tcp_nup tcp_upload tcp_upload_1000 tcp_upload_prio udp_flood
udp_flood_var_up udp_flood_var_up_stagger voip voip-1up voip-rrul
"""
NAMES = frozenset(_NAMES.split())


def name_for(recording: Recording) -> tuple[str, str]:
    """A name that Flent knows, and the recording's own where that is another.

    A test that Flent has not goes under the name of one of its tests that measures alike, so that it finds plots for
    it; the series are those of the recording all the same.
    """
    name = str(recording.metadata["name"])
    if name in NAMES:
        return name, ""
    flows = recording.table("flows")
    load = set(flows.filter(flows["kind"].is_in(["tcp"]))["direction"].to_list())
    kinds = set(flows["kind"].to_list())
    if {"up", "down"} <= load:
        return "rrul_be", name
    if load:
        return ("tcp_nup" if "up" in load else "tcp_ndown"), name
    if "udp" in kinds:
        return "udp_flood", name
    if "http" in kinds:
        return "http", name
    return "ping", name
