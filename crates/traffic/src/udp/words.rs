//! Errors of sockets in words for the person who must act.

use std::io;

use crate::sample::Ending;
use crate::stop::Stop;

/// How a flow ended that had this result; one that was stopped counts as that whatever came of it.
pub(crate) fn ended(result: Result<(), String>, stop: &Stop) -> Ending {
    match result {
        _ if stop.is_set() => Ending::Stopped,
        Ok(()) => Ending::Complete,
        Err(words) => Ending::Failed(words),
    }
}

/// Explain this error of a UDP socket towards `whom`, and what to try.
pub(crate) fn explained(error: &io::Error, whom: &str) -> String {
    let advice = match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => {
            "its host answers that nobody listens on that UDP port: is the responder still running?"
        }
        Some(libc::EHOSTUNREACH) => {
            "no route leads there, or the host is down: look at `ip route get` and the link"
        }
        Some(libc::ENETUNREACH) => "this host has no route there: look at `ip route` and the link",
        Some(libc::ENETDOWN) => "the interface is down: look at `ip link`",
        Some(libc::EPERM) | Some(libc::EACCES) => {
            "this host does not let the packets out: look at its firewall's output rules"
        }
        Some(libc::EMSGSIZE) => "the packets are larger than the path takes: ask for smaller ones",
        Some(libc::ENOBUFS) | Some(libc::ENOMEM) => {
            "the kernel has no room for more packets: send less, or make the interface's queue longer"
        }
        Some(libc::EAGAIN) => {
            "the interface has not taken the packets before: it has no carrier, or its queue is full"
        }
        Some(libc::EADDRNOTAVAIL) => {
            "this host has no address of that family: look at `ip address`"
        }
        Some(libc::EAFNOSUPPORT) => "this kernel does not know that address family",
        Some(libc::EMFILE) | Some(libc::ENFILE) => {
            "too many open files: raise the limit with `ulimit -n`"
        }
        _ => return format!("{whom}: {error}"),
    };
    format!("{whom}: {advice} ({error})")
}

/// Errors that a packet runs into on its way out and that may pass: the flow goes on.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENETDOWN
                | libc::EPERM
                | libc::EACCES
                | libc::ENOBUFS
                | libc::ENOMEM
                | libc::EAGAIN
                | libc::EINTR
                | libc::EADDRNOTAVAIL
                | libc::EINVAL
                | libc::ENODEV
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_whom_they_are_about_and_what_to_look_at() {
        let refused = explained(
            &io::Error::from_raw_os_error(libc::ECONNREFUSED),
            "10.0.0.1:17370",
        );
        assert!(refused.starts_with("10.0.0.1:17370: ") && refused.contains("responder"));
        let other = explained(&io::Error::from_raw_os_error(libc::EIO), "there");
        assert!(other.starts_with("there: "));
        assert!(may_pass(&io::Error::from_raw_os_error(libc::ENETDOWN)));
        assert!(!may_pass(&io::Error::from_raw_os_error(libc::EBADF)));
    }
}
