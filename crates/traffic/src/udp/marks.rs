//! The traffic classes of arriving packets: they show marks that the path cleared and congestion that it signalled.

/// Names of the ECN field's values (RFC 3168 section 5).
const ECN_NAMES: [&str; 4] = ["Not-ECT", "ECT(1)", "ECT(0)", "CE"];

/// True for Congestion Experienced (RFC 3168 section 5).
pub(crate) fn is_marked(class: Option<u8>) -> bool {
    class.is_some_and(|class| class & 0b11 == 0b11)
}

/// How often each traffic class was seen.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    counts: Box<[u64; 256]>,
}

impl Default for Marks {
    fn default() -> Marks {
        Marks {
            counts: Box::new([0; 256]),
        }
    }
}

impl Marks {
    pub(crate) fn add(&mut self, class: Option<u8>) {
        if let Some(class) = class {
            self.counts[usize::from(class)] += 1;
        }
    }

    /// The code points, most frequent first, such as `46` or `0 (99.8 %), 46 (0.2 %)`; `None` before any packet.
    pub(crate) fn dscp(&self) -> Option<String> {
        self.shares(|class| class >> 2, |dscp| dscp.to_string())
    }

    /// The same for the ECN field, by name.
    pub(crate) fn ecn(&self) -> Option<String> {
        self.shares(|class| class & 0b11, |ecn| ECN_NAMES[ecn].to_owned())
    }

    fn shares(
        &self,
        part: impl Fn(usize) -> usize,
        name: impl Fn(usize) -> String,
    ) -> Option<String> {
        let mut counts = [0; 64];
        for (class, count) in self.counts.iter().enumerate() {
            counts[part(class)] += count;
        }
        let all: u64 = counts.iter().sum();
        let mut seen: Vec<(usize, u64)> = counts
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .collect();
        seen.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        match seen[..] {
            [] => None,
            [(only, _)] => Some(name(only)),
            _ => Some(
                seen.iter()
                    .map(|&(value, count)| {
                        format!(
                            "{} ({:.1} %)",
                            name(value),
                            count as f64 * 100.0 / all as f64
                        )
                    })
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_listed_by_frequency_and_by_name() {
        let mut marks = Marks::default();
        assert_eq!(marks.dscp(), None);
        marks.add(Some(0xb8));
        marks.add(None);
        assert_eq!(
            (marks.dscp(), marks.ecn()),
            (Some("46".into()), Some("Not-ECT".into()))
        );
        marks.add(Some(0x03));
        marks.add(Some(0x01));
        assert_eq!(marks.dscp().unwrap(), "0 (66.7 %), 46 (33.3 %)");
        assert!(marks.ecn().unwrap().contains("CE (33.3 %)"));
    }
}
