"""The knowledge of a path between two captures that a user adds to what the packets show."""

from __future__ import annotations

import os
from dataclasses import dataclass

from whydrop.errors import Mistake
from whydrop.explaining.same_file import is_same_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class HintError(Mistake):
    """A hint that does not fit the captures; the message says why."""


@dataclass(frozen=True)
class PairHints:
    """Knowledge of the path between two captures, for packets that do not show it.

    Attributes:
        client_side: the capture nearer to the clients, the hosts that open the connections; by default the order of the
            captures follows from TTL, transit times, losses and clocks.
        same_sequence_numbers: no device between the captures changes TCP sequence numbers, so none is looked for.
        longest_bytes: only packets of up to this length are matched (bytes of IP), such as where a device between the
            captures fragments or reassembles longer ones.
    """

    client_side: str | os.PathLike[str] | None = None
    same_sequence_numbers: bool = False
    longest_bytes: int | None = None

    @property
    def given(self) -> bool:
        """True if there is any hint."""
        return self != PairHints()

    def of_captures(self, captures: Sequence[str]) -> dict[str, Any]:
        """Write the hints as the core reads them, with the number of the capture for its path.

        Raises:
            HintError: the side of the clients is none of the captures, or a length is not possible.
        """
        if self.longest_bytes is not None and not 20 <= self.longest_bytes < 1 << 32:
            raise HintError(f"the longest packet to match has {self.longest_bytes} bytes; expected 20 or more")
        return {
            "same_sequence_numbers": self.same_sequence_numbers,
            "client_side": None if self.client_side is None else _number(os.fspath(self.client_side), captures),
            "longest_bytes": self.longest_bytes,
        }


def _number(path: str, captures: Sequence[str]) -> int:
    for number, capture in enumerate(captures):
        if path == capture or is_same_file(path, capture):
            return number
    raise HintError(f"the capture nearer to the clients is {path!r}, but the captures are {', '.join(captures)}")
