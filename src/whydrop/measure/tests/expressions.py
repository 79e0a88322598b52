"""Expressions in test files: ``${delay_s + 2}``, ``TCP upload::${number}``; a tiny language that can only compute.

The syntax is that of Python's expressions, of which only numbers, texts, lists, names, members of tables (``m.label``),
arithmetic, comparisons, ``and``/``or``/``not``, ``A if B else C`` and the functions below are let through. Nothing is
ever handed to Python's own evaluator.
"""

from __future__ import annotations

import ast
import math
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from whydrop.runtime.user_files.spelling import nearest

# Long enough for any sane formula; short enough that parsing a hostile one costs nothing.
_LONGEST = 500
_MOST_ITEMS = 10_000
_LARGEST = 10**18


class ExpressionError(ValueError):
    """An expression that cannot be read or computed; says which and why."""


class UnknownNameError(ExpressionError):
    """An expression uses a name that nothing defines."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.nearest = nearest(name, known)
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        super().__init__(f"no parameter or variable is called {name}{hint}")


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


def _split(text: str) -> Iterable[str | ast.expr]:
    """Plain text and expressions by turns; ``$$`` is a dollar sign."""
    plain, place = "", 0
    while place < len(text):
        if text.startswith("$$", place):
            plain, place = plain + "$", place + 2
        elif text.startswith("${", place):
            end = _closing_brace(text, place + 2)
            if plain:
                yield plain
            yield _parsed(text[place + 2 : end])
            plain, place = "", end + 1
        else:
            plain, place = plain + text[place], place + 1
    if plain:
        yield plain


def _closing_brace(text: str, place: int) -> int:
    """Where the expression ends; braces in texts inside it do not count."""
    quote = ""
    for end in range(place, len(text)):
        char = text[end]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "}":
            return end
    raise ExpressionError(f"${{ without its }} in {text!r}")


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


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISON: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}
_ALLOWED = (
    ast.Constant,
    ast.Name,
    ast.Load,
    ast.Attribute,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.List,
    ast.Call,
    ast.Subscript,
    ast.USub,
    ast.UAdd,
    ast.Not,
    ast.And,
    ast.Or,
    *_BINARY,
    *_COMPARISON,
)


def _compute(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    try:
        return _checked(_NODES[type(node)](node, scope))
    except ExpressionError:
        raise
    except ZeroDivisionError:
        raise ExpressionError("division by zero") from None
    except RecursionError:
        raise ExpressionError("is nested too deeply") from None
    except (TypeError, ValueError, OverflowError, LookupError, AttributeError) as reason:
        raise ExpressionError(f"cannot be computed: {reason}") from None


def _checked(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool) and not abs(value) <= _LARGEST:
        raise ExpressionError(f"{value:g} is too large a number")
    if isinstance(value, list | str) and len(value) > _MOST_ITEMS:
        raise ExpressionError(f"a list or text of {len(value)} items is too long (at most {_MOST_ITEMS})")
    return value


def _name(node: Any, scope: Mapping[str, Any]) -> Any:
    constants = {"true": True, "false": False, "none": None}
    if node.id in constants:
        return constants[node.id]
    try:
        return scope[node.id]
    except KeyError:
        raise UnknownNameError(node.id, scope) from None


def _member(node: Any, scope: Mapping[str, Any]) -> Any:
    table = _compute(node.value, scope)
    if not isinstance(table, dict):
        raise ExpressionError(f"{ast.unparse(node.value)} is not a table, so it has no {node.attr}")
    if node.attr not in table:
        raise UnknownNameError(f"{ast.unparse(node)}", [f"{ast.unparse(node.value)}.{key}" for key in table])
    return table[node.attr]


def _binary(node: Any, scope: Mapping[str, Any]) -> Any:
    left, right = _compute(node.left, scope), _compute(node.right, scope)
    numbers = _is_number(left) and _is_number(right)
    joins = isinstance(node.op, ast.Add) and (
        (isinstance(left, str) and isinstance(right, str)) or (isinstance(left, list) and isinstance(right, list))
    )
    if not numbers and not joins:
        raise ExpressionError(f"{ast.unparse(node)} takes two numbers, not {written(left)!r} and {written(right)!r}")
    return _BINARY[type(node.op)](left, right)


def _unary(node: Any, scope: Mapping[str, Any]) -> Any:
    value = _compute(node.operand, scope)
    if isinstance(node.op, ast.Not):
        return not value
    if not _is_number(value):
        raise ExpressionError(f"{ast.unparse(node)} takes a number, not {written(value)!r}")
    return -value if isinstance(node.op, ast.USub) else value


def _boolean(node: Any, scope: Mapping[str, Any]) -> Any:
    result: Any = None
    for operand in node.values:
        result = _compute(operand, scope)
        if bool(result) == isinstance(node.op, ast.Or):
            return result
    return result


def _comparison(node: Any, scope: Mapping[str, Any]) -> bool:
    left = _compute(node.left, scope)
    for test, operand in zip(node.ops, node.comparators, strict=True):
        right = _compute(operand, scope)
        if not _COMPARISON[type(test)](left, right):
            return False
        left = right
    return True


def _conditional(node: Any, scope: Mapping[str, Any]) -> Any:
    return _compute(node.body if _compute(node.test, scope) else node.orelse, scope)


def _call(node: Any, scope: Mapping[str, Any]) -> Any:
    if node.keywords:
        raise ExpressionError(f"{ast.unparse(node)}: functions take no named arguments")
    return FUNCTIONS[node.func.id](*(_compute(argument, scope) for argument in node.args))


def _subscript(node: Any, scope: Mapping[str, Any]) -> Any:
    items, index = _compute(node.value, scope), _compute(node.slice, scope)
    if not isinstance(items, list):
        raise ExpressionError(f"{ast.unparse(node.value)} is not a list")
    if not isinstance(index, int) or not -len(items) <= index < len(items):
        raise ExpressionError(f"{ast.unparse(node)}: the list has {len(items)} items")
    return items[index]


_NODES: dict[type[ast.expr], Callable[[Any, Mapping[str, Any]], Any]] = {
    ast.Constant: lambda node, _scope: node.value,
    ast.Name: _name,
    ast.Attribute: _member,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _comparison,
    ast.IfExp: _conditional,
    ast.List: lambda node, scope: [_compute(item, scope) for item in node.elts],
    ast.Call: _call,
    ast.Subscript: _subscript,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _item(items: list[Any], index: int, default: Any = None) -> Any:
    """The item at ``index``, or ``default`` where the list is too short."""
    return items[index] if 0 <= index < len(items) else default


def _first(items: list[Any], count: int) -> list[Any]:
    """The first so many items."""
    return items[: max(0, count)]


def _range(*bounds: int) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > _MOST_ITEMS:
        raise ExpressionError(f"range of {len(numbers)} numbers is too long (at most {_MOST_ITEMS})")
    return list(numbers)


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
    "first": _first,
    "text": written,
    "cpus": lambda: os.cpu_count() or 1,
}
