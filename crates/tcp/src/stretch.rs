//! How much a receiver acknowledges at once.

use crate::flow::Flow;
use crate::quantile::quantile_in;

/// Few acknowledgments cover more than the receiver's usual amount: those after a lost or overtaken one.
const MOST: f64 = 0.9;

/// The bytes with which the receiver acknowledges without waiting for more: two full segments (RFC 5681, section 4.2),
/// or more if it usually does so ("stretch acknowledgments": RFC 2525, section 2.13).
pub(crate) fn stretch(flow: &Flow) -> i64 {
    quantile_in(&mut newly_acknowledged(flow), MOST).max(2 * mss(flow))
}

/// True if acknowledgments usually make room for several full packets, which leave at once unless they are paced.
pub(crate) fn releases_several(flow: &Flow) -> bool {
    quantile_in(&mut newly_acknowledged(flow), 0.5) >= 2 * mss(flow)
}

/// Bytes newly acknowledged by each acknowledgment that advanced.
fn newly_acknowledged(flow: &Flow) -> Vec<i64> {
    let two = flow.acknowledgments.windows(2);
    let bytes = two.map(|two| two[1].acknowledged - two[0].acknowledged);
    bytes.filter(|bytes| *bytes > 0).collect()
}

fn mss(flow: &Flow) -> i64 {
    i64::from(flow.full_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Acknowledgment;

    fn acknowledging(segments: &[i64]) -> Flow {
        let mut flow = Flow {
            mss_bytes: Some(1000),
            ..Flow::default()
        };
        let mut acknowledged = 0;
        for (number, count) in [0].iter().chain(segments).enumerate() {
            acknowledged += count * 1000;
            flow.acknowledgments.push(Acknowledgment {
                time_ns: number as i64,
                acknowledged,
                window_bytes: 1_000_000,
                ecn_echo: false,
            });
        }
        flow
    }

    #[test]
    fn a_receiver_waits_for_two_segments_unless_it_usually_waits_for_more() {
        assert_eq!(stretch(&acknowledging(&[1; 20])), 2000);
        assert_eq!(stretch(&acknowledging(&[4; 20])), 4000);
    }

    #[test]
    fn one_acknowledgment_of_many_segments_makes_no_stretch() {
        let mut segments = [2; 20];
        segments[7] = 40;
        assert_eq!(stretch(&acknowledging(&segments)), 2000);
    }

    #[test]
    fn acknowledgments_of_each_segment_release_one() {
        assert!(!releases_several(&acknowledging(&[1, 1, 1, 2, 1])));
        assert!(releases_several(&acknowledging(&[2, 2, 1, 2, 2])));
    }
}
