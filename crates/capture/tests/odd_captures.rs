//! The regression captures of tcpdump: unusual link types, truncated, malformed, hostile.
//!
//! They are not part of the repository. They are read from a folder `shared` beside it, if there is one, and the
//! packets are counted against Wireshark's `capinfos` if that is installed; otherwise the tests print a note and pass.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use whydrop_capture::{Capture, OpenOptions};

/// `None`, and a line on stderr, if they are missing.
fn odd_captures() -> Option<Vec<PathBuf>> {
    let room = fs::canonicalize(env!("CARGO_MANIFEST_DIR")).expect("the crate's own folder");
    let folder = room.join("../../../shared/data/odd-captures");
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("NOT TESTED: there are no captures in {}", folder.display());
        return None;
    };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension.to_string_lossy().starts_with("pcap"))
        })
        .collect();
    paths.sort();
    assert!(paths.len() > 400, "found only {} captures", paths.len());
    Some(paths)
}

/// Packets in a capture, and whether it is undamaged; `None` if it is refused.
fn count(path: &Path, options: OpenOptions) -> Option<(u64, bool)> {
    let keep_duplicates = options.keep_duplicates;
    let mut capture = match Capture::open(&[path], options) {
        Ok(capture) => capture,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains('\n') && line.contains("at byte"), "{line}");
            return None;
        }
    };
    let mut packets = 0;
    while let Some(packet) = capture.next_packet() {
        packets += 1;
        if let whydrop_capture::Transport::Tcp(segment) = packet.transport {
            assert!(
                segment.payload.len() <= segment.payload_bytes as usize,
                "{}",
                path.display()
            );
        }
    }
    let summary = capture.summary();
    assert_eq!(summary.kinds.total(), summary.packets, "{}", path.display());
    if keep_duplicates {
        assert_eq!(packets, summary.packets, "{}", path.display());
    }
    Some((summary.packets, !summary.truncated))
}

#[test]
fn every_odd_capture_ends_in_packets_or_in_one_clear_line() {
    for path in odd_captures().into_iter().flatten() {
        for keep_duplicates in [false, true] {
            for tunnel_levels in [0, 1, 255] {
                let start = Instant::now();
                count(
                    &path,
                    OpenOptions {
                        tunnel_levels,
                        keep_duplicates,
                        ..OpenOptions::default()
                    },
                );
                let taken = start.elapsed();
                assert!(
                    taken < Duration::from_secs(5),
                    "{} took {taken:?}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn odd_captures_have_as_many_packets_as_capinfos_says() {
    let Some(paths) = odd_captures() else { return };
    // Tables, without header, packet counts as plain numbers. Complaints go to stderr.
    let Ok(output) = Command::new("capinfos")
        .args(["-T", "-r", "-c", "-M"])
        .args(&paths)
        .output()
    else {
        eprintln!("NOT TESTED: capinfos is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let expected: HashMap<&str, u64> = text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .filter_map(|(path, count)| Some((path, count.trim().parse().ok()?)))
        .collect();
    let mut compared = 0;
    for path in &paths {
        let (Some(&expected), Some((packets, sound))) = (
            expected.get(&*path.to_string_lossy()),
            count(path, OpenOptions::default()),
        ) else {
            continue;
        };
        if sound {
            assert_eq!(packets, expected, "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 300, "compared only {compared}");
}
