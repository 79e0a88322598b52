"""``--json``: the same word for JSON on every command, also where ``--format`` chooses among several forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def json_as(parameter: str) -> Decorator:
    """``--json``, which makes "json" the default of the parameter of that name; what is given wins over it."""

    def choose(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.default_map = {**(ctx.default_map or {}), parameter: "json"}

    # Eager: before the parameter's own default is looked up.
    return click.option(
        "--json",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=choose,
        help="Print JSON on standard output, and nothing else.",
    )
