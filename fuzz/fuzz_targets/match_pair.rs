//! Matches any bytes as two captures of one path: two bytes of the first one's length, then both files. Every packet is
//! in a row or counted, and the rows name packets of the captures.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use whydrop_capture::{Capture, OpenOptions};
use whydrop_pair::{Crossing, NOT_CAPTURED, Pair, PairError, PairOptions, read_pair};

fuzz_target!(|bytes: &[u8]| {
    let Some((length, files)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let first_bytes = usize::from(u16::from_le_bytes(*length)).min(files.len());
    let (first, second) = files.split_at(first_bytes);
    let open = |file: &[u8]| {
        let input = Cursor::new(file.to_vec());
        Capture::from_reader("fuzz", input, OpenOptions::default()).ok()
    };
    let (Some(first), Some(second)) = (open(first), open(second)) else {
        return;
    };
    // small limits, so that few packets reach them
    let options = PairOptions {
        most_pending: 64,
        most_small_flows: 4,
        keep_acknowledgments: true,
        ..PairOptions::default()
    };
    match read_pair([first, second], options) {
        Ok(pair) => check(&pair),
        Err(PairError::Stopped) => unreachable!("the reading was not stopped"),
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});

fn check(pair: &Pair) {
    let counts = &pair.counts;
    for side in 0..2 {
        let rows = pair
            .packets
            .iter()
            .filter(|packet| packet.index[side] != NOT_CAPTURED);
        let read = pair.summaries[side].packets;
        assert!(
            rows.clone()
                .all(|packet| u64::from(packet.index[side]) < read)
        );
        assert!(rows.count() as u64 <= counts.packets[side], "{counts:?}");
    }
    for packet in &pair.packets {
        let is_at = [0, 1].map(|side| packet.index[side] != NOT_CAPTURED);
        assert!(is_at[0] || is_at[1], "{packet:?}");
        assert!(
            packet.crossing != Crossing::Matched || is_at == [true; 2],
            "{packet:?}"
        );
        assert!((packet.flow as usize) < pair.flows.len(), "{packet:?}");
    }
    for flow in &pair.flows {
        let has_reverse = |reverse| (reverse as usize) < pair.flows.len();
        assert!(flow.reverse.is_none_or(has_reverse), "{flow:?}");
    }
}
