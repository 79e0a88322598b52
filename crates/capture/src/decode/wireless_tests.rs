//! 802.11 frames with each of the headers before them, whole, aggregated, encrypted and damaged.

use super::{Frame, decode, decode_next};
use crate::testing::*;
use crate::unread::Unread;
use crate::{LinkType, OpenOptions, Transport};

const BARE: LinkType = LinkType::IEEE_802_11;
const SNAP: [u8; 8] = [0xaa, 0xaa, 0x03, 0, 0, 0, 8, 0];
const QUALITY_OF_SERVICE: u8 = 0x88;

/// A data frame to an access point, with flags, a sequence number and the subtype's additional header fields.
fn wireless(subtype: u8, flags: u8, number: u16, extra: &[u8], body: &[u8]) -> Vec<u8> {
    let control = [subtype, 1 | flags, 0, 0];
    let addresses = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 3]].concat();
    join(&[
        &control,
        &addresses,
        &(number << 4).to_le_bytes(),
        extra,
        body,
    ])
}

fn plain() -> Vec<u8> {
    wireless(0x08, 0, 1, &[], &join(&[&SNAP, &packet()]))
}

fn unread(link: LinkType, bytes: &[u8]) -> Option<Unread> {
    let frame = Frame {
        bytes,
        wire_bytes: bytes.len() as u32,
        tunnel_levels: 1,
    };
    decode(link, frame).unread()
}

#[test]
fn data_is_found_behind_every_header() {
    let with_snap = join(&[&SNAP, &packet()]);
    assert_holds_packet(BARE, &plain());
    assert_holds_packet(
        BARE,
        &wireless(QUALITY_OF_SERVICE, 0, 1, &[0, 0], &with_snap),
    );
    // an HT control field, a fourth address
    assert_holds_packet(
        BARE,
        &wireless(QUALITY_OF_SERVICE, 0x80, 1, &[0; 6], &with_snap),
    );
    assert_holds_packet(BARE, &wireless(0x08, 0x02, 1, &[0; 6], &with_snap));
    assert_holds_packet(
        LinkType::RADIOTAP,
        &join(&[&[0, 0, 8, 0, 0, 0, 0, 0], &plain()]),
    );
    let prism = join(&[&[0x44, 0, 0, 0, 144, 0, 0, 0], &[0; 136], &plain()]);
    assert_holds_packet(LinkType::PRISM, &prism);
    let avs = join(&[&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64], &[0; 56], &plain()]);
    assert_holds_packet(LinkType::AVS, &avs);
    assert_holds_packet(LinkType::PRISM, &avs);
    let ppi = join(&[&[0, 0, 8, 0, 105, 0, 0, 0], &plain()]);
    assert_holds_packet(LinkType::PER_PACKET_INFORMATION, &ppi);
}

#[test]
fn radiotap_says_where_the_data_is_padded_and_which_frames_are_damaged() {
    // two words of presence bits, a time, then the flags
    let radiotap = |flags: u8| {
        let head = [0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0];
        join(&[&head, &[0; 12], &[flags]])
    };
    assert_holds_packet(LinkType::RADIOTAP, &join(&[&radiotap(0x10), &plain()]));
    let with_snap = join(&[&SNAP, &packet()]);
    let padded = wireless(QUALITY_OF_SERVICE, 0, 1, &[0, 0, 0, 0], &with_snap);
    assert_holds_packet(LinkType::RADIOTAP, &join(&[&radiotap(0x20), &padded]));
    let damaged = join(&[&radiotap(0x40), &plain()]);
    assert_eq!(
        unread(LinkType::RADIOTAP, &damaged),
        Some(Unread::WirelessDamaged)
    );
}

#[test]
fn what_is_encrypted_is_named_and_what_a_driver_decrypted_is_read() {
    const PROTECTED: u8 = 0x40;
    let with_snap = join(&[&SNAP, &packet()]);
    let counter = [1, 0, 0, 0x20, 0, 0, 0, 0];
    let hidden = wireless(0x08, PROTECTED, 1, &counter, &[0x5a; 60]);
    assert_eq!(unread(BARE, &hidden), Some(Unread::WirelessEncrypted));
    assert_holds_packet(BARE, &wireless(0x08, PROTECTED, 1, &counter, &with_snap));
    assert_holds_packet(
        BARE,
        &wireless(0x08, PROTECTED, 1, &counter[..4], &with_snap),
    );
    assert_holds_packet(BARE, &wireless(0x08, PROTECTED, 1, &[], &with_snap));
    let beacon = wireless(0x80, 0, 1, &[], &[0; 40]);
    assert_eq!(unread(BARE, &beacon), Some(Unread::WirelessManagement));
    let null = wireless(0x48, 0, 1, &[], &[]);
    assert_eq!(unread(BARE, &null), Some(Unread::WirelessManagement));
}

#[test]
fn each_frame_of_an_aggregate_is_read() {
    let subframe = |body: &[u8]| {
        let mut bytes = join(&[
            &[2; 12],
            &(body.len() as u16 + 8).to_be_bytes(),
            &SNAP,
            body,
        ]);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    let other = ipv4(17, &udp(53, b"question"));
    let body = [subframe(&packet()), subframe(&other), subframe(&packet())].concat();
    let aggregate = wireless(QUALITY_OF_SERVICE, 0, 1, &[0x80, 0], &body);
    let frame = Frame {
        bytes: &aggregate,
        wire_bytes: aggregate.len() as u32,
        tunnel_levels: 1,
    };
    let first = decode(BARE, frame);
    let second = decode_next(frame, &first).expect("a second packet");
    let third = decode_next(frame, &second).expect("a third packet");
    assert!(matches!(first.transport(&aggregate), Transport::Tcp(_)));
    assert!(matches!(
        second.transport(&aggregate),
        Transport::Udp { .. }
    ));
    assert!(matches!(third.transport(&aggregate), Transport::Tcp(_)));
    assert!(decode_next(frame, &third).is_none());

    let file = PcapFile {
        link: BARE.0,
        ..PcapFile::default()
    };
    let (lines, summary) = read(&file.of(&[(0, &aggregate), (1000, &plain())]));
    let indices: Vec<u64> = lines.iter().map(|line| line.index).collect();
    assert_eq!(indices, [0, 0, 0, 1]);
    assert_eq!((summary.packets, summary.kinds.total()), (2, 2));
}

#[test]
fn a_frame_that_the_link_sent_once_more_is_no_new_packet() {
    const RETRY: u8 = 0x08;
    const MS: i64 = 1_000_000;
    let body = join(&[&SNAP, &packet()]);
    let sent = |flags: u8, number: u16| wireless(0x08, flags, number, &[], &body);
    let first = sent(0, 7);
    let retry = sent(RETRY, 7);
    // TCP's own retransmission has another frame number, and so does a retry if the first attempt was not captured
    let (other, unseen) = (sent(0, 8), sent(RETRY, 9));
    let frames = [
        (0, &first[..]),
        (3 * MS, &retry[..]),
        (9 * MS, &retry[..]),
        (700 * MS, &other[..]),
        (1400 * MS, &unseen[..]),
        (3000 * MS, &retry[..]),
    ];
    let file = PcapFile {
        link: BARE.0,
        ..PcapFile::default()
    };
    let (lines, summary) = read_with(&file.of(&frames), OpenOptions::default());
    let indices: Vec<u64> = lines.iter().map(|line| line.index).collect();
    assert_eq!(indices, [0, 3, 4, 5]);
    assert_eq!((summary.duplicates, summary.link_retries), (2, 2));
    assert!(
        summary
            .notes
            .iter()
            .any(|note| note.contains("802.11 retries"))
    );
}

#[test]
fn a_wireless_frame_may_be_cut_anywhere() {
    let radiotap = join(&[&[0, 0, 8, 0, 0, 0, 0, 0], &plain()]);
    for end in 0..radiotap.len() {
        decoded(LinkType::RADIOTAP, &radiotap[..end]);
        decoded(BARE, &plain()[..end.min(plain().len())]);
    }
}
