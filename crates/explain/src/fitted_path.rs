//! The path that fitted parameters describe.

use whydrop_path::{ElementSpec, InService};
use whydrop_verdict::Cause;

/// The element of a cause with its parameters, by their names in the document; `None` for a cause that is no
/// such element, or if a parameter is missing.
pub(crate) fn fitted_element(
    cause: Cause,
    value: &impl Fn(&str) -> Option<f64>,
) -> Option<ElementSpec> {
    match cause {
        Cause::Policer => {
            let policer = ElementSpec::policer(value("rate_bps")?, value("burst_bytes")?);
            Some(policer.with_peak(value("peak_rate_bps").zip(value("peak_burst_bytes"))))
        }
        Cause::ShallowQueue | Cause::DeepQueue => {
            let limit_packets = value("limit_packets");
            let limit_bytes = value("limit_bytes").filter(|_| limit_packets.is_none());
            Some(fifo(value("drain_rate_bps")?, limit_packets, limit_bytes))
        }
        Cause::Shaper => {
            let burst_bytes = value("burst_bytes")?;
            value("rate_bps").map(|rate_bps| ElementSpec::shaper(rate_bps, burst_bytes))
        }
        Cause::RandomLoss => {
            let share = value("loss_probability")?;
            Some(match value("mean_burst_packets") {
                Some(mean_burst_packets) => ElementSpec::BurstyLoss {
                    share,
                    mean_burst_packets,
                    seed: None,
                },
                None => ElementSpec::RandomLoss {
                    probability: share,
                    seed: None,
                },
            })
        }
        _ => None,
    }
}

/// Drop-tail queue with one of the limits, or none.
pub(crate) fn fifo(
    rate_bps: f64,
    limit_packets: Option<f64>,
    limit_bytes: Option<f64>,
) -> ElementSpec {
    ElementSpec::Fifo {
        rate_bps,
        limit_packets,
        limit_bytes,
        in_service: InService::Counted,
        overhead_bytes: 0,
    }
}
