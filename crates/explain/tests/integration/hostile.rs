//! Damaged, truncated, forged and foreign files: each gives a result or one clear line.

use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;
use whydrop_capture::{Capture, OpenOptions};
use whydrop_explain::{ExplainError, Explanation, Options, explain, explain_paths};

fn room() -> PathBuf {
    fs::canonicalize(env!("CARGO_MANIFEST_DIR")).expect("the crate's own folder")
}

fn options() -> Options<'static> {
    Options {
        keep_tables: true,
        ..Options::default()
    }
}

/// The first `bytes` of an example capture, decompressed.
fn example(name: &str, bytes: u64) -> Vec<u8> {
    let path = room().join("../../examples").join(name);
    let file = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut content = Vec::new();
    let decoder = zstd::stream::read::Decoder::new(file).expect("a zstd file");
    decoder
        .take(bytes)
        .read_to_end(&mut content)
        .expect("sound");
    content
}

/// A capture of a few hundred packets with losses in it.
fn small_capture() -> Vec<u8> {
    example("policed-download.pcap.zst", 64 * 1024)
}

/// Explains the bytes and checks the result. `None` if they are refused.
fn explain_bytes(bytes: Vec<u8>) -> Option<Explanation> {
    let capture = Capture::from_reader("damaged.pcap", Cursor::new(bytes), OpenOptions::default());
    check(
        capture
            .map_err(ExplainError::from)
            .and_then(|capture| explain(capture, options())),
    )
}

fn check(result: Result<Explanation, ExplainError>) -> Option<Explanation> {
    match result {
        Ok(explanation) => {
            let json = serde_json::to_value(&explanation.document).expect("a document is JSON");
            check_numbers("document", &json);
            let segments = &explanation.tables.segments;
            assert_eq!(segments.time_ns.len(), segments.fate.len());
            assert_eq!(segments.time_ns.len(), segments.in_flight_bytes.len());
            Some(explanation)
        }
        Err(ExplainError::Capture(error)) => {
            let line = error.to_string();
            let is_placed = line.contains("at byte") == error.offset.is_some();
            assert!(!line.contains('\n') && is_placed, "{line}");
            None
        }
        Err(ExplainError::Pair(message)) => panic!("one capture is no pair: {message}"),
        Err(ExplainError::Stopped) => panic!("the callback never stops it"),
    }
}

/// JSON has null for numbers that are not finite: only fields that may be unknown may be null.
fn check_numbers(name: &str, value: &Value) {
    const MAY_BE_UNKNOWN: [&str; 31] = [
        "tick_s",
        "limits",
        "spin",
        "codec",
        "mos",
        "reported",
        "shortest_s",
        "longest_s",
        "pair",
        "first",
        "last",
        "snaplen",
        "rtt_min_s",
        "rtt_median_s",
        "mss",
        "window_limited_share",
        "window_scale",
        "outstanding_at_loss_mean_bytes",
        "outstanding_at_loss_deviation_bytes",
        "goodput_bps",
        "link_rate_bps",
        "low",
        "high",
        "byte_basis",
        "at",
        "detail",
        "family",
        "base_rtt_s",
        "window_share",
        "round_trips",
        "throughput_lost",
    ];
    match value {
        Value::Null => assert!(MAY_BE_UNKNOWN.contains(&name), "{name} is null"),
        Value::Array(values) => values.iter().for_each(|value| check_numbers(name, value)),
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| check_numbers(name, value)),
        Value::String(text) => assert!(!text.contains("NaN"), "{name}: {text}"),
        _ => {}
    }
}

/// Numbers without a pattern (xorshift, Marsaglia 2003), the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}

#[test]
fn a_capture_cut_off_anywhere_is_explained_up_to_there() {
    let whole = small_capture();
    let mut random = Random(1);
    let later = (0..200).map(|_| 4096 + random.below(whole.len() - 4096));
    let (mut packets_before, mut truncated) = (0, 0);
    for length in (0..=4096).chain(later) {
        let explained = explain_bytes(whole[..length].to_vec());
        // with the file header, 24 bytes, it is a capture
        assert_eq!(explained.is_some(), length >= 24, "{length} bytes");
        let Some(explained) = explained else { continue };
        let info = &explained.document.captures[0];
        if length <= 4096 {
            assert!(info.packets >= packets_before);
            packets_before = info.packets;
        }
        assert!(
            !info.truncated || info.notes.iter().any(|note| note.contains("at byte")),
            "{length}: {:?}",
            info.notes
        );
        truncated += usize::from(info.truncated);
    }
    assert!(packets_before > 10);
    // only a cut between two packets goes unnoticed
    assert!(truncated > 4000, "{truncated}");
}

#[test]
fn flipped_bits_change_the_result_but_the_analysis_ends() {
    let whole = small_capture();
    let mut random = Random(2);
    for round in 0..1500 {
        let mut damaged = whole.clone();
        // headers first, so that half of the rounds damage what the reader depends on most
        let reach = if round % 2 == 0 { 512 } else { damaged.len() };
        for _ in 0..1 + random.below(8) {
            damaged[random.below(reach)] ^= 1 << random.below(8);
        }
        explain_bytes(damaged);
    }
}

#[test]
fn flipped_bits_in_a_compressed_file_are_handled() {
    let name = "shallow-queue.pcap.zst";
    let whole = fs::read(room().join("../../examples").join(name)).expect("the example");
    let mut random = Random(3);
    for _ in 0..20 {
        let mut damaged = whole.clone();
        let position = random.below(damaged.len());
        damaged[position] ^= 1 << random.below(8);
        explain_bytes(damaged);
    }
}

#[test]
fn other_files_are_refused_in_one_line() {
    let texts: [&[u8]; 6] = [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0",
        &[0; 4096],
        &[0xff; 4096],
    ];
    for text in texts {
        assert!(explain_bytes(text.to_vec()).is_none(), "{text:?}");
    }
    assert!(
        check(explain_paths(
            &[PathBuf::from("/nowhere/at-all.pcap")],
            options()
        ))
        .is_none()
    );
    assert!(check(explain_paths(&[room()], options())).is_none());
    assert!(check(explain_paths(&[room().join("Cargo.toml")], options())).is_none());
}

#[test]
fn a_capture_without_packets_is_explained_as_such() {
    let explained = explain_bytes(small_capture()[..24].to_vec()).expect("a capture");
    assert_eq!(explained.document.captures[0].packets, 0);
    assert!(explained.document.flows.is_empty());
}

/// The regression captures of tcpdump, which are not part of the repository.
fn odd_captures() -> Vec<PathBuf> {
    let folder = room().join("../../../shared/data/odd-captures");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("NOT TESTED: there are no captures in {}", folder.display());
        return Vec::new();
    };
    let is_capture = |path: &Path| {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        extension.starts_with("pcap")
    };
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let paths: Vec<PathBuf> = paths.filter(|path| is_capture(path)).collect();
    assert!(paths.len() > 400, "found only {} captures", paths.len());
    paths
}

#[test]
fn every_unusual_capture_gives_a_result_or_one_clear_line() {
    let mut explained = 0;
    let paths = odd_captures();
    for path in &paths {
        explained +=
            usize::from(check(explain_paths(std::slice::from_ref(path), options())).is_some());
    }
    assert!(
        explained * 10 >= paths.len() * 9,
        "{explained} of {}",
        paths.len()
    );
}

#[test]
fn lengths_and_sequence_numbers_of_every_header_may_lie() {
    let whole = small_capture();
    let mut random = Random(4);
    for _ in 0..300 {
        let mut damaged = whole.clone();
        let mut position = 24;
        while let Some(header) = damaged.get(position..position + 16) {
            let captured =
                u32::from_le_bytes(header[8..12].try_into().expect("four bytes")) as usize;
            let frame = position + 16;
            if random.below(4) == 0 && frame + captured.min(54) <= damaged.len() && captured >= 54 {
                // Ethernet 14, IPv4 20: lengths, offsets, numbers, flags, window of IP and TCP
                let field = frame + 14 + random.below(40);
                damaged[field] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)];
            }
            position = frame + captured;
        }
        explain_bytes(damaged);
    }
}
