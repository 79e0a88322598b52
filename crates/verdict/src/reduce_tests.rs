//! Properties that hold for all findings.

use proptest::prelude::*;

use super::*;
use crate::fact;

fn subject(name: &str) -> Subject {
    Subject {
        flows: vec![name.to_owned()],
        ..Subject::default()
    }
}

fn finding(source: &'static str, cause: Cause, nats: f64) -> Finding {
    Finding {
        nats,
        ..Finding::new(source, subject("a > b"), None, cause)
    }
}

fn only(findings: Vec<Finding>) -> Verdict {
    let mut verdicts = reduce(findings).expect("sound findings");
    assert_eq!(verdicts.len(), 1);
    verdicts.remove(0)
}

#[test]
fn a_confidence_survives_as_log_odds() {
    for confidence in [0.5, 0.6, 0.8, 0.961, 0.99] {
        let verdict = only(vec![finding(
            "capture",
            Cause::Policer,
            log_odds(confidence),
        )]);
        assert_eq!(verdict.cause, Cause::Policer);
        assert!((verdict.confidence - confidence).abs() < 1e-12);
    }
    assert!(log_odds(1.0).is_finite() && log_odds(0.0).is_finite());
}

#[test]
fn without_a_likely_cause_the_background_remains() {
    let verdict = only(vec![finding("capture", Cause::Policer, -3.0)]);
    assert_eq!(verdict.cause, Cause::Unknown);
    assert!((verdict.confidence - 1.0 / (1.0 + (-3f64).exp())).abs() < 1e-12);
    assert_eq!(verdict.against[0].cause, Cause::Policer);
    assert_eq!(verdict.against[0].behind_nats, 3.0);
}

#[test]
fn two_sources_together_raise_the_confidence_and_keep_the_facts_of_both() {
    let mut one = finding("capture", Cause::Policer, 2.0);
    one.facts.push(fact!("bucket-followed", lost = 3_u64));
    let mut other = finding("recording", Cause::Policer, 1.0);
    other.facts.push(fact!("rate-steady", rate_bps = 1e6));
    other.detail = Some("single-rate".to_owned());
    let verdict = only(vec![other, one]);
    assert!((verdict.confidence - 1.0 / (1.0 + (-3f64).exp())).abs() < 1e-12);
    let codes: Vec<&str> = verdict.facts.iter().map(|fact| &*fact.code).collect();
    assert_eq!(codes, ["bucket-followed", "rate-steady"]);
    assert_eq!(verdict.sources, ["capture", "recording"]);
    assert_eq!(verdict.detail.as_deref(), Some("single-rate"));
}

#[test]
fn a_veto_of_one_source_rules_out_what_another_found() {
    let mut vetoed = finding("pair", Cause::Policer, 0.0);
    vetoed.veto = Some(fact!("packets-waited", waited_s = 0.1));
    let verdict = only(vec![
        finding("capture", Cause::Policer, 50.0),
        vetoed.clone(),
        finding("capture", Cause::DeepQueue, 1.0),
    ]);
    assert_eq!(verdict.cause, Cause::DeepQueue);
    assert_eq!(verdict.against[0].veto, vetoed.veto);
}

#[test]
fn other_subjects_and_places_do_not_compete_nor_do_packets_missing_from_the_record() {
    let elsewhere = Finding {
        subject: subject("c > d"),
        ..finding("capture", Cause::Shaper, 1.0)
    };
    let verdicts = reduce(vec![
        finding("capture", Cause::Policer, 1.0),
        elsewhere,
        finding("capture", Cause::CaptureLoss, 9.0),
    ]);
    let mut causes: Vec<Cause> = verdicts
        .unwrap()
        .iter()
        .map(|verdict| verdict.cause)
        .collect();
    causes.sort();
    assert_eq!(causes, [Cause::Policer, Cause::Shaper, Cause::CaptureLoss]);
}

#[test]
fn hostile_numbers_are_refused() {
    for hostile in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1e300] {
        assert!(reduce(vec![finding("capture", Cause::Policer, hostile)]).is_err());
        let share = Finding {
            explained: hostile,
            ..finding("capture", Cause::Policer, 1.0)
        };
        assert!(reduce(vec![share]).is_err());
    }
    let mut odd = finding("capture", Cause::Policer, 1.0);
    let value = f64::NAN;
    let quantity = Quantity {
        value,
        low: None,
        high: None,
    };
    odd.quantities.insert("rate_bps".to_owned(), quantity);
    assert!(reduce(vec![odd]).is_err());
    let mut odd = finding("capture", Cause::Policer, 1.0);
    let list = Value::List(vec![Value::Number(f64::INFINITY)]);
    odd.facts.push(Fact {
        values: [("list".into(), list)].into(),
        ..Fact::new("odd")
    });
    assert!(reduce(vec![odd]).is_err());
    let mut background = finding("capture", Cause::Unknown, 0.0);
    background.veto = Some(fact!("odd"));
    assert_eq!(reduce(vec![background]), Err(ReduceError::VetoedBackground));
}

#[test]
fn findings_and_verdicts_are_read_and_written_as_json() {
    let text = r#"{"subject": {"flows": ["a > b"]}, "cause": "random-loss", "nats": 2.5, "source": "recording",
        "place": {"kind": "between", "points": [1, 2]}, "quantities": {"loss_share": {"value": 0.01, "low": null, "high": 0.02}},
        "facts": [{"code": "x", "values": {"a": null, "b": true, "c": 3, "d": 0.5, "e": "text", "f": [1, 2]}}]}"#;
    let finding: Finding = serde_json::from_str(text).unwrap();
    assert_eq!(finding.facts[0].values["a"], Value::Null);
    assert_eq!(finding.facts[0].values["c"], Value::Integer(3));
    let again: Finding = serde_json::from_str(&serde_json::to_string(&finding).unwrap()).unwrap();
    assert_eq!(finding, again);
    assert_eq!(only(vec![finding]).cause, Cause::RandomLoss);
    for cause in Cause::ALL {
        assert_eq!(
            serde_json::to_string(cause).unwrap(),
            format!("{:?}", cause.name())
        );
        assert_eq!(Cause::by_name(cause.name()), Some(*cause));
    }
}

prop_compose! {
    fn any_finding()(
        cause in prop::sample::select(Cause::ALL),
        source in prop::sample::select(vec!["capture", "pair", "recording"]),
        nats in -60.0..60.0f64,
        vetoed in any::<bool>(),
        flow in prop::sample::select(vec!["a > b", "c > d"]),
        lost in 0..9u64,
        fact in 0..3u64,
    ) -> Finding {
        Finding {
            subject: subject(flow),
            veto: (vetoed && cause != Cause::Unknown).then(|| fact!("vetoed", fact = fact)),
            lost,
            facts: vec![fact!("seen", fact = fact)],
            ..finding(source, cause, nats)
        }
    }
}

proptest! {
    #[test]
    fn probabilities_sum_to_one_and_no_vetoed_cause_wins(findings in prop::collection::vec(any_finding(), 1..20)) {
        for verdict in reduce(findings.clone()).unwrap() {
            prop_assert!((verdict.posterior.values().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert_eq!(verdict.confidence, verdict.posterior[&verdict.cause]);
            prop_assert!(verdict.posterior.values().all(|share| *share <= verdict.confidence));
            let vetoed = |finding: &Finding| {
                finding.veto.is_some() && finding.cause == verdict.cause && finding.subject == verdict.subject
            };
            prop_assert!(!findings.iter().any(vetoed));
        }
    }

    #[test]
    fn the_order_of_findings_does_not_matter(
        (findings, shuffled) in prop::collection::vec(any_finding(), 1..12)
            .prop_flat_map(|findings| (Just(findings.clone()), Just(findings).prop_shuffle()))
    ) {
        prop_assert_eq!(reduce(findings), reduce(shuffled));
    }

    #[test]
    fn no_number_makes_it_panic(nats in any::<f64>(), explained in any::<f64>(), limited_share in any::<f64>()) {
        let odd = Finding { explained, limited_share, ..finding("capture", Cause::Policer, nats) };
        let _ = reduce(vec![odd.clone(), odd, finding("capture", Cause::Aqm, -nats)]);
    }
}
