//! Options and statistics of queueing disciplines by their names, with the units in them.
//!
//! Layouts are those of linux/pkt_sched.h and linux/gen_stats.h.

/// Options that are attributes with one number each, in the order of their types from 1 on; `-` is skipped.
pub const OPTIONS: [(&str, &str); 6] = [
    (
        "fq_codel",
        "target_us limit_packets interval_us ecn flows quantum_bytes ce_threshold_us drop_batch_packets \
         memory_limit_bytes",
    ),
    (
        "codel",
        "target_us limit_packets interval_us ecn ce_threshold_us",
    ),
    (
        "pie",
        "target_us limit_packets tupdate_us alpha beta ecn bytemode dq_rate_estimator",
    ),
    (
        "fq_pie",
        "limit_packets flows target_us tupdate_us alpha beta quantum_bytes memory_limit_bytes ecn_prob_percent ecn \
         bytemode dq_rate_estimator",
    ),
    (
        "fq",
        "limit_packets flow_limit_packets quantum_bytes initial_quantum_bytes pacing - max_rate_bytes_per_s \
         buckets_log2 refill_delay_us orphan_mask low_rate_threshold_bytes_per_s ce_threshold_us timer_slack_ns \
         horizon_us horizon_drop",
    ),
    (
        "cake",
        "- bandwidth_bytes_per_s diffserv_mode atm flow_mode overhead_bytes rtt_us target_us autorate_ingress \
         memory_limit_bytes nat raw wash mpu_bytes ingress ack_filter split_gso fwmark",
    ),
];

/// Statistics of one discipline. Each field has its size, in bytes (`s4`: signed), and its name, with `+` if it only
/// grows.
pub const STATISTICS: [(&str, &str); 7] = [
    (
        "fq_codel",
        "4:- 4:largest_packet_bytes 4:dropped_overlimit_packets+ 4:ecn_marked_packets+ 4:new_flows+ \
         4:new_flows_waiting 4:old_flows_waiting 4:ce_threshold_marked_packets+ 4:memory_used_bytes \
         4:dropped_overmemory_packets+",
    ),
    (
        "codel",
        "4:largest_packet_bytes 4:count 4:last_count 4:delay_us s4:drop_next_us 4:dropped_overlimit_packets+ \
         4:ecn_marked_packets+ 4:dropping 4:ce_threshold_marked_packets+",
    ),
    (
        "pie",
        "8:probability_raw 4:delay_ms 4:dequeue_rate_raw 4:- 4:enqueued_packets+ 4:dropped_early_packets+ \
         4:dropped_overlimit_packets+ 4:largest_queue_packets 4:ecn_marked_packets+",
    ),
    (
        "fq_pie",
        "4:enqueued_packets+ 4:dropped_early_packets+ 4:dropped_overlimit_packets+ 4:dropped_overmemory_packets+ \
         4:ecn_marked_packets+ 4:new_flows+ 4:new_flows_waiting 4:old_flows_waiting 4:memory_used_bytes",
    ),
    (
        "red",
        "4:dropped_early_packets+ 4:dropped_overlimit_packets+ 4:dropped_other_packets+ 4:ecn_marked_packets+",
    ),
    (
        "choke",
        "4:dropped_early_packets+ 4:dropped_overlimit_packets+ 4:dropped_other_packets+ 4:ecn_marked_packets+ \
         4:dropped_matched_packets+",
    ),
    (
        "fq",
        "8:flows_collected+ 8:high_priority_packets+ 8:tcp_retransmitted_packets+ 8:throttled_packets+ \
         8:dropped_flow_limit_packets+ 8:too_long_packets+ 8:allocation_errors+ s8:- 4:flows 4:inactive_flows \
         4:throttled_flows 4:unthrottle_latency_ns",
    ),
];

/// Statistics of every discipline, by the type of the attribute.
pub const OF_ALL: [(u16, &str); 2] = [
    (1, "8:sent_bytes+ 4:sent_packets+"),
    (
        3,
        "4:backlog_packets 4:backlog_bytes 4:dropped_packets+ 4:requeues+ 4:overlimits+",
    ),
];

/// Statistics of cake by the types of attributes, and those of each of its tins.
pub const CAKE: &str = "- capacity_estimate_bytes_per_s memory_limit_bytes memory_used_bytes";
pub const CAKE_TINS: u16 = 10;
pub const CAKE_TIN: &str = "- sent_packets+ sent_bytes+ dropped_packets+ dropped_bytes+ dropped_ack_packets+ \
     dropped_ack_bytes+ ecn_marked_packets+ ecn_marked_bytes+ backlog_packets backlog_bytes threshold_rate_bytes_per_s \
     - - - - - peak_delay_us mean_delay_us base_delay_us sparse_flows bulk_flows unresponsive_flows";

/// The value of a name in one of these tables; empty if it is unknown.
pub fn of(table: &[(&str, &'static str)], kind: &str) -> &'static str {
    table
        .iter()
        .find(|(name, _)| *name == kind)
        .map_or("", |(_, layout)| layout)
}
