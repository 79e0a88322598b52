"""The tables of docs/writing-tests.md and docs/batches.md, made from the schemas themselves.

Run as a program it writes them again: .venv/bin/python tests/catalogue/catalogue_tables.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from whydrop.measure.batch import schema as batch
from whydrop.measure.tests import schema as tests
from whydrop.measure.tests.expressions import FUNCTIONS
from whydrop.measure.tests.parsed_file import IN_FLOWS, VARIABLES
from whydrop.measure.tests.schema import common
from whydrop.runtime.user_files.quantities import CODE_POINTS

DOCS = Path(__file__).parents[2] / "docs"

_PLAIN = {"str": "text", "int": "number", "float": "number", "bool": "true or false", "dict": "table", "list": "list"}


def model_table(model: type[BaseModel], *, without: type[BaseModel] | None = None) -> str:
    """A row for each field, without those of another model."""
    rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    left_out = set() if without is None else set(without.model_fields)
    for name, field in model.model_fields.items():
        if name not in left_out:
            key = field.alias or name
            rows.append(f"| `{key}` | {_takes(field)} | {_default(field)} | {field.description} |")
    return "\n".join(rows)


def _takes(field: FieldInfo) -> str:
    for metadata in field.metadata:
        if isinstance(metadata, tests.Expects):
            return metadata.words
    choices = [choice for part in (field.annotation, *get_args(field.annotation)) for choice in _choices(part)]
    if choices:
        return ", ".join(choices)
    text = str(field.annotation)
    found = [word for kind, word in _PLAIN.items() if re.search(rf"\b{kind}\b", text)]
    if "dict" in text:
        return "table"
    return "list" if "list" in text else " or ".join(dict.fromkeys(found)) or "any value"


def _choices(annotation: Any) -> list[str]:
    return [str(choice) for choice in get_args(annotation)] if get_origin(annotation) is Literal else []


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value: Any = field.default
    if value in (None, PydanticUndefined):
        return ""
    return "`" + (str(value).lower() if isinstance(value, bool) else str(value)) + "`"


def common_table() -> str:
    rows = ["| parameter | type | default | meaning |", "|---|---|---|---|"]
    for name, parameter in common().items():
        default = "" if parameter.default in (None, []) else f"`{str(parameter.default).lower()}`"
        also = f" Also `{'`, `'.join(parameter.aliases)}`." if parameter.aliases else ""
        rows.append(f"| `{name}` | {parameter.type} | {default} | {parameter.help}{also} |")
    return "\n".join(rows)


def sections() -> dict[str, str]:
    """Each generated part by its name in the documents."""
    return {
        "test": model_table(tests.TestFile),
        "flow": model_table(tests.Flow),
        "change": model_table(tests.Change, without=tests.FlowSettings),
        "computed": model_table(tests.Series),
        "parameter": model_table(tests.Parameter),
        "variant": model_table(tests.Variant),
        "hosts": model_table(tests.Hosts),
        "common": common_table(),
        "words": "\n".join(
            [
                f"- variables: {_listed(VARIABLES)}, all parameters; in flows also {_listed(IN_FLOWS)} and those of "
                "`each`",
                f"- functions: {_listed(FUNCTIONS)}",
                f"- names of code points: {_listed(CODE_POINTS)}",
            ]
        ),
        "batch-file": model_table(batch.BatchFile),
        "settings": model_table(batch.Settings),
        "batch": model_table(batch.Batch, without=batch.Settings),
        "command": model_table(batch.Command),
    }


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def filled(text: str) -> str:
    """A document with its generated parts as they should be."""
    for name, part in sections().items():
        pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda match, part=part: f"{match[1]}{part}\n{match[2]}", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    for path in (DOCS / "writing-tests.md", DOCS / "batches.md"):
        path.write_text(filled(path.read_text()))
