"""Flow control of one interface (IEEE 802.3, annex 31B): as it was before a change, as asked for, and as it came."""

from __future__ import annotations

import contextlib
import errno
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from whydrop.runtime.rtnetlink import Netlink, unsigned

# Some drivers restart the link for a change; the two ends then negotiate.
SETTLES_S = 15.0
_LOOK_S = 0.1
_IFLA_CARRIER = 33

SWITCH = {True: "on", False: "off"}


@dataclass(frozen=True)
class Setting:
    """Flow control as a driver reports it.

    Attributes:
        autonegotiate: whether it is negotiated with the other end; None where the driver does not say.
        receive: whether pause frames that arrive hold this interface.
        transmit: whether it sends pause frames.
    """

    autonegotiate: bool | None
    receive: bool
    transmit: bool

    @classmethod
    def now(cls, index: int) -> Setting:
        """Ask the driver.

        Raises:
            OSError: it does not report flow control, or the interface has gone (``ENODEV``).
        """
        from whydrop.measure.host import ethtool  # slow to import for the guard of another change

        told = ethtool.flow_control(index)
        if "receive" not in told or "transmit" not in told:
            raise OSError(errno.EOPNOTSUPP, "the driver reports no setting of flow control")
        autonegotiate = told.get("autonegotiate")
        found = None if autonegotiate is None else bool(autonegotiate)
        return cls(found, bool(told["receive"]), bool(told["transmit"]))

    def words(self) -> str:
        """The setting for people.

        >>> Setting(True, True, False).words()
        'receive on, transmit off, negotiated with the other end'
        """
        negotiated = ", negotiated with the other end" if self.autonegotiate else ""
        return f"receive {SWITCH[self.receive]}, transmit {SWITCH[self.transmit]}{negotiated}"


@dataclass(frozen=True)
class Pauses:
    """Flow control before a change.

    Attributes:
        index: of the interface.
        before: as it was.
        asked: as it should be.
    """

    index: int
    before: Setting
    asked: Setting

    def as_json(self) -> dict[str, Any]:
        """For the state file."""
        return {"index": self.index, "flow_control": {"before": asdict(self.before), "asked": asdict(self.asked)}}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Pauses:
        """From the state file."""
        told = value["flow_control"]
        return cls(int(value["index"]), Setting(**told["before"]), Setting(**told["asked"]))

    def belongs_to_another(self, now: Setting) -> bool:
        """True if somebody has set it since: it is neither as it was nor as it was asked for.

        What is negotiated may be anything that the other end allows.
        """
        return not now.autonegotiate and now not in (self.before, self.asked)


def has_gone(reason: OSError) -> bool:
    """True if the error says that there is no such interface any more."""
    return reason.errno == errno.ENODEV


def carrier(index: int) -> bool | None:
    """True if the link is up; None where the interface has gone, or does not say."""
    with contextlib.suppress(OSError), closing(Netlink()) as netlink:
        link = netlink.links().get(index)
        state = None if link is None else unsigned(link[1].get(_IFLA_CARRIER))
        return None if state is None else bool(state)
    return None


def settled(index: int, wanted: Setting, *, link_up: bool) -> Setting:
    """Wait until the driver reports a setting and the link is up (where it was); what it reports in the end.

    Raises:
        OSError: the driver does not answer any more.
    """
    until = time.monotonic() + SETTLES_S
    while True:
        now = Setting.now(index)
        if (now == wanted and (not link_up or carrier(index))) or time.monotonic() >= until:
            return now
        time.sleep(_LOOK_S)
