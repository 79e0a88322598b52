"""Rates and times on the command line: ``10mbit``, ``2min``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Quantity(click.ParamType[float]):
    """A number with a unit; what reads it is only imported when there is one."""

    def __init__(self, name: str, function: str) -> None:
        self.name = name
        self._function = function

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it, or say what was expected."""
        from whydrop.runtime.user_files import quantities

        read: Callable[[Any], float] = getattr(quantities, self._function)
        try:
            return read(value)
        except ValueError as reason:
            self.fail(str(reason), param, ctx)


DURATION = Quantity("time", "seconds")
RATE = Quantity("rate", "rate_bps")
SIZE = Quantity("size", "size_bytes")
