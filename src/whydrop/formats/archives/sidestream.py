"""SideStream's ``.web100``: the last web100 variables of every connection of a host, one line each.

A line ``K:`` names the columns of the lines ``C:`` that follow it.
"""

from __future__ import annotations

import io

import polars as pl

from whydrop.formats.archives import Found, web100_rows
from whydrop.formats.archives.columns import tcp_rows
from whydrop.formats.archives.lines import Lines
from whydrop.formats.archives.names import Host, plain

_NEEDED = {"RemAddress", "RemPort"}
_TEXTS = ("cid", "LocalAddress", "RemAddress")
_VARIABLES = (*_TEXTS, *web100_rows.VARIABLES, "LocalPort", "RemPort")
_MOST_COLUMNS = 1000
_MOST_LINE = 1 << 16
_MOST_CONNECTIONS = 1_000_000


def is_sidestream(head: bytes) -> bool:
    """True if a file that begins with these bytes is SideStream's."""
    return head.startswith(b"K: ")


def read(content: bytes, name: str, of: Host | None) -> Found:
    """The connections as rows of ``tcp``; lines that cannot be read are left out."""
    columns: list[str] = []
    rows: list[list[str | None]] = []
    lines = Lines(io.BytesIO(content))
    for line in lines:
        if len(rows) == _MOST_CONNECTIONS:
            lines.stop(f"{len(rows)} connections")
            break
        words = line[:_MOST_LINE].decode("ascii", "backslashreplace").split()
        # A file that was cut off ends within a line: its last number may lack digits.
        whole = line.endswith(b"\n")
        if words and words[0] == "K:" and whole and len(words) <= _MOST_COLUMNS and set(words) >= _NEEDED:
            columns = words[1:]
        elif words and words[0] == "C:" and whole and columns and len(words) - 1 == len(columns):
            values = dict(zip(columns, words[1:], strict=True))
            rows.append([values.get(variable) for variable in _VARIABLES])
        elif words:
            expected = f"{len(columns)} values" if columns else "names of columns (K:)"
            lines.refuse(f"expected a connection (C:) of {expected}")
    return Found([_frame(rows, plain(name), of)], damage=lines.damage)


def _frame(rows: list[list[str | None]], name: str, of: Host | None) -> pl.DataFrame:
    texts = pl.DataFrame(rows, dict.fromkeys(_VARIABLES, pl.String()), orient="row")
    number = pl.col(*(variable for variable in _VARIABLES if variable not in _TEXTS))
    numbers = texts.with_columns(
        pl.when(number.str.contains("^[0-9]{1,19}$")).then(number).cast(pl.Int64, strict=False)
    )
    connection = pl.concat_str(pl.lit(f"{name}/"), "cid")
    frame = numbers.select(
        *web100_rows.columns(),
        pl.col("LocalPort").alias("local_port"),
        pl.col("RemPort").alias("remote_port"),
        pl.col("LocalAddress").str.slice(0, 64).alias("local_address"),
        pl.col("RemAddress").str.slice(0, 64).alias("remote_address"),
        pl.coalesce(connection, pl.lit(name)).alias("test_id"),
    )
    return tcp_rows(frame, "sidestream", of)
