"""Trying a change where it disturbs no traffic: on the loopback interface of an empty network namespace."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence

from whydrop.act.snapshot import Request, Snapshot
from whydrop.runtime.rtnetlink import Netlink

_CLONE_NEWNET = 0x40000000
_LOOPBACK = 1


def rehearsed(requests: Sequence[Request]) -> Snapshot:
    """Make these changes to an empty interface, and return how it looks then.

    Raises:
        OSError: the kernel refuses one of them, or such a namespace (which takes CAP_SYS_ADMIN).
    """
    outcome: list[Snapshot | BaseException] = []

    def work() -> None:
        try:
            # Of this thread alone; the namespace goes with it.
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.unshare(_CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            netlink = Netlink()
            try:
                for request in requests:
                    send(netlink, request.of(_LOOPBACK))
                outcome.append(Snapshot.take(netlink, _LOOPBACK))
            finally:
                netlink.close()
        except BaseException as reason:
            outcome.append(reason)

    thread = threading.Thread(target=work, name="rehearsal")
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def can_be_recreated(snapshot: Snapshot) -> bool:
    """True if the kernel makes the same queues from everything that it reports about these.

    Not so for disciplines with settings that the kernel does not report (RED's table of averages), and for filters with
    actions: their counters and times cannot be set.

    Raises:
        OSError: it cannot be tried.
    """
    if not all(one.can_be_compared for one in snapshot.filters):
        return False
    try:
        made = rehearsed(snapshot.requests())
    except PermissionError:
        raise
    except OSError:
        return False
    return made.settings() == snapshot.settings()


def send(netlink: Netlink, request: Request) -> None:
    """Have one change made.

    Raises:
        OSError: the kernel refuses it.
    """
    netlink.change(request.kind, request.flags, request.body)
