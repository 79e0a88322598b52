"""The page about runners says what the code does."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from whydrop.measure.runners.parsing.declared import Declaration
from whydrop.measure.runners.registry import SUPPORT

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "runners.md").read_text("utf-8")


def test_every_runner_and_every_option_is_on_the_page() -> None:
    for name, support in SUPPORT.items():
        assert f"`{name}`" in PAGE
        for option in support.options:
            assert f"`{option}`" in PAGE, f"{name}: {option}"


def test_every_key_of_a_declaration_is_on_the_page() -> None:
    assert [key for key in Declaration.model_fields if f"`{key}`" not in PAGE] == []


def test_the_examples_of_the_page_are_right() -> None:
    blocks = re.findall(r"(?:^    .*\n|^\n)+", PAGE, re.MULTILINE)
    tests = [tomllib.loads(re.sub(r"^    ", "", block, flags=re.MULTILINE)) for block in blocks if "[[flows]]" in block]
    assert len(tests) == 2
    for flow in (flow for test in tests for flow in test["flows"]):
        assert flow["options"].keys() <= set(SUPPORT[flow["runner"]].options)
        if "parser" in flow["options"]:
            Declaration.model_validate(flow["options"]["parser"])
