"""Google's reference implementation of its SQL (ZetaSQL), as an engine of studies: what BigQuery's SQL means."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import sqlglot
from sqlglot import expressions as exp

from example_files import ROOT
from whydrop.store.engines.base import as_polars
from whydrop.store.engines.bigquery import BigQuery

if TYPE_CHECKING:
    import ibis.expr.types as ir

_KINDS = {"BIGINT": "INT64", "TEXT": "STRING", "DOUBLE": "DOUBLE", "BOOLEAN": "BOOL", "DATE": "DATE"}


COMPILED = ROOT / "build/zetasql"
"""Where WebAssembly that was compiled is kept: that takes a minute of processor time, and reading it a second."""


@functools.cache
def keep_compiled() -> None:
    """Have ZetaSQL, which compiles itself when it is first asked, take what an earlier run compiled."""
    from wasmtime import Config
    from zetasql.core import wasm_client

    COMPILED.mkdir(parents=True, exist_ok=True)
    settings = COMPILED / "cache.toml"
    settings.write_text(f"[cache]\ndirectory = '{COMPILED}'\n")

    class Keeping(Config):
        def __init__(self) -> None:
            super().__init__()
            self.cache = str(settings)

    wasm_client.Config = Keeping


class GoogleSQL(BigQuery):
    """The engine BigQuery; ZetaSQL evaluates its queries over given rows."""

    def __init__(self, schemas: str, rows: Mapping[str, Iterable[dict[str, Any]]], mapping: Path | None = None) -> None:
        super().__init__("made-up", mapping)
        keep_compiled()
        self._tables = {
            ".".join(part.name for part in create.this.this.parts): create.this.expressions
            for create in sqlglot.parse(schemas, dialect="bigquery")
            if create is not None
        }
        self._rows = {name: list(rows.get(name, ())) for name in self._tables}

    def run(self, expression: ir.Table) -> pl.DataFrame:
        names = list(expression.schema())
        frame = pl.DataFrame(
            [dict(zip(names, row, strict=True)) for row in self.evaluated(self.sql(expression))],
            schema=dict.fromkeys(names),
            infer_schema_length=None,
        )
        return as_polars(expression, frame)

    def evaluated(self, sql: str) -> list[list[Any]]:
        """Rows of the answer: integers, numbers, texts and booleans."""
        from zetasql.api import PreparedQuery
        from zetasql.types import AnalyzerOptions

        options = AnalyzerOptions(language_options=_language())
        builder = PreparedQuery.builder().set_sql(sql).set_analyzer_options(options).set_catalog(self._catalog)
        with builder.set_table_content(self._content).prepare() as query:
            answer = query.execute()
        table = answer.content and answer.content.table_data
        return [[_plain(cell) for cell in row.cell] for row in (table.row or ())] if table else []

    @functools.cached_property
    def _catalog(self) -> Any:
        from zetasql.api import CatalogBuilder, TableBuilder
        from zetasql.types import ZetaSQLBuiltinFunctionOptions

        catalog = CatalogBuilder("made-up")
        for name, columns in self._tables.items():
            table = TableBuilder(name)
            for column in columns:
                table.add_column(column.name, _type(column.kind))
            catalog.add_table(table.build())
        return catalog.with_builtin_functions(ZetaSQLBuiltinFunctionOptions(language_options=_language())).build()

    @functools.cached_property
    def _content(self) -> dict[str, Any]:
        from zetasql.types import TableContent, TableData

        return {
            name: TableContent(
                table_data=TableData(
                    row=[
                        TableData.Row(cell=[_value(row.get(column.name), column.kind) for column in columns])
                        for row in self._rows[name]
                    ]
                )
            )
            for name, columns in self._tables.items()
        }


@functools.cache
def _language() -> Any:
    from zetasql.types import LanguageOptions, ProductMode

    language = LanguageOptions.maximum_features()
    # As BigQuery has it: types of 64 bits only, and QUALIFY is a word of the language.
    language.product_mode = ProductMode.PRODUCT_EXTERNAL
    language.reserved_keywords = ["QUALIFY"]
    return language


def _type(kind: exp.DataType) -> Any:
    from zetasql.api import TypeFactory
    from zetasql.types import TypeKind

    name = kind.this.value
    if name == "ARRAY":
        return TypeFactory.create_array_type(_type(kind.expressions[0]))
    if name == "STRUCT":
        return TypeFactory.create_struct_type([(field.name, _type(field.kind)) for field in kind.expressions])
    return TypeFactory.create_simple_type(getattr(TypeKind, f"TYPE_{_KINDS.get(name, 'TIMESTAMP')}"))


def _value(value: Any, kind: exp.DataType) -> Any:
    from zetasql.types import Value

    if value is None:
        return Value()
    match kind.this.value:
        case "ARRAY":
            return Value(array_value=Value.Array(element=[_value(one, kind.expressions[0]) for one in value]))
        case "STRUCT":
            fields = [_value(value.get(field.name), field.kind) for field in kind.expressions]
            return Value(struct_value=Value.Struct(field=fields))
        case "BIGINT":
            return Value(int64_value=value)
        case "DOUBLE":
            return Value(double_value=float(value))
        case "TEXT":
            return Value(string_value=value)
        case "BOOLEAN":
            return Value(bool_value=value)
        case "DATE":
            return Value(date_value=(date.fromisoformat(value) - date(1970, 1, 1)).days)
        case "TIMESTAMPTZ" | "TIMESTAMP":
            return Value(timestamp_value=_moment(value))
        case other:
            raise NotImplementedError(other)


def _moment(text: str) -> Any:
    from google.protobuf.timestamp_pb2 import Timestamp

    moment = Timestamp()
    moment.FromDatetime(datetime.fromisoformat(text))
    return moment


def _plain(cell: Any) -> Any:
    found = (cell.int64_value, cell.double_value, cell.string_value, cell.bool_value)
    return next((value for value in found if value is not None), None)
