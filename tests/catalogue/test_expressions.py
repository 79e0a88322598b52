"""The language of expressions, and the quantities that tests are written in."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.measure.tests.expressions import ExpressionError, Template, UnknownNameError, expand
from whydrop.runtime.user_files import quantities

SCOPE: dict[str, Any] = {"n": 4, "x": 0.5, "name": "a", "list": [1, 2], "m": {"label": "BE", "v": 6}, "flag": False}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${n + 1}", 5),
        ("${n * x - 1}", 1.0),
        ("${n // 3}", 1),
        ("${-n % 3}", -4 % 3),
        ("${'up' if n > 3 else 'down'}", "up"),
        ("${m.label}", "BE"),
        ("${list[1]}", 2),
        ("${item(list, 5, 'none')}", "none"),
        ("${len(range(n))}", 4),
        ("${first([1, 2, 3], 2)}", [1, 2]),
        ("${not flag and 'a' in [name]}", True),
        ("${1 < n <= 4}", True),
        ("${none}", None),
        ("no. ${n}: ${x}", "no. 4: 0.5"),
        ("$${n}", "${n}"),
        ("$5 and $$", "$5 and $"),
        ("${'}'}", "}"),
        ("${max(1, n)}${min(n, 2)}", "42"),
    ],
)
def test_an_expression_computes(text: str, value: object) -> None:
    assert Template(text).value(SCOPE) == value


@pytest.mark.parametrize(
    "text",
    [
        "${",
        "${}",
        "${n +}",
        "${__import__('os')}",
        "${n.__class__}",
        "${m.__class__}",
        "${(lambda: 1)()}",
        "${[i for i in list]}",
        "${2 ** 99}",
        "${'a' * 9}",
        "${n / 0}",
        "${n + name}",
        "${list[2]}",
        "${list[n:]}",
        "${min()}",
        "${range(1000000)}",
        "${range(x)}",
        "${max(key=1)}",
        "${1e300 * 1e300}",
        "${open('/etc/passwd')}",
        "${" + "(" * 400 + "1" + ")" * 400 + "}",
        "${" + "1+" * 300 + "1}",
        "${b'bytes'}",
        "${...}",
        "${f'{n}'}",
    ],
)
def test_what_is_no_expression_is_refused_and_never_run(text: str) -> None:
    with pytest.raises(ExpressionError):
        Template(text).value(SCOPE)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean delay_s"):
        Template("${dealy_s}").value({"delay_s": 5})


@given(st.text(max_size=80))
def test_any_text_either_computes_or_is_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        expand(text, SCOPE)


@given(st.text(alphabet="${}()[]+-*/%,.'\"nx19 iflsenotandor<>=", max_size=40))
def test_any_text_of_the_language_either_computes_or_is_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        expand("${" + text + "}", SCOPE)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sampled_from("+-*"))
def test_arithmetic_is_that_of_numbers(left: int, right: int, sign: str) -> None:
    wanted = {"+": left + right, "-": left - right, "*": left * right}[sign]
    assert Template(f"${{({left}) {sign} ({right})}}").value({}) == wanted


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (quantities.seconds, "1.5 min", 90.0),
        (quantities.seconds, "250us", 0.00025),
        (quantities.rate_bps, "100 Mbit/s", 1e8),
        (quantities.rate_bps, "1 Gbps", 1e9),
        (quantities.rate_bps, "10mbit", 1e7),
        (quantities.rate_bps, "64 k", 64_000),
        (quantities.size_bytes, "1.5 KiB", 1536),
        (quantities.size_bytes, "1.5", None),
        (quantities.size_bytes, "1 MB", 10**6),
        (quantities.seconds, "inf", None),
        (quantities.seconds, True, None),
        (quantities.seconds, "5 Mbit/s", None),
        (quantities.dscp, "AF41", 34),
        (quantities.dscp, "tos 0xb9", None),
        (quantities.dscp, "tos 184", 46),
        (quantities.dscp, 64, None),
        (quantities.dscp, -1, None),
        (quantities.dscp, 1.5, None),
    ],
)
def test_a_quantity_is_read_with_its_unit_or_refused(read: Any, text: object, value: float | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match=r"expected|no whole number"):
            read(text)
    else:
        assert read(text) == value


@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    for read in (quantities.seconds, quantities.rate_bps, quantities.size_bytes, quantities.dscp):
        with contextlib.suppress(ValueError):
            read(text)
