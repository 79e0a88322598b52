//! Tracepoints as the kernel describes them: number, positions of the fields, and the names of the reasons.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Mount points of tracefs. `ip netns exec` mounts another /sys over it, but the first process has the original one.
const PLACES: [&str; 3] = [
    "/sys/kernel/tracing",
    "/sys/kernel/debug/tracing",
    "/proc/1/root/sys/kernel/tracing",
];

/// A tracepoint of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracepoint {
    pub number: u64,
    /// Offset and size of each field in a record.
    fields: HashMap<String, (u16, u16)>,
    /// Names of the values of field `reason`.
    pub reasons: HashMap<u32, String>,
}

impl Tracepoint {
    /// Finds a tracepoint by its name, such as `skb/kfree_skb`.
    ///
    /// # Errors
    /// The kernel has no such tracepoint, or does not permit access.
    pub fn find(name: &str) -> io::Result<Tracepoint> {
        let text = read(&format!("events/{name}/format"))?;
        Tracepoint::parse(&text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the kernel describes tracepoint {name} in an unknown format"),
            )
        })
    }

    /// The offset of a field with this size; `None` if there is none.
    pub fn field(&self, name: &str, size: u16) -> Option<u16> {
        let (offset, found) = *self.fields.get(name)?;
        (found == size).then_some(offset)
    }

    fn parse(text: &str) -> Option<Tracepoint> {
        let mut found = Tracepoint::default();
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("ID:") {
                found.number = number.trim().parse().ok()?;
            } else if let Some(field) = line.trim_start().strip_prefix("field:") {
                let (name, place) = field_of(field)?;
                found.fields.insert(name, place);
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                found.reasons = symbols(print);
            }
        }
        (found.number != 0).then_some(found)
    }
}

/// `unsigned short protocol; offset:32; size:2; signed:0;`, with tabs between.
fn field_of(text: &str) -> Option<(String, (u16, u16))> {
    let mut parts = text.split(';').map(str::trim);
    let declared = parts.next()?;
    let name = declared.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?.to_owned();
    let mut numbers = HashMap::new();
    for part in parts {
        if let Some((key, value)) = part.split_once(':') {
            numbers.insert(key, value.parse::<u16>().ok());
        }
    }
    Some((name, ((*numbers.get("offset")?)?, (*numbers.get("size")?)?)))
}

/// The pairs of `__print_symbolic(REC->reason, { 2, "NOT_SPECIFIED" }, { 3, "NO_SOCKET" }, ...)`.
fn symbols(print: &str) -> HashMap<u32, String> {
    let Some((_, list)) = print.split_once("__print_symbolic(REC->reason") else {
        return HashMap::new();
    };
    list.split('{')
        .skip(1)
        .filter_map(|pair| {
            let (number, rest) = pair.split_once(',')?;
            let name = rest.split('"').nth(1)?;
            Some((number.trim().parse().ok()?, name.to_owned()))
        })
        .collect()
}

fn read(path: &str) -> io::Result<String> {
    let mut first = None;
    for place in PLACES {
        match std::fs::read_to_string(Path::new(place).join(path)) {
            Ok(text) => return Ok(text),
            // Missing permission is a better explanation than a missing file.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => first = Some(error),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    mounted(path).map_err(|error| first.unwrap_or(error))
}

/// Reads a file of a tracefs that is mounted only through a descriptor.
fn mounted(path: &str) -> io::Result<String> {
    let context = descriptor(|| {
        // SAFETY: the name is a C string that lives through the call.
        unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), 1) }
    })?;
    let none: *const libc::c_char = std::ptr::null();
    const CREATE: libc::c_uint = 6;
    // SAFETY: this command takes no pointers; the descriptor is ours.
    let made = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            CREATE,
            none,
            none,
            0,
        )
    };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    let root = descriptor(|| {
        // SAFETY: no pointers; the descriptor is ours.
        unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 1, 0) }
    })?;
    let path = std::ffi::CString::new(path)?;
    let file = descriptor(|| {
        let path: &CStr = &path;
        // SAFETY: the path is a C string that lives through the call.
        i64::from(unsafe {
            libc::openat(
                root.as_raw_fd(),
                path.as_ptr(),
                libc::O_RDONLY | libc::O_CLOEXEC,
            )
        })
    })?;
    let mut text = String::new();
    std::fs::File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

fn descriptor(open: impl FnOnce() -> libc::c_long) -> io::Result<OwnedFd> {
    let number = open();
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: kfree_skb
ID: 2310
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:void * skbaddr;	offset:8;	size:8;	signed:0;
	field:unsigned short protocol;	offset:32;	size:2;	signed:0;
	field:__u8 saddr_v6[16];	offset:42;	size:16;	signed:0;

print fmt: \"reason: %s\", REC->location, __print_symbolic(REC->reason, { 2, \"NOT_SPECIFIED\" }, { 3, \"NO_SOCKET\" })
";

    #[test]
    fn fields_and_names_of_reasons_are_read_as_the_kernel_writes_them() {
        let found = Tracepoint::parse(FORMAT).unwrap();
        assert_eq!(found.number, 2310);
        assert_eq!(found.field("skbaddr", 8), Some(8));
        assert_eq!(found.field("protocol", 2), Some(32));
        assert_eq!(found.field("saddr_v6", 16), Some(42));
        // A field with an unexpected size is not used.
        assert_eq!(found.field("protocol", 4), None);
        assert_eq!(found.reasons[&3], "NO_SOCKET");
        assert_eq!(found.reasons.len(), 2);
    }

    #[test]
    fn a_description_that_is_cut_off_is_no_panic() {
        for cut in 0..FORMAT.len() {
            Tracepoint::parse(&FORMAT[..cut]);
        }
    }
}
