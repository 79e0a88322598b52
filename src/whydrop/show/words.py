"""Causes in words, for people who have not met the terms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from whydrop.explaining.document import Capture, Verdict
from whydrop.text import quantities

_CAUSES = {
    "policer": ("Policer", "a rate limiter that drops what exceeds its token bucket"),
    "shallow-queue": ("Shallow queue", "a buffer of a few dozen packets that bursts overflow"),
    "deep-queue": ("Deep queue", "a long buffer: delay grows, then it overflows"),
    "shaper": ("Shaper", "a rate limiter that delays what exceeds its rate"),
    "aqm": ("Active queue management", "a buffer that drops or marks early to keep delay low"),
    "random-loss": ("Random loss", "losses that occur by chance, as on a bad link"),
    "reordering": ("Reordering", "packets overtook each other on the path"),
    "receiver-window": ("Receive window", "the receiver allowed no more bytes in flight"),
    "sender": ("Sender", "the sending host limited the flow: its application, its send buffer or its pacing"),
    "peer-application": ("Far application", "the program at the far end was slow"),
    "delayed-ack": ("Delayed acknowledgments", "the receiver's timer delayed them"),
    "capture-loss": ("Capture loss", "the capture does not hold all packets"),
    "outage": ("Outage", "for a time no packet passed, then packets passed again"),
    "no-answer": ("No answer", "no reply: a dead host, a filter, or no route"),
    "refused": ("Refused", "the far end, or a filter, refused the connection"),
    "reset": ("Reset", "a connection was ended at once, by one of its ends or by a device in its name"),
    "mtu": ("Path MTU", "packets were too large for a link of the path"),
    "idle-timeout": ("Idle timeout", "a connection was forgotten while it was silent"),
    "window-scaling": ("Window scaling", "the option for windows above 64 KiB was lost or missing"),
    "sack": ("Selective acknowledgments", "they were removed, refused or damaged"),
    "ecn": ("ECN", "congestion marks were refused, removed or not echoed"),
    "checksum": ("Damage", "packets were changed on the path, and dropped for it"),
    "duplicate": ("Duplicates", "packets exist twice, on the path or in the capture alone"),
    "batching": ("Batching", "a link kept packets and released them together"),
    "jitter": ("Jitter", "delays varied, and this traffic's load does not explain it"),
    "host-drop": ("Dropped by a host", "a host's own kernel dropped packets, and gave the reason"),
    "unfairness": ("Unfairness", "flows of one direction get unequal shares"),
    "none": ("No problem found", "no loss was seen, and no cause took time of its own"),
    "unknown": ("Unknown", "the evidence names no single cause"),
}


# Below this, a stated cause is wrong more often than right.
_DOUBTFUL = 0.5


def cause_title(cause: str) -> str:
    """The cause as a heading.

    >>> cause_title("shallow-queue"), cause_title("solar-flare")
    ('Shallow queue', 'Solar flare')
    """
    return _CAUSES[cause][0] if cause in _CAUSES else cause.replace("-", " ").capitalize()


def cause_meaning(cause: str) -> str:
    """A phrase on what the cause does; empty for a cause that this version does not know."""
    return _CAUSES[cause][1] if cause in _CAUSES else ""


_FAMILIES = {
    "codel": "of the CoDel family, which acts on the time that packets stay queued (RFC 8289)",
    "fq-codel": "of the CoDel family (RFC 8289), with a queue for each flow, as FQ-CoDel (RFC 8290)",
    "cake": "of the CoDel family, as COBALT has it in cake, with a queue for each flow",
    "pie": "of the PIE family: the drop probability follows the delay (RFC 8033)",
    "fq-pie": "of the PIE family (RFC 8033), with a queue for each flow",
    "dualpi2": "of the DualPI2 family, which squares the probability of its controller (RFC 9332)",
    "red": "of the RED family: the drop probability rises with the average queue (RFC 2309)",
    "flow-queueing": "with a queue for each flow (RFC 8290)",
}


def family(name: str) -> str:
    """A family of queue management in words."""
    return _FAMILIES.get(name, f"of the {name.replace('-', ' ')} family")


def certainty(verdict: Verdict) -> str:
    """How sure a verdict is; empty for one that names no cause, since there is nothing to be sure of."""
    return "" if verdict.cause == "unknown" else quantities.percent(verdict.confidence)


def stated(verdict: Verdict) -> str:
    """The sentence of a verdict; a cause that is rather wrong than right is stated as no more than a possibility."""
    is_doubtful = verdict.cause not in ("unknown", "none") and verdict.confidence < _DOUBTFUL
    return f"Perhaps: {verdict.sentence}" if is_doubtful else verdict.sentence


def flows(verdict: Verdict, of: int) -> str:
    """The flows of a verdict, each with its direction, where a capture holds several; else nothing."""
    if of < 2 or not verdict.flows:
        return ""
    left = len(verdict.flows) - 1
    return verdict.flows[0] + (f" and {quantities.count(left)} more flow{'s' if left > 1 else ''}" if left else "")


def further(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts after the headline: a verdict without a cause is left out."""
    return [verdict for verdict in verdicts[1:] if verdict.cause != "none"]


def place(where: str, captures: Sequence[Capture]) -> str:
    """A place of the path, with the file names of the captures that it names.

    >>> place("beyond capture 9", [])
    'beyond capture 9'
    """
    files = {str(number): PurePath(capture.path).name for number, capture in enumerate(captures, start=1)}

    def with_file(found: re.Match[str]) -> str:
        number = found[1]
        return f"capture {number} ({files[number]})" if number in files else found[0]

    return re.sub(r"capture (\d+)", with_file, where)
