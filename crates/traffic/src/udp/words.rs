//! Socket errors as messages for the user.

use std::io;

use crate::sample::Ending;
use crate::stop::Stop;

/// Converts a flow's result to its ending; a flow that was stopped counts as stopped, whatever its result.
pub(crate) fn ended(result: Result<(), String>, stop: &Stop) -> Ending {
    match result {
        _ if stop.is_set() => Ending::Stopped,
        Ok(()) => Ending::Complete,
        Err(words) => Ending::Failed(words),
    }
}

/// Explains an error of a UDP socket towards `peer`, and what to try.
pub(crate) fn explained(error: &io::Error, peer: &str) -> String {
    let advice = match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => {
            "the host answers that no program listens on this UDP port: is the responder still running?"
        }
        Some(libc::EHOSTUNREACH) => {
            "there is no route to the host, or it is down: check `ip route get` and the link"
        }
        Some(libc::ENETUNREACH) => {
            "this host has no route to that address: check `ip route` and the link"
        }
        Some(libc::ENETDOWN) => "the interface is down: check `ip link`",
        Some(libc::EPERM) | Some(libc::EACCES) => {
            "this host blocks outgoing packets: check its firewall's output rules"
        }
        Some(libc::EMSGSIZE) => "the packets exceed the path's MTU: request smaller ones",
        Some(libc::ENOBUFS) | Some(libc::ENOMEM) => {
            "the kernel's queues are full: send less, or lengthen the interface's queue"
        }
        Some(libc::EAGAIN) => {
            "the interface did not send the earlier packets: it has no carrier, or its queue is full"
        }
        Some(libc::EADDRNOTAVAIL) => "this host has no address of that family: check `ip address`",
        Some(libc::EAFNOSUPPORT) => "this kernel does not support that address family",
        Some(libc::EMFILE) | Some(libc::ENFILE) => {
            "too many open files: raise the limit with `ulimit -n`"
        }
        _ => return format!("{peer}: {error}"),
    };
    format!("{peer}: {advice} ({error})")
}

/// True for errors in sending a packet that may be transient: the flow continues.
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
    fn errors_name_the_peer_and_what_to_check() {
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
