"""Expressions in test files: ``${delay_s + 2}``, ``TCP upload::${number}``; a tiny language that can only compute.

The syntax is that of Python's expressions, of which only numbers, texts, lists, names, members of tables (``m.label``),
arithmetic, comparisons, ``and``/``or``/``not``, ``A if B else C`` and the functions below are let through. Nothing is
ever handed to Python's own evaluator.
"""

from __future__ import annotations

import ast
import hashlib
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from whydrop.runtime.user_files.spelling import suggestion

# Long enough for any sane formula; short enough that parsing a hostile one costs nothing.
_LONGEST = 500
_MOST_ITEMS = 10_000
_LARGEST = 10**18


class ExpressionError(ValueError):
    """An expression that cannot be read or computed; says which and why."""


class UnknownNameError(ExpressionError):
    """An expression uses a name that nothing defines."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"no parameter or variable is called {name}{suggestion(name, known)}")


@dataclass(frozen=True)
class Template:
    """A text with expressions in it.

    >>> Template("TCP upload::${number}").value({"number": 3})
    'TCP upload::3'
    >>> Template("${delay_s + 2}").value({"delay_s": 5})
    7
    """

    text: str

    def names(self) -> set[str]:
        """The names that it needs; members of tables count as their table.

        Raises:
            ExpressionError: it is not well formed.
        """
        found: set[str] = set()
        for part in self._parts:
            if isinstance(part, ast.expr):
                found |= {node.id for node in ast.walk(part) if isinstance(node, ast.Name)} - set(FUNCTIONS)
        return found

    def value(self, scope: Mapping[str, Any]) -> Any:
        """The value in a scope: of the expression's own type where there is nothing around it, else text.

        Raises:
            ExpressionError: it is not well formed, uses an unknown name, or cannot be computed.
        """
        parts = self._parts
        try:
            if len(parts) == 1 and isinstance(parts[0], ast.expr):
                return _compute(parts[0], scope)
            return "".join(part if isinstance(part, str) else written(_compute(part, scope)) for part in parts)
        except UnknownNameError:
            raise
        except ExpressionError as reason:
            raise ExpressionError(f"{reason} (in {self.text})") from None

    @cached_property
    def _parts(self) -> list[str | ast.expr]:
        return list(_split(self.text))


def is_template(value: object) -> bool:
    """True if a value of a file is to be computed, or at least unescaped."""
    return isinstance(value, str) and "$" in value


def expand(value: Any, scope: Mapping[str, Any]) -> Any:
    """``value`` with every text in it computed, also inside lists and tables.

    >>> expand({"urls": ["http://${host}/"], "workers": 4}, {"host": "h"})
    {'urls': ['http://h/'], 'workers': 4}
    """
    if isinstance(value, str):
        return Template(value).value(scope) if is_template(value) else value
    if isinstance(value, Template):
        return value.value(scope)
    if isinstance(value, list | tuple):
        return [expand(item, scope) for item in value]
    if isinstance(value, dict):
        return {key: expand(item, scope) for key, item in value.items()}
    return value


def names_in(value: Any) -> set[str]:
    """Every name that the texts in a value need."""
    if isinstance(value, str):
        return Template(value).names() if is_template(value) else set()
    if isinstance(value, Template):
        return value.names()
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return set().union(*(names_in(item) for item in value))
    return set()


def written(value: Any) -> str:
    """A value as it stands in a text: numbers without needless digits, lists with commas.

    >>> written(5.0), written(0.2), written([1, 2]), written(True)
    ('5', '0.2', '1,2', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, list | tuple):
        return ",".join(written(item) for item in value)
    return "" if value is None else str(value)


_MARK = re.compile(r"\$\$|\$\{")
# Up to the brace that closes an expression; those in texts inside it do not count.
_INSIDE = re.compile(r"""((?:[^'"}]|'[^']*+'|"[^"]*+")*+)\}""")


def _split(text: str) -> Iterator[str | ast.expr]:
    """Plain text and expressions by turns; ``$$`` is a dollar sign."""
    plain, place = "", 0
    while mark := _MARK.search(text, place):
        plain, place = plain + text[place : mark.start()], mark.end()
        if mark[0] == "$$":
            plain += "$"
            continue
        inside = _INSIDE.match(text, place)
        if inside is None:
            raise ExpressionError(f"${{ without its }} in {text!r}")
        if plain:
            yield plain
        yield _parsed(inside[1])
        plain, place = "", inside.end()
    if plain + text[place:]:
        yield plain + text[place:]


def _parsed(source: str) -> ast.expr:
    if len(source) > _LONGEST:
        raise ExpressionError(f"an expression of {len(source)} characters is too long (at most {_LONGEST})")
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"cannot read the expression ${{{source}}}") from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise ExpressionError(f"${{{source}}}: {type(node).__name__} has no place in an expression")
        if isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str | None):
            raise ExpressionError(f"${{{source}}}: {node.value!r} has no place in an expression")
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise ExpressionError(f"${{{source}}}: the functions are {', '.join(sorted(FUNCTIONS))}")
    return tree


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_TERMS = (ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.List, ast.Call, ast.BinOp, ast.UnaryOp, ast.BoolOp)
_ALLOWED = (*_TERMS, ast.Compare, ast.IfExp, ast.boolop, ast.expr_context, *_OPERATORS)
_CONSTANTS = {"true": True, "false": False, "none": None}


def _compute(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    try:
        value = _value(node, scope)
    except ExpressionError:
        raise
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None
    except RecursionError:
        raise ExpressionError("is nested too deeply") from None
    except (TypeError, ValueError, OverflowError, LookupError, AttributeError) as reason:
        raise ExpressionError(f"cannot be computed: {reason}") from None
    if _is_number(value) and not abs(value) <= _LARGEST:
        raise ExpressionError(f"{value:g} is too large a number")
    if isinstance(value, list | str) and len(value) > _MOST_ITEMS:
        raise ExpressionError(f"a list or text of {len(value)} items is too long (at most {_MOST_ITEMS})")
    return value


def _value(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return _named(node.id, scope)
        case ast.Attribute():
            return _member(node, scope)
        case ast.Subscript():
            return _item_of(node, scope)
        case ast.List():
            return [_compute(item, scope) for item in node.elts]
        case ast.Call(func=ast.Name(id=name)):
            if node.keywords:
                raise ExpressionError(f"{ast.unparse(node)}: functions take no named arguments")
            return FUNCTIONS[name](*(_compute(argument, scope) for argument in node.args))
        case ast.BinOp():
            return _combined(node, scope)
        case ast.UnaryOp():
            value = _compute(node.operand, scope)
            if not isinstance(node.op, ast.Not) and not _is_number(value):
                raise ExpressionError(f"{ast.unparse(node)} takes a number, not {written(value)!r}")
            return _OPERATORS[type(node.op)](value)
        case ast.BoolOp():
            for operand in node.values:
                value = _compute(operand, scope)
                if bool(value) == isinstance(node.op, ast.Or):
                    break
            return value
        case ast.Compare():
            return _holds(node, scope)
        case ast.IfExp():
            return _compute(node.body if _compute(node.test, scope) else node.orelse, scope)
    raise ExpressionError(f"{ast.unparse(node)} has no place in an expression")


def _named(name: str, scope: Mapping[str, Any]) -> Any:
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    try:
        return scope[name]
    except KeyError:
        raise UnknownNameError(name, scope) from None


def _member(node: ast.Attribute, scope: Mapping[str, Any]) -> Any:
    table, called = _compute(node.value, scope), ast.unparse(node.value)
    if not isinstance(table, dict):
        raise ExpressionError(f"{called} is not a table, so it has no {node.attr}")
    if node.attr not in table:
        raise UnknownNameError(f"{called}.{node.attr}", [f"{called}.{key}" for key in table])
    return table[node.attr]


def _item_of(node: ast.Subscript, scope: Mapping[str, Any]) -> Any:
    items, index = _compute(node.value, scope), _compute(node.slice, scope)
    if not isinstance(items, list):
        raise ExpressionError(f"{ast.unparse(node.value)} is not a list")
    if not isinstance(index, int) or not -len(items) <= index < len(items):
        raise ExpressionError(f"{ast.unparse(node)}: the list has {len(items)} items")
    return items[index]


def _combined(node: ast.BinOp, scope: Mapping[str, Any]) -> Any:
    """Of two numbers anything; texts, and lists, can be joined."""
    left, right = _compute(node.left, scope), _compute(node.right, scope)
    alike = any(isinstance(left, kind) and isinstance(right, kind) for kind in (str, list))
    if not (_is_number(left) and _is_number(right)) and not (alike and isinstance(node.op, ast.Add)):
        raise ExpressionError(f"{ast.unparse(node)} takes two numbers, not {written(left)!r} and {written(right)!r}")
    return _OPERATORS[type(node.op)](left, right)


def _holds(node: ast.Compare, scope: Mapping[str, Any]) -> bool:
    left = _compute(node.left, scope)
    for test, operand in zip(node.ops, node.comparators, strict=True):
        right = _compute(operand, scope)
        if not _OPERATORS[type(test)](left, right):
            return False
        left = right
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _range(*bounds: int) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > _MOST_ITEMS:
        raise ExpressionError(f"range of {len(numbers)} numbers is too long (at most {_MOST_ITEMS})")
    return list(numbers)


def _item(items: list[Any], index: int, default: Any = None) -> Any:
    return items[index] if 0 <= index < len(items) else default


def _uniform(seed: float, number: float) -> float:
    """A number of [0, 1) that looks random and is the same wherever it is computed."""
    digest = hashlib.sha256(f"{written(seed)} {written(number)}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "round": round,
    "floor": math.floor,
    "ceil": math.ceil,
    "abs": abs,
    "len": len,
    "range": _range,
    "item": _item,
    "first": lambda items, count: items[: max(0, count)],
    "text": written,
    "uniform": _uniform,
    "cpus": lambda: os.cpu_count() or 1,
}
