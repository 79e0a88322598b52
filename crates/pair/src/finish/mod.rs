//! From matched packets to the fate of each packet: flows, directions, clocks, fates, counts.

mod alignment;
mod capture_loss;
mod copies;
mod counts;
mod direction;
mod fates;
mod flow_map;
mod nothing;
mod order;
mod repeats;
mod resent;
mod transmissions;

use crate::Pair;
use crate::error::PairError;
use crate::flow::PairCounts;
use crate::packet::PacketFlags;
use crate::reading::ReadThrough;

pub(crate) fn finish(read: ReadThrough) -> Result<Pair, PairError> {
    let ReadThrough {
        summaries,
        tracked,
        matcher,
        client_side,
        positions,
    } = read;
    if matcher.matches == 0 {
        return Err(nothing::in_common(&summaries, &matcher));
    }
    let (unmatchable, to_many, too_long) = (matcher.unmatchable, matcher.to_many, matcher.too_long);
    let left_out = matcher.left_out();
    let constant_offset_ns = matcher.delta_ns.unwrap_or(0);
    let (mut flows, numbers) = flow_map::resolve(&matcher.flows, &tracked);
    let mut packets = matcher.rows;
    packets.retain_mut(|packet| {
        let stays = !packet.flags.has(PacketFlags::WITHDRAWN);
        if stays {
            packet.flow = numbers[packet.only_side()][packet.flow as usize];
        }
        stays
    });
    drop(numbers);
    let order = direction::decide(&mut flows, &packets, &tracked, client_side);
    resent::reassign(&mut packets, &flows);
    let clock = alignment::fit(&flows, &packets);
    let aligned = alignment::Aligned::new(clock.as_ref(), constant_offset_ns);
    order::sort(&mut packets, &aligned);
    order::mark_overtaking(&mut packets, &flows);
    fates::decide(&mut packets, &mut flows, &tracked, &aligned);
    let counts = PairCounts {
        unmatchable,
        to_many,
        too_long,
        left_out,
        ..counts::count(&mut flows, &packets)
    };
    order::restore_positions(&mut packets, &positions);
    Ok(Pair {
        summaries,
        tracked,
        flows,
        packets,
        counts,
        order,
        clock,
    })
}
