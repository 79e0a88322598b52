"""Rolling a change back: by the run itself, its guard, the next start, or ``whydrop pace revert``."""

from __future__ import annotations

import contextlib
import errno
from contextlib import closing

from whydrop.act.pauses import Pauses, Setting, carrier, has_gone, settled
from whydrop.act.snapshot import Snapshot
from whydrop.act.state import Book, Entry
from whydrop.errors import Error
from whydrop.runtime.rtnetlink import Netlink, handle

# The errors of the kernel where there is nothing to roll back.
_NOTHING_THERE = (errno.ENOENT, errno.EINVAL, errno.ENODEV, errno.EEXIST, errno.ESRCH)


class NotRevertedError(Error):
    """The queues, or flow control, are not as they were; the message says what to do."""


def revert(book: Book, entry: Entry) -> bool:
    """Restore what was changed, and forget the entry.

    Returns:
        False if the interface has gone, and what was changed with it.

    Raises:
        NotRevertedError: another program has changed it since, or the kernel refuses; the entry stays.
    """
    was_there = restore(entry)
    book.drop(entry)
    return was_there


def restore(entry: Entry) -> bool:
    """Put back what was changed; the entry stays. Returns and raises as :func:`revert` does."""
    before = entry.before()
    return _restore_pauses(entry, before) if isinstance(before, Pauses) else _restore_queues(entry, before)


def _restore_pauses(entry: Entry, before: Pauses) -> bool:
    refused, advice = "", f"look at `ethtool -a {entry.interface}`, then `whydrop pace forget`"
    try:
        now = Setting.now(before.index)
        if now == before.before:
            return True
        if before.belongs_to_another(now):
            raise NotRevertedError(
                f"{entry.interface}: another program has changed its flow control since whydrop did ({now.words()}); "
                "it stays as it is; `whydrop pace forget` forgets the change"
            )
        link_up = bool(carrier(before.index))
        with closing(Netlink()) as netlink:
            for request in entry.requests():
                request.send(netlink)
        now = settled(before.index, before.before, link_up=link_up)
    except OSError as reason:
        if has_gone(reason):
            return False
        refused, now = f": {reason.strerror or reason}", None
    if now != before.before:
        reported = "" if now is None else f"; the driver reports {now.words()}"
        raise NotRevertedError(
            f"{entry.interface}: its flow control could not be restored to {before.before.words()}{refused}{reported}; "
            f"{advice}"
        )
    return True


def _restore_queues(entry: Entry, before: Snapshot) -> bool:
    netlink = Netlink()
    try:
        try:
            now = Snapshot.take(netlink, before.index)
        except OSError:
            return False
        if now.same_as(before):
            return True
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
        return True
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
            was_there = revert(book, entry)
            said.append(f"rolled back: {entry.words}" if was_there else gone(entry))
    return said


def gone(entry: Entry) -> str:
    """Words for a change of an interface that has gone."""
    return f"{entry.interface} has gone, and the change with it: {entry.words}"


def allowed() -> bool:
    """True if this process may change queues and flow control (``CAP_NET_ADMIN``, capabilities(7))."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/thread-self/status") as status:  # noqa: PTH123 (a text of the kernel's)
            effective = next(line for line in status if line.startswith("CapEff:"))
        return bool(int(effective.split()[1], 16) >> 12 & 1)
    return False
