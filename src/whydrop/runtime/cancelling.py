"""A request to stop, handed down to what may have to be stopped from another thread."""

from __future__ import annotations

import threading

from whydrop.errors import Error


class CancelledError(Error):
    """Raised where work was cancelled before it came to anything."""


class Cancellation:
    """A token: whoever holds it may cancel, and whoever works looks at it where the work can end.

    >>> token = Cancellation()
    >>> token.wait(0.001)
    False
    >>> token.cancel()
    >>> token.wait(60)
    True
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask for an end, from any thread; a second time changes nothing."""
        self._event.set()

    @property
    def cancelled(self) -> bool:
        """True if an end was asked for."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, and wake when an end is asked for; return whether it was."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Go on, unless an end was asked for.

        Raises:
            CancelledError: it was.
        """
        if self.cancelled:
            raise CancelledError("cancelled before anything was measured")
