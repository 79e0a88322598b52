"""One document gives the text of a terminal, a page and JSON."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.show import html, terminal, text_layout
from whydrop.show.document import Column, Command, Document, Facts, Folded, Items, Section, Table, Text, as_json

NO_BREAK = "\N{NO-BREAK SPACE}"
PORTS = Table(
    "Ports",
    (Column("Port"), Column("Alias", rank=1), Column("Rate", number=True), Column("Discards", True, 2)),
    (
        ("eth0", "uplink to the second floor", f"12.5{NO_BREAK}Mbit/s", Text("96", "bad")),
        ("eth1", "", f"9{NO_BREAK}Mbit/s", "0"),
    ),
)
SHOWN = Document(
    "Two ports",
    (
        Section("Port eth0 drops 96 packets.", (Text("Where: the second floor", "strong"),), key="verdict"),
        Section("Evidence", (Items((Text(f"Its queue holds 20{NO_BREAK}ms."), Command("tc -s qdisc show dev eth0"))),)),
        PORTS,
        Section("Also", (Folded("Port eth1 drops nothing.", (Facts((("Rate", "9 Mbit/s"),)),)),)),
    ),
    notes=("The first poll was missed.",),
)


def text_of(document: Document, width: int) -> list[str]:
    printed = io.StringIO()
    terminal.print_document(document, terminal.Output(file=printed, width=width))
    return printed.getvalue().splitlines()


def test_the_answer_comes_first_and_notes_come_last() -> None:
    lines = text_of(SHOWN, 80)
    assert lines[:2] == ["Port eth0 drops 96 packets.", "Where: the second floor"]
    assert lines[-2:] == ["Notes", "  • The first poll was missed."]


def test_numbers_of_a_column_end_below_its_title() -> None:
    lines = text_of(SHOWN, 80)
    title, first, second = lines[lines.index("Ports") + 1 :][:3]
    end = title.index("Rate") + len("Rate")
    assert first[:end].endswith(" 12.5 Mbit/s")
    assert second[:end].endswith(" 9 Mbit/s")


def test_a_narrow_terminal_loses_the_least_important_columns_and_says_so() -> None:
    text = "\n".join(text_of(SHOWN, 40))
    assert "Discards" not in text.split("Columns left out")[0]
    assert "Columns left out for lack of width:" in text


@pytest.mark.parametrize("width", [40, 60, 110])
def test_only_commands_are_wider_than_the_terminal(width: int) -> None:
    for line in text_of(SHOWN, width):
        assert len(line) <= width or line.strip().startswith("$ ")


@given(st.lists(st.sampled_from(["a", "word", f"20{NO_BREAK}ms", "10.0.0.1:443"]), min_size=1), st.integers(12, 40))
def test_lines_break_at_ordinary_spaces_only_and_lose_no_word(words: list[str], width: int) -> None:
    lines = text_layout.wrapped(" ".join(words), width)
    assert " ".join(lines).split(" ") == words
    assert all(len(line) <= width for line in lines)


class _Words(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_has_every_word_of_the_document_one_heading_and_what_is_folded() -> None:
    page = _Words(html.page(SHOWN))
    for words in ("Port eth0 drops 96 packets.", "uplink to the second floor", "tc -s qdisc show dev eth0", "9 Mbit/s"):
        assert words in page.text
    assert page.tags.count("h1") == 1
    assert "details" in page.tags


def test_json_names_the_kind_of_each_part_and_leaves_out_what_is_empty() -> None:
    found = json.loads(json.dumps(as_json(SHOWN)))
    assert (found["kind"], found["title"]) == ("document", "Two ports")
    assert [part["kind"] for part in found["parts"]] == ["section", "section", "table", "section"]
    assert found["parts"][2]["columns"][0] == {"kind": "column", "title": "Port"}
    assert found["parts"][2]["rows"][0][3] == {"kind": "text", "text": "96", "look": "bad"}


def test_a_part_without_content_is_no_part() -> None:
    from whydrop.show.document import parts

    assert parts(Text(""), None, Table("Empty", (Column("a"),), ()), Section("Empty", ())) == ()
