"""Rolling a change back: by the run itself, its guard, the next start, or ``whydrop pace revert``."""

from __future__ import annotations

import contextlib
import errno

from whydrop.act.snapshot import Snapshot
from whydrop.act.state import Book, Entry
from whydrop.errors import Error
from whydrop.runtime.rtnetlink import Netlink, handle

# The errors of the kernel where there is nothing to roll back.
_NOTHING_THERE = (errno.ENOENT, errno.EINVAL, errno.ENODEV, errno.EEXIST, errno.ESRCH)


class NotRevertedError(Error):
    """The queues are not as they were; the message says what to do."""


def revert(book: Book, entry: Entry) -> None:
    """Restore the queues, and forget the entry.

    Raises:
        NotRevertedError: another program has changed them since, or the kernel refuses; the entry stays.
    """
    restore(entry)
    book.drop(entry)


def restore(entry: Entry) -> None:
    """Put the queues back; the entry stays. Raises as :func:`revert` does."""
    before, netlink = entry.before(), Netlink()
    try:
        try:
            now = Snapshot.take(netlink, before.index)
        except OSError:
            return  # the interface has gone, and what was changed with it
        if now.same_as(before):
            return
        if entry.owns and entry.owns >> 16 not in now.majors():
            raise NotRevertedError(
                f"{entry.interface}: another program has changed its queues since whydrop did (there is no "
                f"{handle(entry.owns)} any more); they stay as they are; `whydrop pace forget` forgets the change"
            )
        refused: OSError | None = None
        for request in entry.requests():
            try:
                request.send(netlink)
            except OSError as reason:
                if reason.errno not in _NOTHING_THERE:
                    refused = reason
        if not Snapshot.take(netlink, before.index).same_as(before):
            why = f": {refused.strerror}" if refused is not None else ""
            raise NotRevertedError(
                f"{entry.interface}: its queues could not be restored{why}; whydrop had changed: "
                f"{entry.words}; look at `tc qdisc show dev {entry.interface}`, then `whydrop pace forget`"
            )
    finally:
        netlink.close()


def recover(book: Book) -> list[str]:
    """Roll back the changes of runs that have ended; one line for each.

    Raises:
        NotRevertedError: it could not be.
    """
    said = []
    for entry in book.ours():
        if entry.is_due():
            revert(book, entry)
            said.append(f"rolled back: {entry.words}")
    return said


def allowed() -> bool:
    """True if this process may change queues (``CAP_NET_ADMIN``, capabilities(7))."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/thread-self/status") as status:  # noqa: PTH123 (a text of the kernel's)
            effective = next(line for line in status if line.startswith("CapEff:"))
        return bool(int(effective.split()[1], 16) >> 12 & 1)
    return False
