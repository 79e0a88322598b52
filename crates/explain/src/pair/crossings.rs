//! The table of matched packets.

use whydrop_pair::{PacketFlags, Pair};

use super::timeline::{Timeline, direction_number};
use crate::tables::CrossingTable;

/// Congestion experienced, in the low two bits of the former TOS byte (RFC 3168).
const CE: u8 = 3;

/// One row for each packet, in the order of the pair.
pub fn table(pair: &Pair, timeline: &Timeline) -> CrossingTable {
    let mut table = CrossingTable::default();
    for (index, packet) in pair.packets.iter().enumerate() {
        let flow = &pair.flows[packet.flow as usize];
        let upstream = flow.direction.upstream().unwrap_or(0);
        let ce_set = packet.is_matched()
            && packet.tos[1 - upstream] & CE == CE
            && packet.tos[upstream] & CE != CE;
        table.hop.push(0);
        table.flow.push(packet.flow);
        table.direction.push(direction_number(flow.direction) as u8);
        table.sent_ns.push(timeline.sent_ns[index]);
        table.transit_ns.push(timeline.transit_ns[index]);
        table.time_1_ns.push(packet.time_ns[0]);
        table.time_2_ns.push(packet.time_ns[1]);
        table.number_1.push(packet.index[0]);
        table.number_2.push(packet.index[1]);
        table.sequence.push(packet.sequence);
        table.payload_bytes.push(packet.payload_bytes);
        table.ip_bytes.push(packet.ip_bytes);
        table.crossing.push(packet.crossing as u8);
        table.burst_position.push(timeline.burst[index].0);
        table.burst_length.push(timeline.burst[index].1);
        table.gap_ns.push(timeline.gap_ns[index]);
        table
            .retransmission
            .push(packet.flags.has(PacketFlags::RETRANSMISSION));
        table.overtook.push(packet.flags.has(PacketFlags::OVERTOOK));
        table.ce_set.push(ce_set);
    }
    table
}
