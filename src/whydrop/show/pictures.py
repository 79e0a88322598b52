"""The formats of pictures for print, which the packages of the extra ``plots`` draw."""

from __future__ import annotations

from whydrop.runtime import extras

FORMATS = ("png", "svg", "pdf")


def need_for(*kinds: str) -> None:
    """Refuse formats of print where the packages that draw them are not installed; other formats need none.

    Raises:
        MissingExtraError: the message says what to install.
    """
    if any(kind in FORMATS for kind in kinds):
        extras.need("plots")
