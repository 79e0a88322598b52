//! One pace for all connections: the rate at which each is paced.
//!
//! The pace is shared equally by the connections that have data to send at a moment; what an application does not use
//! is left to the others. A connection keeps one rate: the average of its share while it has data.

use crate::setting::{Flow, Load, Setting};

/// Paces all connections, together at this rate on the wire.
pub fn share(setting: &mut Setting, total_bps: f64) {
    let rates_bps = rates_bps(setting, total_bps);
    for (flow, rate_bps) in setting.flows.iter_mut().zip(rates_bps) {
        flow.pace_bps = Some(rate_bps);
    }
}

/// A connection with data that flow as a fluid.
struct Fluid {
    start_s: f64,
    /// Bits that are left to send.
    left: f64,
    /// As much as its application writes.
    most_bps: f64,
    /// The integral of its share, and the time for which it had one.
    shared: f64,
    active_s: f64,
}

impl Fluid {
    fn of(flow: &Flow) -> Self {
        let on_wire = 1.0 + f64::from(flow.header_bytes) / flow.mss_bytes.max(1) as f64;
        let (left, most_bps) = match flow.load {
            Load::Full => (f64::INFINITY, f64::INFINITY),
            Load::Rate { rate_bps } => (f64::INFINITY, on_wire * rate_bps),
            Load::Transfer { bytes } => (on_wire * 8.0 * bytes as f64, f64::INFINITY),
        };
        Fluid {
            start_s: flow.start_ns as f64 / 1e9,
            left,
            most_bps,
            shared: 0.0,
            active_s: 0.0,
        }
    }

    fn is_active(&self, now_s: f64) -> bool {
        self.start_s <= now_s && self.left > 0.0
    }
}

fn rates_bps(setting: &Setting, total_bps: f64) -> Vec<f64> {
    let mut fluids: Vec<Fluid> = setting.flows.iter().map(Fluid::of).collect();
    let end_s = setting.duration_ns as f64 / 1e9;
    let mut now_s = 0.0;
    while now_s < end_s {
        let next_s = (fluids.iter().map(|one| one.start_s))
            .filter(|&start_s| start_s > now_s)
            .fold(end_s, f64::min);
        let level_bps = level_bps(&fluids, now_s, total_bps);
        let active = || fluids.iter().filter(|one| one.is_active(now_s));
        let first_done_s = active()
            .map(|one| one.left / level_bps)
            .fold(f64::INFINITY, f64::min);
        let is_done_first = now_s + first_done_s < next_s;
        let elapsed_s = if is_done_first {
            first_done_s
        } else {
            next_s - now_s
        };
        for one in fluids.iter_mut().filter(|one| one.is_active(now_s)) {
            one.shared += level_bps * elapsed_s;
            one.active_s += elapsed_s;
            // What rounding leaves is nothing: else the loop would not go on.
            let is_done = is_done_first && one.left / level_bps <= first_done_s;
            one.left = if is_done {
                0.0
            } else {
                one.left - level_bps.min(one.most_bps) * elapsed_s
            };
        }
        now_s = if is_done_first {
            now_s + elapsed_s
        } else {
            next_s
        };
    }
    (fluids.iter())
        .map(|one| {
            if one.active_s > 0.0 {
                one.shared / one.active_s
            } else {
                total_bps
            }
        })
        .collect()
}

/// The share of a connection that would send more: those that send less leave the rest to it.
fn level_bps(fluids: &[Fluid], now_s: f64, total_bps: f64) -> f64 {
    let mut most_bps: Vec<f64> = (fluids.iter())
        .filter(|one| one.is_active(now_s))
        .map(|one| one.most_bps)
        .collect();
    most_bps.sort_by(f64::total_cmp);
    let (mut left_bps, mut count) = (total_bps, most_bps.len());
    for &own_bps in &most_bps {
        if own_bps >= left_bps / count as f64 {
            return left_bps / count as f64;
        }
        left_bps -= own_bps;
        count -= 1;
    }
    // All applications together write less than the pace.
    left_bps + most_bps.last().copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL_BPS: f64 = 8e6;

    /// Connections without headers in 10 s, each with its start in s.
    fn rates(flows: &[(i64, Load)]) -> Vec<f64> {
        let mut setting = Setting::one_flow("fifo:rate=20M".parse().unwrap(), 40_000_000);
        setting.duration_ns = 10_000_000_000;
        setting.flows = (flows.iter())
            .map(|&(start_s, load)| Flow {
                start_ns: start_s * 1_000_000_000,
                header_bytes: 0,
                load,
                ..Flow::standard()
            })
            .collect();
        share(&mut setting, TOTAL_BPS);
        let paces = setting
            .flows
            .iter()
            .map(|flow| flow.pace_bps.unwrap() / 1e6);
        paces.map(|mbit| (mbit * 1e3).round() / 1e3).collect()
    }

    #[test]
    fn connections_at_the_same_time_share_the_pace_equally() {
        assert_eq!(rates(&[(0, Load::Full)]), [8.0]);
        assert_eq!(rates(&[(0, Load::Full), (0, Load::Full)]), [4.0, 4.0]);
    }

    #[test]
    fn connections_one_after_the_other_have_all_of_it_each() {
        let transfer = Load::Transfer { bytes: 1_000_000 };
        assert_eq!(
            rates(&[(0, transfer), (2, transfer), (5, transfer)]),
            [8.0; 3]
        );
        // The second begins when half a megabyte of the first is left: beside it for 1 s, then alone for 0.5 s.
        let longer = Load::Transfer {
            bytes: 1_000_000 + 500_000,
        };
        assert_eq!(rates(&[(0, longer), (1, transfer)]), [6.0, 5.333]);
    }

    #[test]
    fn what_an_application_does_not_use_is_left_to_the_others() {
        let idle = Load::Rate { rate_bps: 1e6 };
        assert_eq!(rates(&[(0, idle), (0, Load::Full)]), [7.0, 7.0]);
        assert_eq!(
            rates(&[(0, idle), (0, Load::Full), (0, Load::Full)]),
            [3.5; 3]
        );
        assert_eq!(rates(&[(0, idle), (0, idle)]), [7.0, 7.0]);
    }

    #[test]
    fn a_connection_without_data_or_time_has_the_whole_pace() {
        let nothing = Load::Transfer { bytes: 0 };
        assert_eq!(
            rates(&[(0, nothing), (20, Load::Full), (0, Load::Full)]),
            [8.0; 3]
        );
        assert!(rates(&[]).is_empty());
    }
}
