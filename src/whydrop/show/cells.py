"""Cells for a notebook: Python that opens the same files with the public API, and draws the same figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What takes the place of standard input cannot be opened again.
_STANDARD_INPUT = "-"


def explained(paths: Sequence[str], **options: Any) -> str:
    """The call that explains files again.

    Args:
        paths: captures, recordings.
        options: of :func:`whydrop.explain`; those that are ``None`` are left out.

    Returns:
        An expression; empty where there are no files to open again.

    >>> explained(["a.pcap"], filter="tcp.port == 443", begin=None)
    "whydrop.explain('a.pcap', filter='tcp.port == 443')"
    """
    if not paths or _STANDARD_INPUT in paths:
        return ""
    return f"whydrop.explain({_arguments(paths, options)})"


def of_charts(opening: str, names: Iterable[str], flow: str | None) -> dict[str, str]:
    """A cell for each chart of a flow, by its name; none where nothing can be opened again.

    >>> print(of_charts("whydrop.explain('a.pcap')", ["rtt"], "10.0.0.1:1 > 10.0.0.2:2")["rtt"])
    import whydrop
    <BLANKLINE>
    found = whydrop.explain('a.pcap')
    found.chart('rtt', flow='10.0.0.1:1 > 10.0.0.2:2')
    <BLANKLINE>
    """
    if not opening:
        return {}
    chosen = {} if flow is None else {"flow": flow}
    return {name: f"import whydrop\n\nfound = {opening}\nfound.chart({_arguments([name], chosen)})\n" for name in names}


def of_plots(paths: Sequence[str], names: Iterable[str], **options: Any) -> dict[str, str]:
    """A cell for each plot of recordings, by its name.

    Args:
        paths: the recordings.
        names: of the catalogue of plots.
        options: of :func:`whydrop.plot`.
    """
    calls = {name: f"whydrop.plot({_arguments(paths, {'name': name, **options})})" for name in names}
    return {name: f"import whydrop\n\nplot = {call}[0]\nplot.chart()\n" for name, call in calls.items()}


def _arguments(given: Sequence[str], named: Mapping[str, Any]) -> str:
    words = [f"{name}={value!r}" for name, value in named.items() if value is not None]
    return ", ".join([*map(repr, given), *words])
