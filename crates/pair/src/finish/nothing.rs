//! The error for captures that share no packet.

use std::collections::HashMap;
use std::net::IpAddr;

use whydrop_capture::Summary;

use crate::error::PairError;
use crate::matching::Matcher;

/// Hosts named for each capture.
const HOSTS_NAMED: usize = 3;

pub(super) fn in_common(summaries: &[Summary; 2], matcher: &Matcher) -> PairError {
    let [one, two] = [0, 1].map(|side| describe(&summaries[side], matcher, side));
    let advice = match [0, 1].map(|side| matcher.flows.all(side).is_empty()) {
        [true, true] => "neither holds IP packets",
        [true, false] | [false, true] => "one of them holds no IP packets",
        _ => {
            "check that both were taken on one path at the same time, and that no filter, encryption or proxy \
             between the points makes the packets different ones"
        }
    };
    PairError::NothingInCommon {
        message: format!("no packet in common: {one}; {two}; {advice}"),
    }
}

fn describe(summary: &Summary, matcher: &Matcher, side: usize) -> String {
    let span = match (summary.first_ns, summary.last_ns) {
        (Some(first), Some(last)) => format!(", {} to {}", utc(first), utc(last)),
        _ => String::new(),
    };
    let hosts = busiest_hosts(matcher, side);
    let hosts = match hosts.is_empty() {
        true => String::new(),
        false => format!(" of {}", hosts.join(", ")),
    };
    let path = summary.paths.first().map_or("-", String::as_str);
    let path: String = path.chars().filter(|c| !c.is_control()).collect();
    format!("{path} holds {} packets{hosts}{span}", summary.packets)
}

fn busiest_hosts(matcher: &Matcher, side: usize) -> Vec<String> {
    let mut packets: HashMap<IpAddr, u64> = HashMap::new();
    let flows = matcher.flows.all(side).iter();
    for flow in flows.filter(|flow| !flow.was_discarded()) {
        for end in [flow.tuple.source(), flow.tuple.destination()] {
            *packets.entry(end.address).or_default() += flow.packets;
        }
    }
    let mut hosts: Vec<(u64, IpAddr)> = packets.into_iter().map(|(host, n)| (n, host)).collect();
    hosts.sort_unstable_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
    let rest = hosts.len().saturating_sub(HOSTS_NAMED);
    let mut named: Vec<String> = hosts
        .iter()
        .take(HOSTS_NAMED)
        .map(|(_, host)| host.to_string())
        .collect();
    if rest > 0 {
        named.push(format!("{rest} more hosts"));
    }
    named
}

/// `2026-11-21 19:39:48 UTC`, by the proleptic Gregorian calendar (H. Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`).
fn utc(time_ns: i64) -> String {
    let seconds = time_ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn times_are_written_as_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_291_157_296_669_828), "2026-11-21 19:59:17 UTC");
    }
}
