"""Flow control of this host's own interface as a change, and its words."""

from __future__ import annotations

import errno

from whydrop.act.changes import CannotChangeError, Change, Step
from whydrop.act.pauses import SWITCH, Pauses, Setting, has_gone
from whydrop.act.snapshot import Request


def changed(interface: str, index: int, *, receive: bool | None = None, transmit: bool | None = None) -> Change:
    """Switch flow control of an interface; what is not given stays as it is.

    Raises:
        CannotChangeError: the driver does not support it, or it is so already.
    """
    from whydrop.measure.host import ethtool  # slow to import, and needed for this change only

    try:
        before = Setting.now(index)
    except OSError as reason:
        what = "has gone" if has_gone(reason) else f"its driver does not support flow control: {reason}"
        raise CannotChangeError(f"{interface}: {what}") from None
    wanted_receive = before.receive if receive is None else receive
    wanted_transmit = before.transmit if transmit is None else transmit
    asked = Setting(before.autonegotiate, wanted_receive, wanted_transmit)
    if asked == before:
        raise CannotChangeError(f"{interface}: its flow control is so already: {before.words()}")
    # The other of the two is named as well: a driver may derive what is not named.
    settings = {"receive": asked.receive, "transmit": asked.transmit}
    body = ethtool.pause_message(index, **settings)
    back = {"receive": before.receive, "transmit": before.transmit}
    step = Step(Request(ethtool.PAUSE_SET, 0, body, by_ethtool=True), _command(interface, asked))
    undo = Request(ethtool.PAUSE_SET, 0, ethtool.pause_message(index, **back), by_ethtool=True)
    return Change(interface, _words(interface, before, asked), Pauses(index, before, asked), (step,), (undo,), 0,
                  notes=_notes(interface, before, asked))  # fmt: skip


def _command(interface: str, setting: Setting) -> str:
    return f"ethtool -A {interface} rx {SWITCH[setting.receive]} tx {SWITCH[setting.transmit]}"


def _words(interface: str, before: Setting, asked: Setting) -> str:
    said = []
    if asked.receive != before.receive:
        said.append(f"pause frames that arrive {'stop' if asked.receive else 'do not stop'} {interface}")
    if asked.transmit != before.transmit:
        said.append(f"pause frames leave {interface} {'when its buffers are full' if asked.transmit else 'no more'}")
    return "; ".join(said)


def _notes(interface: str, before: Setting, asked: Setting) -> tuple[str, ...]:
    notes = [
        f"some drivers restart the link for this change, and the proof makes it several times: {interface} may be down "
        "for some seconds each time, and longer where the switch holds a port that comes up (spanning tree, 802.1X); "
        "all its connections wait",
        f"a pause holds all traffic on {interface}, not only that to this host",
        f"by hand it is undone by `{_command(interface, before)}`",
    ]
    if asked.receive and not before.receive:
        notes.append("it has an effect only if the other end of the link sends pause frames (transmit, at the switch)")
    if asked.transmit and not before.transmit:
        notes.append("it has an effect only if the other end of the link stops for them (receive, at the switch)")
    if before.autonegotiate:
        notes.append("pause is negotiated: what both ends advertise decides")
    return tuple(notes)


def resolved_words(index: int, now: Setting) -> str:
    """The report of the driver after the change, and what the two ends of the link have agreed on."""
    from whydrop.measure.host import ethtool

    said = f"the driver reports {now.words()}"
    if not now.autonegotiate:
        return said
    found = ethtool.negotiated(index)
    if found is None:
        return f"{said}; it does not report what the other end advertises"
    return f"{said}; agreed on: receive {SWITCH[found.receive]}, transmit {SWITCH[found.transmit]}"


def not_as_asked(interface: str, command: str, before: Pauses, now: Setting) -> str:
    """The words where the driver took the change, but reports something else, or the link stayed down."""
    if now == before.asked:
        return f"{interface}: its link did not come up again after `{command}`: the change was reverted"
    why = ""
    if now.autonegotiate:
        why = (
            "; pause is negotiated, and the other end may not offer it: switch it on there, or fix it at both ends "
            f"(`{command.replace(' rx ', ' autoneg off rx ')}`)"
        )
    return f"{interface}: the driver accepted `{command}`, but reports {now.words()}: the change was reverted{why}"


def hint(reason: OSError) -> str:
    """The words that follow the refusal of a change."""
    if reason.errno in (errno.EPERM, errno.EACCES):
        return "; changing flow control needs CAP_NET_ADMIN: run as root"
    if reason.errno == errno.EOPNOTSUPP:
        return "; the driver does not support it: nothing was changed"
    if reason.errno == errno.EINVAL:
        return "; some drivers take both directions alike only, or nothing while pause is negotiated"
    return ""
