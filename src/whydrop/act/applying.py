"""Applying a change for as long as it is wanted, so that whatever ends the run also ends the change."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from whydrop.act import flow_control, guard, reverting, state
from whydrop.act.changes import CannotChangeError, Change
from whydrop.act.pauses import Pauses, Setting, carrier, settled
from whydrop.act.snapshot import Request, Snapshot
from whydrop.act.state import Entry, Phase
from whydrop.errors import Error
from whydrop.runtime.cancelling import deferred
from whydrop.runtime.rtnetlink import Netlink

# A run that tries a change for longer has hung: then the guard rolls the change back.
_TRIAL_S = 3600.0


class LostError(Error):
    """The guard or another process rolled the change back; the run cannot continue."""


class Lease:
    """A change that is written down; on and off as often as wanted."""

    def __init__(self, change: Change, entry: Entry) -> None:
        self.change = change
        self._entry = entry
        self._has_ended = False
        self.reported = ""  # what the driver reports since it was applied, where that may differ from what was asked

    def on(self) -> None:
        """Apply it.

        Raises:
            CannotChangeError: the kernel refuses; nothing of it is left.
            LostError: another process has rolled it back or changed the queues.
        """
        with deferred(), state.opened() as book:
            self._check(book)
            if isinstance(self.change.before, Pauses):
                self._pause(self.change.before)
                return
            with closing(Netlink()) as netlink:
                if not Snapshot.take(netlink, self.change.before.index).same_as(self.change.before):
                    raise LostError(f"{self.change.interface}: another program has changed its queues in the meantime")
                try:
                    for step in self.change.steps:
                        self._send(netlink, step.request, step.command)
                except CannotChangeError:
                    reverting.restore(self._entry)
                    raise

    def _pause(self, before: Pauses) -> None:
        """Change flow control, wait until the link is up again, and look at what the driver reports then."""
        name, command = self.change.interface, self.change.commands()[0]
        try:
            now = Setting.now(before.index)
        except OSError as reason:
            raise LostError(f"{name}: its driver reports no flow control any more: {reason}") from None
        if now != before.before:
            raise LostError(f"{name}: another program has changed its flow control in the meantime ({now.words()})")
        link_up = bool(carrier(before.index))
        with closing(Netlink()) as netlink:
            for step in self.change.steps:
                self._send(netlink, step.request, step.command)
        try:
            now = settled(before.index, before.asked, link_up=link_up)
        except OSError as reason:
            reverting.restore(self._entry)
            raise CannotChangeError(f"{name}: after `{command}` its driver does not answer: {reason}") from None
        if now == before.asked and (not link_up or carrier(before.index)):
            self.reported = flow_control.resolved_words(before.index, now)
            return
        reverting.restore(self._entry)
        raise CannotChangeError(flow_control.not_as_asked(name, command, before, now))

    def use(self, change: Change) -> None:
        """Apply another change of the same kind, such as another rate, instead. Raises as :meth:`on`."""
        # The messages that roll it back are in the state file: they do not depend on the rate.
        assert ([one.as_json() for one in change.undo], change.owns) == (self._entry.undo, self._entry.owns)
        with deferred(), state.opened() as book:
            self._check(book)
            reverting.restore(self._entry)
            self._entry = book.update(self._entry, words=change.words, commands=change.commands())
        self.change = change
        self.on()

    def off(self) -> None:
        """Roll it back, to apply it again later. Raises as :func:`reverting.revert`."""
        with deferred(), state.opened() as book:
            self._check(book)
            reverting.restore(self._entry)

    def leave(self, phase: Phase, for_s: float = 0.0) -> None:
        """Let it outlive this run: until a time, or for good."""
        with deferred(), state.opened() as book:
            self._check(book)
            self._entry = book.update(self._entry, phase=phase, until_s=state.now_s() + for_s)

    def end(self) -> None:
        """Roll it back unless it was left in place."""
        if self._entry.phase != "tried" or self._has_ended:
            return
        # Another lease may have its place then.
        self._has_ended = True
        with deferred(), state.opened() as book:
            if any(state.same_place(one, self._entry) for one in book.entries()):
                reverting.revert(book, self._entry)

    def _check(self, book: state.Book) -> None:
        if self._entry not in book.entries():
            raise LostError(f"{self.change.interface}: the change was rolled back in the meantime (its time was over)")

    @staticmethod
    def _send(netlink: Netlink, request: Request, command: str) -> None:
        try:
            request.send(netlink)
        except OSError as reason:
            hint = ""
            if request.by_ethtool:
                hint = flow_control.hint(reason)
            elif reason.errno in (errno.EPERM, errno.EACCES):
                hint = "; changing queues needs CAP_NET_ADMIN: run as root"
            elif reason.errno == errno.EEXIST:
                hint = "; somebody has configured that already, and whydrop leaves it alone: change it by hand"
            elif reason.errno == errno.ENOENT:
                hint = "; this kernel lacks it: try modprobe of sch_htb, sch_tbf, cls_u32"
            raise CannotChangeError(f"the kernel refuses `{command}`: {reason.strerror}{hint}") from None


@contextmanager
def leased(change: Change, host: str) -> Iterator[Lease]:
    """Write a change to the state file and guard it; at the end roll it back, unless it was left in place.

    Args:
        change: it is not applied yet.
        host: the far end, as the user named it.

    Raises:
        CannotChangeError: this process may not, or this interface is changed already.
        state.StateError: it cannot be written down.
    """
    if not reverting.allowed():
        raise CannotChangeError("changing this host needs CAP_NET_ADMIN: run as root (or see `--dry-run`)")
    entry = Entry(
        interface=change.interface,
        host=host,
        words=change.words,
        snapshot=change.before.as_json(),
        undo=[one.as_json() for one in change.undo],
        owns=change.owns,
        commands=change.commands(),
        phase="tried",
        owner=state.process(os.getpid()),
        until_s=state.now_s() + _TRIAL_S,
        boot=state.boot(),
        network=state.network(),
    )
    with state.opened() as book:
        reverting.recover(book)
        other = next((one for one in book.entries() if state.same_place(one, entry)), None)
        if other is not None:
            raise CannotChangeError(
                f"{change.interface} is changed already: {other.words}; run `whydrop pace revert` first"
            )
        book.put(entry)
    lease = Lease(change, entry)
    try:
        guard.start(change.before.index)
        yield lease
    finally:
        lease.end()
