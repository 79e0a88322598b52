//! What to do about a cause: specific, with the arithmetic, and commands to paste.

use crate::cause::Cause;
use crate::document::{Parameter, ThroughputLost};
use crate::evidence::Evidence;
use crate::words::{bytes, duration, rate};

/// Pace this far below a limit: the rate is known to a few per cent, and its byte basis may not be.
const PACE_SHARE: f64 = 0.95;

/// What advice is made of.
pub struct Situation<'a> {
    pub cause: Cause,
    pub evidence: &'a Evidence,
    pub parameters: &'a std::collections::BTreeMap<String, Parameter>,
    /// Largest payload of a packet, bytes.
    pub mss_bytes: f64,
    /// Payload acknowledged per second of busy time, bit/s.
    pub goodput_bps: f64,
}

impl Situation<'_> {
    fn parameter(&self, name: &str) -> Option<f64> {
        self.parameters.get(name).map(|parameter| parameter.value)
    }

    fn rtt_s(&self) -> f64 {
        self.evidence.base_rtt_s.unwrap_or(0.0)
    }
}

/// Sentences, and lines beginning with `$ ` that can be pasted.
pub fn advice(situation: &Situation) -> Vec<String> {
    match situation.cause {
        Cause::Policer => policer(situation),
        Cause::ShallowQueue => shallow_queue(situation),
        Cause::DeepQueue => deep_queue(situation),
        Cause::Shaper => shaper(situation),
        Cause::Aqm => aqm(),
        Cause::RandomLoss => random_loss(situation),
        Cause::Reordering => reordering(),
        Cause::ReceiverWindow => receiver_window(situation),
        Cause::Sender => sender(),
        Cause::CaptureLoss => capture_loss(),
        Cause::None => Vec::new(),
        Cause::Unknown => unknown(),
    }
}

fn pace_command(rate_bps: f64) -> String {
    format!(
        "$ tc qdisc replace dev DEV root fq maxrate {:.0}kbit",
        rate_bps * PACE_SHARE / 1e3
    )
}

fn policer(s: &Situation) -> Vec<String> {
    let (Some(policed), Some(burst)) = (s.parameter("rate_bps"), s.parameter("burst_bytes")) else {
        return Vec::new();
    };
    let mut lines = vec![
        format!(
            "Pace the sender below the policer, at {}, and it has nothing to drop (DEV is the sender's interface; fq paces each flow, so divide by the number of flows that share the policer):",
            rate(policed * PACE_SHARE)
        ),
        pace_command(policed),
        "Or shape all of them together, with a queue instead of drops:".to_owned(),
        format!(
            "$ tc qdisc replace dev DEV root tbf rate {:.0}kbit burst {:.0} latency 50ms",
            policed * PACE_SHARE / 1e3,
            burst.clamp(3e3, 32e3)
        ),
    ];
    let rtt = s.rtt_s();
    if rtt > 0.0 {
        let needed = sawtooth_burst_bytes(policed, rtt, s.mss_bytes);
        let verdict = if burst < needed {
            "too small"
        } else {
            "large enough"
        };
        lines.push(format!(
            "Ask whoever runs the policer for a shaper, or for a larger bucket: one TCP (Reno) flow with a round trip of {} needs {} to fill {}; {} is {verdict}.",
            duration(rtt), bytes(needed), rate(policed), bytes(burst)
        ));
    }
    lines
}

/// Tokens that the sawtooth of one Reno flow (RFC 5681) spends above its mean rate `rate`: the window swings between
/// 2/3 and 4/3 of the bandwidth-delay product P, growing by one segment a round trip; its upper half lasts P/(3 MSS)
/// round trips and exceeds the mean by P/6 in each, together P^2 / (18 MSS). At least P itself, for slow start.
fn sawtooth_burst_bytes(rate_bps: f64, rtt_s: f64, mss_bytes: f64) -> f64 {
    let product = rate_bps / 8.0 * rtt_s;
    (product * product / (18.0 * mss_bytes.max(1.0))).max(product)
}

fn shallow_queue(s: &Situation) -> Vec<String> {
    let (Some(drain), Some(limit)) = (s.parameter("drain_rate_bps"), s.parameter("limit_bytes"))
    else {
        return Vec::new();
    };
    let product = drain / 8.0 * s.rtt_s();
    let mut lines = Vec::new();
    if product > limit {
        lines.push(format!(
            "The queue holds {}; one flow needs a bandwidth-delay product of {} ({} x {}) to keep the link busy, n flows that product over the square root of n (Appenzeller et al. 2004): {} are missing.",
            bytes(limit), bytes(product), rate(drain), duration(s.rtt_s()), bytes(product - limit)
        ));
    }
    lines.push(format!("Bursts overflow it, so send smoothly: pace at {} or below (DEV is the sender's interface):", rate(drain * PACE_SHARE)));
    lines.push(pace_command(drain));
    lines
}

fn deep_queue(s: &Situation) -> Vec<String> {
    let Some(drain) = s.parameter("drain_rate_bps") else {
        return Vec::new();
    };
    vec![
        "Manage the queue where it stands: just below the link's rate, on the router's interface DEV before it, so that the queue forms under your control:".to_owned(),
        format!("$ tc qdisc replace dev DEV root cake bandwidth {:.0}kbit", drain * PACE_SHARE / 1e3),
        "Or, where cake is missing, fq_codel behind a rate limit:".to_owned(),
        format!("$ tc qdisc replace dev DEV root handle 1: htb default 1 && tc class add dev DEV parent 1: classid 1:1 htb rate {:.0}kbit && tc qdisc add dev DEV parent 1:1 fq_codel", drain * PACE_SHARE / 1e3),
        "If only the sender is yours: a congestion control that does not fill queues, or pacing below the drain rate:".to_owned(),
        "$ sysctl -w net.ipv4.tcp_congestion_control=bbr".to_owned(),
    ]
}

fn shaper(s: &Situation) -> Vec<String> {
    let Some(shaped) = s.parameter("rate_bps") else {
        return Vec::new();
    };
    vec![
        format!(
            "The path is shaped to {}: more needs another contract or another path. To avoid the wait in the shaper's queue, pace below it:",
            rate(shaped)
        ),
        pace_command(shaped),
    ]
}

fn aqm() -> Vec<String> {
    vec![
        "The queue drops early to keep delay short: it works as intended. With ECN it can mark instead of dropping:".to_owned(),
        "$ sysctl -w net.ipv4.tcp_ecn=1".to_owned(),
    ]
}

fn random_loss(s: &Situation) -> Vec<String> {
    let mut lines = vec![
        "Losses do not depend on load, so look for a broken link, not a full one: errors on each hop's interfaces, optical power, duplex, radio:".to_owned(),
        "$ ethtool -S DEV | grep -Ei 'err|drop|crc|fcs'".to_owned(),
        "$ ip -s -s link show DEV".to_owned(),
    ];
    if let Some(share) = s.parameter("loss_probability").filter(|share| *share > 0.0)
        && s.rtt_s() > 0.0
    {
        let bound = s.mss_bytes * 8.0 / s.rtt_s() * (1.5 / share).sqrt();
        lines.push(format!(
            "At this loss rate and a round trip of {} a loss-based congestion control cannot exceed about {} (Mathis et al. 1997); BBR depends on loss far less:",
            duration(s.rtt_s()), rate(bound)
        ));
        lines.push("$ sysctl -w net.ipv4.tcp_congestion_control=bbr".to_owned());
    }
    lines
}

fn reordering() -> Vec<String> {
    vec![
        "Nothing was lost: packets overtake each other. Look for load balancing per packet instead of per flow (link aggregation, ECMP), or for links of unequal delay used as one.".to_owned(),
        "Until then let the sender tolerate it:".to_owned(),
        "$ sysctl -w net.ipv4.tcp_reordering=30".to_owned(),
    ]
}

fn receiver_window(s: &Situation) -> Vec<String> {
    let window = s.goodput_bps / 8.0 * s.rtt_s();
    let mut lines = Vec::new();
    if s.rtt_s() > 0.0 {
        lines.push(format!(
            "The receiver's window lets about {} out per round trip of {}. For twice the rate it needs twice that; for 1 Gbit/s on this path, {}.",
            bytes(window), duration(s.rtt_s()), bytes(1e9 / 8.0 * s.rtt_s())
        ));
    }
    lines.push("On the receiver, allow a larger buffer, and see that the application neither sets SO_RCVBUF nor reads slowly:".to_owned());
    lines.push(format!(
        "$ sysctl -w net.ipv4.tcp_rmem='4096 131072 {:.0}'",
        (2.0 * 1e9 / 8.0 * s.rtt_s()).max(6_291_456.0)
    ));
    lines
}

fn sender() -> Vec<String> {
    vec![
        "Neither the path nor the receiver holds this flow back: its sender does. See whether the application has data ready, whether its send buffer is large enough, and what limits the socket:".to_owned(),
        "$ ss -tinm | grep -A1 -E 'sndbuf_limited|rwnd_limited|app_limited'".to_owned(),
    ]
}

fn capture_loss() -> Vec<String> {
    vec![
        "The capture missed packets that the receiver acknowledged: give it a larger buffer and a shorter snapshot, or filter:".to_owned(),
        "$ tcpdump -i DEV -s 128 -B 65536 -w FILE.pcap".to_owned(),
    ]
}

fn unknown() -> Vec<String> {
    vec!["No cause stands out. A longer capture, one taken at the sender, or a second one behind the suspected hop would tell more.".to_owned()]
}

/// Throughput that the cause cost, where its rate is known: that rate less what arrived while the sender was busy.
pub fn throughput_lost(situation: &Situation) -> Option<ThroughputLost> {
    let name = match situation.cause {
        Cause::Policer => "rate_bps",
        Cause::ShallowQueue | Cause::DeepQueue => "drain_rate_bps",
        _ => return None,
    };
    let available = situation.parameter(name)?;
    let payload_share = situation.mss_bytes / (situation.mss_bytes + 52.0);
    let lost = available * payload_share - situation.goodput_bps;
    (lost > 0.0 && situation.goodput_bps > 0.0).then(|| ThroughputLost {
        bps: lost,
        share: lost / (available * payload_share),
        method: "payload that the cause's rate would carry, less payload acknowledged per second, while data was in flight".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_burst_for_a_sawtooth_follows_from_its_geometry() {
        // 20 Mbit/s x 40 ms = 100 000 bytes; squared over 18 x 1448 = 383 671 bytes
        assert!((sawtooth_burst_bytes(20e6, 0.040, 1448.0) - 383_671.0).abs() < 1.0);
        // 1 Mbit/s x 10 ms = 1250 bytes: less than a packet a round trip, so the product itself
        assert_eq!(sawtooth_burst_bytes(1e6, 0.010, 1448.0), 1250.0);
    }
}
