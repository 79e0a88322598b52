//! The effect of loss on speech, by the E-model (ITU-T G.107).
//!
//! The rating `R = 93.2 - Id - Ie,eff` (with G.107's defaults for everything else) becomes a mean opinion score. One
//! capture does not show the mouth-to-ear delay: `Id` is assumed 0, which it nearly is up to 150 ms, so the score is
//! the best that the loss permits. Packets that a receiver's buffer discards as too late are not counted either.

/// A codec from G.113: equipment impairment `Ie`, and robustness against random loss `Bpl`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Codec {
    pub name: &'static str,
    impairment: f64,
    robustness: f64,
}

/// Rating with G.107's defaults and no delay.
const BEST_RATING: f64 = 93.2;

/// The codec of a static payload type (RFC 3551), if G.113, Appendix I, has values for it: for G.711 those with loss
/// concealment, for G.729 those of G.729A.
pub fn codec(payload_type: u8) -> Option<Codec> {
    let codec = |name, impairment, robustness| Codec {
        name,
        impairment,
        robustness,
    };
    match payload_type {
        0 => Some(codec("G.711 u-law", 0.0, 25.1)),
        8 => Some(codec("G.711 A-law", 0.0, 25.1)),
        4 => Some(codec("G.723.1", 15.0, 16.1)),
        18 => Some(codec("G.729", 11.0, 19.0)),
        _ => None,
    }
}

impl Codec {
    /// The mean opinion score, 1 to 4.5, for a share of lost packets, with losses in runs `burst_ratio` times as long
    /// as random ones (G.107, 7.4 and Annex B).
    pub fn opinion_score(&self, lost_share: f64, burst_ratio: f64) -> f64 {
        let percent = 100.0 * lost_share;
        let effective = self.impairment
            + (95.0 - self.impairment) * percent
                / (percent / burst_ratio.max(1.0) + self.robustness);
        let rating = (BEST_RATING - effective).clamp(0.0, 100.0);
        (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speech_without_loss_has_the_score_that_the_model_gives_its_codec() {
        let score = |payload_type| codec(payload_type).unwrap().opinion_score(0.0, 1.0);
        // G.107, Annex B: R of 93.2 is 4.41; 82.2 is 4.10
        assert!((score(0) - 4.41).abs() < 0.01, "{}", score(0));
        assert!((score(18) - 4.10).abs() < 0.02, "{}", score(18));
    }

    #[test]
    fn loss_and_more_so_loss_in_bursts_lowers_the_score() {
        let speech = codec(8).unwrap();
        // 5 %: Ie,eff = 95 * 5 / (5 + 25.1) = 15.8, R = 77.4
        assert!((speech.opinion_score(0.05, 1.0) - 3.92).abs() < 0.02);
        assert!(speech.opinion_score(0.05, 3.0) < speech.opinion_score(0.05, 1.0));
        assert!(speech.opinion_score(0.9, 1.0) >= 1.0);
    }

    #[test]
    fn a_codec_that_is_agreed_on_elsewhere_has_no_score() {
        assert_eq!(codec(96), None);
        assert_eq!(codec(111), None);
    }
}
