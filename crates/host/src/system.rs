//! Facts about a host: its kernel, processors, clock, and the settings that TCP and queues depend on.

use std::ffi::CStr;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use rustix::system::{sysinfo, uname};
use rustix::thread::sched_getaffinity;
use serde_json::{Map, Value, json};
use whydrop_sockets::attributes::{aligned, u32_at};

use crate::items::{Items, line, whole_number};

/// Settings that change how TCP behaves or how long packets wait, by prefix. Flent's 24 are among them.
const SYSCTLS: [(&str, &str); 3] = [
    (
        "net.core.",
        "bpf_jit_enable busy_poll busy_read default_qdisc netdev_budget netdev_budget_usecs netdev_max_backlog \
         optmem_max rmem_default rmem_max somaxconn wmem_default wmem_max",
    ),
    (
        "net.ipv4.",
        "ip_local_port_range ip_no_pmtu_disc udp_mem udp_rmem_min udp_wmem_min",
    ),
    (
        "net.ipv4.tcp_",
        "adv_win_scale allowed_congestion_control autocorking available_congestion_control base_mss \
         comp_sack_delay_ns comp_sack_nr congestion_control dsack early_retrans ecn ecn_fallback fack fastopen frto \
         limit_output_bytes mem min_rtt_wlen min_tso_segs moderate_rcvbuf mtu_probing no_metrics_save \
         no_ssthresh_metrics_save notsent_lowat pacing_ca_ratio pacing_ss_ratio recovery reordering rmem sack \
         slow_start_after_idle syncookies thin_linear_timeouts timestamps tso_win_divisor window_scaling wmem",
    ),
];

/// Modules that people build themselves, so that the kernel's release does not describe them: queueing disciplines,
/// congestion control, wireless. `*` stands for all that begin with the name.
const MODULES: [&str; 16] = [
    "sch_*",
    "tcp_*",
    "act_*",
    "ath",
    "ath9k",
    "ath9k_common",
    "ath9k_hw",
    "ath10k_core",
    "ath11k",
    "cfg80211",
    "iwlwifi",
    "iwlmvm",
    "mac80211",
    "mt76",
    "ifb",
    "veth",
];

const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
/// `NT_GNU_BUILD_ID`.
const BUILD_ID: u32 = 3;
const LONGEST_BUILD_ID: usize = 64;
/// The header of a note (elf(5)): the lengths of its name and its contents, and its type.
const NOTE_HEADER: usize = 12;

/// Gathers everything about this host that does not depend on the targets of a test.
pub fn gather(items: &mut Items) {
    let system = uname();
    items.add("host_name", Ok(text(system.nodename()).into()));
    items.add(
        "kernel",
        Ok(json!({
            "name": text(system.sysname()),
            "release": text(system.release()),
            "version": text(system.version()),
            "machine": text(system.machine()),
        })),
    );
    items.add("distribution", distribution());
    items.add("processors", processors());
    items.add("memory_bytes", Ok(memory_bytes().into()));
    items.add(
        "uptime_s",
        numbers("/proc/uptime", 1).map(|found| found[0].into()),
    );
    items.add("load_average", numbers("/proc/loadavg", 3).map(Value::from));
    items.add("clock", Ok(clock()));
    let sysctls = sysctls(&mut items.missing);
    items.add("sysctls", Ok(sysctls));
    items.add("modules", Ok(modules(Path::new("/sys/module"))));
    items.add(
        "whydrop",
        Ok(json!({"version": env!("CARGO_PKG_VERSION"), "revision": null})),
    );
}

fn text(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

fn distribution() -> io::Result<Value> {
    let release = OS_RELEASE
        .iter()
        .find_map(|path| line(path).ok())
        .ok_or_else(|| {
            io::Error::other(format!("Unable to read files {}", OS_RELEASE.join(", ")))
        })?;
    Ok(json!({
        "name": assigned(&release, "NAME").unwrap_or_else(|| "Linux".to_owned()),
        "version": assigned(&release, "VERSION_ID").unwrap_or_default(),
        "pretty": assigned(&release, "PRETTY_NAME").unwrap_or_else(|| "Linux".to_owned()),
    }))
}

/// The last value that os-release(5) assigns to a name, without its quotes and escapes.
fn assigned(release: &str, name: &str) -> Option<String> {
    let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix('=').map(unquoted);
    release.lines().filter_map(of_name).next_back()
}

fn unquoted(value: &str) -> String {
    let inner = ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    let mut plain = String::new();
    let mut left = inner.unwrap_or(value).chars().peekable();
    while let Some(character) = left.next() {
        let escaped = left.next_if(|next| character == '\\' && "\\$\"'`".contains(*next));
        plain.push(escaped.unwrap_or(character));
    }
    plain
}

fn processors() -> io::Result<Value> {
    let online = line("/sys/devices/system/cpu/online")?;
    let mut found = json!({"count": counted(&online), "usable": sched_getaffinity(None)?.count()});
    let cpuinfo = line("/proc/cpuinfo")?;
    if let Some(model) = cpuinfo.lines().find_map(model) {
        found["model"] = model.into();
    }
    let governors = governors(Path::new("/sys/devices/system/cpu"));
    if !governors.is_empty() {
        found["governors"] = governors.into();
    }
    Ok(found)
}

/// The number of members of a list of ranges such as `0-3,6`.
fn counted(ranges: &str) -> u64 {
    let members = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    ranges.split(',').filter_map(members).sum()
}

fn model(line: &str) -> Option<&str> {
    let begins = line.to_lowercase();
    ["model name", "cpu model", "hardware"]
        .iter()
        .any(|key| begins.starts_with(key))
        .then(|| line.split_once(':').map_or("", |(_, model)| model.trim()))
}

fn governors(processors: &Path) -> Vec<String> {
    let is_number = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let mut found: Vec<_> = names(processors)
        .into_iter()
        .filter(|name| name.strip_prefix("cpu").is_some_and(is_number))
        .filter_map(|name| line(processors.join(name).join("cpufreq/scaling_governor")).ok())
        .filter(|governor| !governor.is_empty())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn memory_bytes() -> u64 {
    let found = sysinfo();
    found.totalram as u64 * u64::from(found.mem_unit)
}

/// The first numbers of a file.
fn numbers(path: &str, count: usize) -> io::Result<Vec<f64>> {
    let text = line(path)?;
    let found: Vec<f64> = text
        .split_whitespace()
        .take(count)
        .filter_map(|number| number.parse().ok())
        .collect();
    if found.len() < count {
        return Err(io::Error::other(format!("{path} has no numbers")));
    }
    Ok(found)
}

fn clock() -> Value {
    let folder = Path::new("/sys/devices/system/clocksource/clocksource0");
    let available = line(folder.join("available_clocksource")).unwrap_or_default();
    json!({
        "source": line(folder.join("current_clocksource")).ok(),
        "available": available.split_whitespace().collect::<Vec<_>>(),
    })
}

/// The settings by name; the names of those that this kernel lacks go to `missing`.
fn sysctls(missing: &mut Vec<String>) -> Value {
    let mut found = Map::new();
    let mut absent = Vec::new();
    let all = SYSCTLS.iter().flat_map(|(prefix, names)| {
        names
            .split_whitespace()
            .map(move |name| format!("{prefix}{name}"))
    });
    for name in all {
        match line(Path::new("/proc/sys").join(name.replace('.', "/"))) {
            Ok(value) => drop(found.insert(name, whole_number(value))),
            Err(_) => absent.push(name),
        }
    }
    if !absent.is_empty() {
        absent.sort();
        missing.push(format!("sysctls: this kernel has no {}", absent.join(", ")));
    }
    Value::Object(found)
}

/// The loaded modules of [`MODULES`], with their build ids.
fn modules(folder: &Path) -> Value {
    let is_wanted = |name: &String| {
        MODULES.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == wanted,
        })
    };
    let mut found = Map::new();
    for name in names(folder).into_iter().filter(is_wanted) {
        let module = folder.join(&name);
        let build_id = build_id(&module.join("notes"));
        // Built-in modules have a folder too, but were not loaded.
        if build_id.is_some() || module.join("initstate").exists() {
            let known = build_id.unwrap_or_else(|| "loaded".to_owned());
            found.insert(name, known.into());
        }
    }
    Value::Object(found)
}

/// The names in a folder; none if it cannot be read.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// The build id in the notes of a module.
fn build_id(notes: &Path) -> Option<String> {
    [".note.gnu.build-id", ".note.Linux"]
        .iter()
        .filter_map(|name| fs::read(notes.join(name)).ok())
        .find_map(|note| build_id_of(&note))
}

fn build_id_of(note: &[u8]) -> Option<String> {
    let (name, size) = (u32_at(note, 0)? as usize, u32_at(note, 4)? as usize);
    if u32_at(note, 8)? != BUILD_ID || size > LONGEST_BUILD_ID {
        return None;
    }
    let start = NOTE_HEADER.checked_add(aligned(name))?;
    let bytes = note.get(start..start + size)?;
    Some(bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_read_with_and_without_quotes() {
        let release = "NAME=\"Debian GNU/Linux\"\nVERSION_ID='12'\nPRETTY_NAME=\"a \\\"b\\\" \\$c\"\nID=debian";
        let read = |name| assigned(release, name);
        assert_eq!(read("NAME").unwrap(), "Debian GNU/Linux");
        assert_eq!(read("VERSION_ID").unwrap(), "12");
        assert_eq!(read("PRETTY_NAME").unwrap(), "a \"b\" $c");
        assert_eq!(read("ID").unwrap(), "debian");
        assert_eq!(read("VERSION"), None);
    }

    #[test]
    fn processors_are_counted_from_ranges() {
        for (ranges, count) in [("0", 1), ("0-3", 4), ("0-3,6,8-9", 7), ("", 0), ("3-1", 0)] {
            assert_eq!(counted(ranges), count, "{ranges}");
        }
    }

    #[test]
    fn a_build_id_is_read_from_its_note_and_from_no_part_of_it() {
        let words = [4_u32, 3, BUILD_ID].map(u32::to_ne_bytes).concat();
        let note = [&words[..], b"GNU\0", &[0xab, 0x01, 0xff]].concat();
        assert_eq!(build_id_of(&note).unwrap(), "ab01ff");
        for length in 0..note.len() {
            assert_eq!(build_id_of(&note[..length]), None);
        }
    }

    #[test]
    fn the_settings_that_flent_records_are_among_ours() {
        let flents = "net.core.rmem_max net.core.wmem_max net.ipv4.tcp_autocorking net.ipv4.tcp_early_retrans \
            net.ipv4.tcp_ecn net.ipv4.tcp_pacing_ca_ratio net.ipv4.tcp_pacing_ss_ratio net.ipv4.tcp_dsack \
            net.ipv4.tcp_fack net.ipv4.tcp_sack net.ipv4.tcp_fastopen net.ipv4.tcp_syncookies \
            net.ipv4.tcp_window_scaling net.ipv4.tcp_notsent_lowat net.ipv4.tcp_limit_output_bytes \
            net.ipv4.tcp_timestamps net.ipv4.tcp_congestion_control net.ipv4.tcp_allowed_congestion_control \
            net.ipv4.tcp_available_congestion_control net.ipv4.tcp_mem net.ipv4.tcp_rmem net.ipv4.tcp_wmem \
            net.ipv4.tcp_moderate_rcvbuf net.ipv4.tcp_no_metrics_save";
        assert_eq!(flents.split_whitespace().count(), 24);
        let of_prefix = |(prefix, names): &(&str, &str)| {
            let full: Vec<_> = names
                .split_whitespace()
                .map(|name| format!("{prefix}{name}"))
                .collect();
            full
        };
        let ours: Vec<_> = SYSCTLS.iter().flat_map(of_prefix).collect();
        for name in flents.split_whitespace() {
            assert!(ours.contains(&name.to_owned()), "{name}");
        }
    }

    #[test]
    fn this_host_has_all_of_it() {
        let mut items = Items::default();
        gather(&mut items);
        for name in [
            "host_name",
            "kernel",
            "processors",
            "memory_bytes",
            "uptime_s",
            "load_average",
            "clock",
        ] {
            assert!(
                items.found.contains_key(name),
                "{name}: {:?}",
                items.missing
            );
        }
        let setting = line("/proc/sys/net/ipv4/tcp_rmem").unwrap();
        assert_eq!(items.found["sysctls"]["net.ipv4.tcp_rmem"], setting);
    }
}
