"""Quantities on the command line, as iperf3 and tc have them: ``10M``, ``2min``, ``30kB``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Quantity(click.ParamType):  # type: ignore[type-arg]  # older click has no argument
    """A number with a unit; its parser is imported only when there is one."""

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


class Whole(click.ParamType):  # type: ignore[type-arg]  # older click has no argument
    """A whole number within bounds, which the error names and the help does not."""

    name = "number"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it, or say what was expected."""
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) < 19:
            number = int(text)
            if self._least <= number and (self._most is None or number <= self._most):
                return number
        bounds = f"from {self._least} to {self._most}" if self._most is not None else f"from {self._least} on"
        raise click.BadParameter(f"{text!r}: expected a whole number {bounds}", ctx, param)


class Moment(click.ParamType):  # type: ignore[type-arg]  # older click has no argument
    """A time in a capture: seconds since its start, or a date and time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds as a float, a date and time as whole nanoseconds since the epoch; without a zone it is UTC."""
        from datetime import UTC, datetime

        if "-" not in str(value):
            seconds: float = DURATION.convert(value, param, ctx)
            return seconds
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            message = f"{str(value)!r}: expected seconds, or a date and time such as 2026-11-27T12:00:00Z"
            raise click.BadParameter(message, ctx, param) from None
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1_000_000) * 1000


class PathModel(click.ParamType):  # type: ignore[type-arg]  # older click has no argument
    """Elements of a path with their parameters: ``policer:rate=280M,burst=80kB``."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check it, or say what was expected."""
        from whydrop.explaining import replaying

        try:
            return replaying.described(value)[1]
        except replaying.ModelError as reason:
            self.fail(str(reason).removeprefix("model "), param, ctx)


MOMENT = Moment()
PATH_MODEL = PathModel()
PORT = Whole(1, 65535)
DURATION = Quantity("time", "seconds")
RATE = Quantity("rate", "rate_bps")
SIZE = Quantity("size", "size_bytes")
