//! Congestion reports of one direction.

use super::Half;
use whydrop_capture::TcpFlags;

use crate::ecn::{Ecn, EcnReport, INITIAL_ACE};
use crate::flow::SegmentFlags;

impl Half {
    /// Processes the congestion bits of an acknowledgment of this direction's data that is not outdated. It reports
    /// `delivered_bytes` for the first time, the last of them in packet `newest`.
    pub fn on_ecn_report(&mut self, report: EcnReport, delivered_bytes: u64, newest: Option<u32>) {
        if report.flags.has(TcpFlags::SYN) {
            return; // negotiation, not a report
        }
        // the nonce, AE's former meaning (RFC 3540), is historic and was never in use (RFC 8311)
        let is_accurate = report.ce_bytes.is_some() || report.flags.has(TcpFlags::AE);
        if self.flow.ecn == Ecn::Unknown && is_accurate {
            self.flow.ecn = Ecn::Accurate;
            self.flow.counters.ecn_echoes = 0;
        }
        match self.flow.ecn {
            Ecn::Accurate => {}
            Ecn::Off => return,
            Ecn::Unknown | Ecn::Classic => {
                let echoes = report.flags.has(TcpFlags::ECE);
                self.flow.counters.ecn_echoes += u64::from(echoes);
                // a receiver acknowledges at once the packet that makes it report
                if echoes
                    && !self.echoing
                    && let Some(newest) = newest
                {
                    self.segment_mut(newest).flags.set(SegmentFlags::CE_ECHOED);
                }
                self.echoing = echoes;
                return;
            }
        }
        if report.ends_handshake {
            if report.flags.ace() == 0b110 {
                // the SYN/ACK was marked, which the counter starts with
                self.ace.packets = Some(INITIAL_ACE + 1);
            }
            return;
        }
        let segment_bytes = u64::from(self.segment_size());
        let delivered = delivered_bytes.div_ceil(segment_bytes);
        let (packets, bytes) = self.ace.advance(report, delivered, segment_bytes as f64);
        self.flow.counters.ce_reported += packets;
        self.flow.counters.ce_reported_bytes += bytes;
    }
}
