//! A driver's description of its interface, by the ioctls and the netlink of ethtool(8), without that program.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, netlink};
use serde_json::{Map, Value, json};
use whydrop_sockets::attributes::{put, u16_at, u32_at};

use crate::rtnetlink::{Netlink, by_type, text, unsigned};

/// linux/sockios.h, linux/ethtool.h
const SIOCETHTOOL: u64 = 0x8946;
const GET_DRIVER: u32 = 0x3;
const GET_COALESCING: u32 = 0xE;
const GET_RINGS: u32 = 0x10;
const GET_FLAGS: u32 = 0x25;
const FLAG_LRO: u32 = 1 << 15;
const DRIVER_BYTES: usize = 196;
const RINGS_BYTES: usize = 36;
const COALESCING_BYTES: usize = 92;

/// Offloads by the names of `ethtool --show-offload`.
const OFFLOADS: [(&str, u32); 6] = [
    ("rx-checksumming", 0x14),
    ("tx-checksumming", 0x16),
    ("scatter-gather", 0x18),
    ("tcp-segmentation-offload", 0x1E),
    ("generic-segmentation-offload", 0x23),
    ("generic-receive-offload", 0x2B),
];

/// Commands that switch off segmentation, checksums and receive offload, with whether the kernel must obey. Others, such as
/// scatter-gather and the segmentation of UDP, need one of these.
const SWITCHED_OFF: [(u32, bool); 5] = [
    (0x1F, true),  // TCP segmentation
    (0x17, true),  // checksums of sent packets
    (0x24, false), // segmentation in software, just before the device
    (0x2C, false), // receive offload
    (0x15, false), // checksums of received packets
];

/// The longest name of an interface, without its zero byte.
const LONGEST_NAME: usize = 15;

/// linux/genetlink.h, linux/ethtool_netlink.h
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GENERIC_HEADER: usize = 4;
const GET_PAUSE: u8 = 21;
const NESTED: u16 = 0x8000;
const HEADER: u16 = 1;
const INTERFACE: u16 = 2;
const FLAGS: u16 = 3;
const WITH_STATISTICS: u32 = 1 << 2;
const SETTINGS: [(u16, &str); 3] = [(2, "autonegotiate"), (3, "receive"), (4, "transmit")];
const STATISTICS: u16 = 5;
const PAUSES: [(u16, &str); 2] = [(3, "pause_frames_received"), (2, "pause_frames_sent")];

/// A socket for the ioctls about one interface.
pub struct Ethtool {
    name: [u8; libc::IFNAMSIZ],
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens the socket.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn open(interface: &str) -> io::Result<Ethtool> {
        let bytes = interface.as_bytes();
        let bytes = &bytes[..bytes.len().min(LONGEST_NAME)];
        let mut name = [0; libc::IFNAMSIZ];
        name[..bytes.len()].copy_from_slice(bytes);
        let socket = net::socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(Ethtool { name, socket })
    }

    /// Returns the driver, its version, firmware and bus.
    ///
    /// # Errors
    /// The driver does not report them; likewise below.
    pub fn driver(&self) -> io::Result<Value> {
        let data = self.ask(GET_DRIVER, DRIVER_BYTES)?;
        let field = |place: usize| {
            let start = 4 + 32 * place;
            text(&data[start..start + 32]).trim().to_owned()
        };
        Ok(json!({"driver": field(0), "version": field(1), "firmware": field(2), "bus": field(3)}))
    }

    /// Returns the offloads and whether they are on; those that the driver does not report are left out.
    pub fn offloads(&self) -> Value {
        let mut found = Map::new();
        for (name, command) in OFFLOADS {
            if let Ok(value) = self.value(command) {
                found.insert(name.to_owned(), (value != 0).into());
            }
        }
        if let Ok(flags) = self.value(GET_FLAGS) {
            found.insert(
                "large-receive-offload".to_owned(),
                (flags & FLAG_LRO != 0).into(),
            );
        }
        Value::Object(found)
    }

    /// Returns the sizes of the rings of descriptors.
    pub fn rings(&self) -> io::Result<Value> {
        let data = self.ask(GET_RINGS, RINGS_BYTES)?;
        let word = |place: usize| u32_at(&data, 4 * place);
        Ok(json!({
            "receive": word(5),
            "transmit": word(8),
            "receive_most": word(1),
            "transmit_most": word(4),
        }))
    }

    /// Returns the delay of interrupts, in time and packets.
    pub fn coalescing(&self) -> io::Result<Value> {
        let data = self.ask(GET_COALESCING, COALESCING_BYTES)?;
        let word = |place: usize| u32_at(&data, 4 * place);
        Ok(json!({
            "receive_us": word(1),
            "receive_packets": word(2),
            "transmit_us": word(5),
            "transmit_packets": word(6),
            "adaptive_receive": word(10),
            "adaptive_transmit": word(11),
        }))
    }

    /// Switches off everything that makes larger packets of several, or leaves checksums to the device.
    ///
    /// # Errors
    /// The driver refuses to leave checksums to the kernel, or to split packets.
    pub fn switch_off_offloads(&self) -> io::Result<()> {
        for (command, is_needed) in SWITCHED_OFF {
            let mut buffer = vec![0; 8];
            buffer[..4].copy_from_slice(&command.to_ne_bytes());
            match self.exchange(buffer) {
                Err(error) if is_needed => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn value(&self, command: u32) -> io::Result<u32> {
        let data = self.ask(command, 8)?;
        Ok(u32_at(&data, 4).unwrap_or(0))
    }

    /// Sends a command in a buffer of its size; returns the buffer with the answer.
    fn ask(&self, command: u32, size: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; size];
        buffer[..4].copy_from_slice(&command.to_ne_bytes());
        self.exchange(buffer)
    }

    /// Sends a buffer, which begins with a command and has its size; returns the buffer with the answer.
    fn exchange(&self, mut buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        // SAFETY: all zeros is a valid `ifreq`.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
        // SAFETY: the kernel writes the structure of this command into `buffer`, which has its size and outlives the
        // call.
        let done = unsafe {
            libc::ioctl(
                self.socket.as_raw_fd(),
                SIOCETHTOOL as libc::Ioctl,
                &raw mut request,
            )
        };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(buffer)
    }
}

/// Returns the settings of Ethernet flow control (IEEE 802.3, annex 31B), and its counters where the driver has them.
///
/// # Errors
/// The driver has no flow control, or the kernel is too old.
pub fn flow_control(interface: &str) -> io::Result<Value> {
    let mut netlink = Netlink::open(Some(netlink::GENERIC))?;
    let family = ethtool_family(&mut netlink)?;
    let mut header = Vec::new();
    put(
        &mut header,
        INTERFACE,
        &[interface.as_bytes(), b"\0"].concat(),
    );
    put(&mut header, FLAGS, &WITH_STATISTICS.to_ne_bytes());
    let mut body = vec![GET_PAUSE, 1, 0, 0];
    put(&mut body, HEADER | NESTED, &header);
    let answers = netlink.ask(family, &body)?;
    let answer = answers
        .first()
        .and_then(|answer| answer.get(GENERIC_HEADER..));
    answer
        .map(parsed)
        .ok_or_else(|| io::Error::other("the kernel reports no flow control"))
}

fn ethtool_family(netlink: &mut Netlink) -> io::Result<u16> {
    let mut body = vec![GET_FAMILY, 1, 0, 0];
    put(&mut body, FAMILY_NAME, b"ethtool\0");
    let answers = netlink.ask(CONTROL, &body)?;
    let answer = answers
        .first()
        .and_then(|answer| answer.get(GENERIC_HEADER..));
    answer
        .and_then(|answer| u16_at(by_type(answer).get(&FAMILY_ID)?, 0))
        .ok_or_else(|| io::Error::other("the kernel has no ethtool by netlink"))
}

fn parsed(answer: &[u8]) -> Value {
    let found = by_type(answer);
    let mut control = Map::new();
    for (kind, name) in SETTINGS {
        if let Some(bytes) = found.get(&kind) {
            let is_on = unsigned(bytes).is_some_and(|value| value != 0);
            control.insert(name.to_owned(), is_on.into());
        }
    }
    let counted = by_type(found.get(&STATISTICS).copied().unwrap_or_default());
    for (kind, name) in PAUSES {
        if let Some(value) = counted.get(&kind).and_then(|bytes| unsigned(bytes)) {
            control.insert(name.to_owned(), value.into());
        }
    }
    Value::Object(control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_control_is_read_with_its_counters() {
        let mut counted = Vec::new();
        put(&mut counted, 3, &7_u64.to_ne_bytes());
        let mut answer = Vec::new();
        put(&mut answer, 3, &[1]);
        put(&mut answer, 4, &[0]);
        put(&mut answer, STATISTICS, &counted);
        let expected = json!({"receive": true, "transmit": false, "pause_frames_received": 7});
        assert_eq!(parsed(&answer), expected);
    }

    #[test]
    fn the_loopback_interface_reports_its_offloads() {
        let offloads = Ethtool::open("lo").unwrap().offloads();
        assert!(
            offloads["generic-receive-offload"].is_boolean(),
            "{offloads}"
        );
    }

    #[test]
    fn an_interface_that_does_not_exist_is_an_error() {
        let asked = Ethtool::open("a-name-that-is-too-long-for-one").unwrap();
        assert!(asked.driver().is_err());
        assert_eq!(asked.offloads(), json!({}));
        assert!(flow_control("no-such-one").is_err());
    }
}
