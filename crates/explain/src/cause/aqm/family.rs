//! Families of active queue management, identified by the law that drops and marks follow.

use whydrop_path::fit::managed::{Law, LawFit, Management};
use whydrop_verdict::{Fact, fact};

use crate::cause::Parameters;
use crate::observe::Observation;
use crate::quantities::quantity;
use crate::thresholds::FAMILY_NATS;

/// A family of active queue management, as far as it can be identified from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// The law that the drops and marks follow.
    pub law: Option<LawFit>,
    /// Flows overtake each other: each has its own queue.
    pub isolates: bool,
    /// Gain of the law in nats over chance, and the number of drops and marks.
    nats: f64,
    events: usize,
}

impl Family {
    /// The family that drops or marks show, if the laws were measured.
    pub fn shown(seen: &Observation) -> Option<Self> {
        let laws = seen.laws.as_ref()?;
        let family = || Self::of(laws.best.as_ref(), laws.isolates);
        match &seen.exact {
            _ if seen.totals.lost == 0 => family(),
            Some(exact) if exact.departures.is_some() || laws.are_followed() => family(),
            Some(_) => None,
            // evidence for queue management already outweighs a full queue of about equal likelihood
            None if laws.are_as_likely() => family(),
            None => None,
        }
    }

    fn of(management: Option<&Management>, isolates: bool) -> Option<Self> {
        let found_law =
            management.filter(|found| found.laws[0].nats > 0.0 && found.lead_nats() > FAMILY_NATS);
        // queues per flow run CoDel or PIE; RED is only the nearest approximation of another law there
        let found_law = found_law.filter(|found| !(isolates && found.laws[0].law == Law::Red));
        // the law of FQ-CoDel and that of cake differ only between overloads
        let is_either = |found: &&Management| {
            let is_codel = matches!(found.laws[0].law, Law::CoDel | Law::Cobalt);
            isolates && is_codel && found.cobalt_nats().abs() <= FAMILY_NATS
        };
        let found_law = found_law.filter(|found| !is_either(found));
        let family = Self {
            law: found_law.map(|found| found.laws[0]),
            isolates,
            nats: found_law.map_or(0.0, |found| found.laws[0].nats),
            events: management.map_or(0, |found| found.events),
        };
        (isolates || family.law.is_some()).then_some(family)
    }

    pub fn name(&self) -> &'static str {
        let Some(fit) = self.law else {
            return "flow-queueing";
        };
        match (fit.law, self.isolates) {
            (Law::CoDel | Law::Cobalt, false) => "codel",
            (Law::CoDel, true) => "fq-codel",
            // only cake combines it with a queue for each flow
            (Law::Cobalt, true) => "cake",
            (Law::Pie, false) => "pie",
            (Law::Pie, true) => "fq-pie",
            (Law::DualPi2, _) => "dualpi2",
            (Law::Red, _) => "red",
        }
    }

    pub fn fact(&self) -> Option<Fact> {
        self.law
            .map(|_| fact!("law-followed", events = self.events, gain_nats = self.nats))
    }

    /// The parameters of the law.
    pub fn parameters(&self) -> Parameters {
        let Some(fit) = self.law else {
            return Parameters::new();
        };
        let target = match fit.law {
            Law::Red => "threshold_s",
            _ => "target_s",
        };
        let interval = fit
            .interval_s
            .map(|interval| ("interval_s".to_owned(), quantity(interval)));
        [(target.to_owned(), quantity(fit.target_s))]
            .into_iter()
            .chain(interval)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use whydrop_path::fit::Interval;

    use super::*;

    /// One law with a large lead.
    fn leading(law: Law) -> Management {
        let at = |value: f64| Interval {
            value,
            low: None,
            high: None,
        };
        let fit = |law: Law, nats: f64| LawFit {
            law,
            nats,
            target_s: at(5e-3),
            interval_s: None,
        };
        let rival = match law {
            Law::Pie => Law::Red,
            _ => Law::Pie,
        };
        Management {
            events: 100,
            laws: vec![fit(law, 100.0), fit(rival, 10.0)],
            tail_drop_nats: 0.0,
        }
    }

    #[test]
    fn fq_codel_and_cake_are_named_where_one_is_likelier() {
        let name = |cobalt_nats: f64, isolates: bool| {
            let mut laws = leading(Law::CoDel);
            laws.laws[1] = LawFit {
                law: Law::Cobalt,
                nats: cobalt_nats,
                ..laws.laws[0]
            };
            laws.laws.sort_by(|a, b| b.nats.total_cmp(&a.nats));
            Family::of(Some(&laws), isolates).unwrap().name()
        };
        assert_eq!(name(90.0, true), "fq-codel");
        assert_eq!(name(98.0, true), "flow-queueing");
        assert_eq!(name(102.0, true), "flow-queueing");
        assert_eq!(name(110.0, true), "cake");
        assert_eq!(name(102.0, false), "codel");
    }

    #[test]
    fn red_is_not_named_where_flows_have_queues_of_their_own() {
        let name =
            |law: Law, isolates: bool| Family::of(Some(&leading(law)), isolates).unwrap().name();
        assert_eq!(name(Law::Red, false), "red");
        assert_eq!(name(Law::Red, true), "flow-queueing");
        assert_eq!(name(Law::CoDel, true), "fq-codel");
        assert_eq!(name(Law::Pie, true), "fq-pie");
        assert_eq!(name(Law::Cobalt, false), "codel");
    }
}
