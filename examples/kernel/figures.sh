#!/bin/sh
# Draws the published figures of each recording in a folder, beside it; one without data is named and left out.
# FIGURES names others, FORMAT another format of pictures.
set -u
published="tcp_goodput tcp_throughput tcp_cwnd_bytes tcp_cwnd_throughput tcp_cwnd_throughput_stalled
    tcp_cwnd_throughput_unstalled tcp_cwnd_throughput_unsignalled tcp_send_stalls tcp_congestion_signals
    tcp_fast_retransmits tcp_timeouts tcp_duplicate_acks tcp_slow_start tcp_slow_start_stalls tcp_packets_sent
    tcp_rtt_kinds tcp_rtt_histogram tcp_rare_events tcp_duplicate_acks_rate"
for recording in "$1"/*.recording; do
    for figure in ${FIGURES:-$published}; do
        whydrop plot "$recording" --plot "$figure" --output "$1/$figure.${FORMAT:-png}"
    done
    whydrop explain "$recording" >"$1/explained.txt"
done
exit 0
