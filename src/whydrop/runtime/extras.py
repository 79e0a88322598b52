"""The optional packages: the extra of whydrop that brings each, and the error where one is missing.

Code that imports an optional package calls :func:`need` first, at the entrance of its part. ``pyproject.toml`` has the
same table; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from whydrop.errors import MissingExtraError

# Of each extra: the modules that are imported, with the packages that have them.
PACKAGES = {
    "store": {"pyarrow": "pyarrow", "duckdb": "duckdb", "ibis": "ibis-framework", "sqlglot": "sqlglot"},
    "studies": {"scipy": "scipy"},
    "plots": {"altair": "altair", "vl_convert": "vl-convert-python"},
    "switches": {"gufo.snmp": "gufo-snmp"},
    "web": {"starlette": "starlette", "uvicorn": "uvicorn"},
    "spark": {"pyspark": "pyspark", "pandas": "pandas"},
    "bigquery": {"google.cloud.bigquery": "google-cloud-bigquery"},
    "mcp": {"mcp": "mcp"},
}
# The commands that need each extra.
USED_FOR = {
    "store": "store, plot --table",
    "studies": "study",
    "plots": "pictures for print: PNG, SVG, PDF",
    "switches": "collect",
    "web": "web",
    "spark": "--backend spark",
    "bigquery": "--backend bigquery",
    "mcp": "mcp",
}
# Extras that an extra brings too.
INCLUDED = {
    "studies": ("store",),
    "switches": ("store",),
    "spark": ("store",),
    "bigquery": ("store",),
    "mcp": ("web",),
}


def need(extra: str) -> None:
    """Refuse to go on without the packages of an extra.

    Raises:
        MissingExtraError: packages are not installed; the message names them, and the command that installs them.
    """
    if absent := missing(extra):
        *others, last = absent
        names = f"{', '.join(others)} and {last}, which are" if others else f"{last}, which is"
        raise MissingExtraError(f"this needs {names} not installed: {command(extra)}")


def missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    return [package for module, package in _modules(extra) if not _is_installed(module)]


def command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'whydrop[{extra}]'"


def _modules(extra: str) -> Iterator[tuple[str, str]]:
    for included in INCLUDED.get(extra, ()):
        yield from _modules(included)
    yield from PACKAGES[extra].items()


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # The package around it is missing.
        return False
