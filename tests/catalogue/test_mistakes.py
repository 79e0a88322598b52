"""Messages on test files with mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from whydrop.measure.tests import SettingError, UnknownTestError, check, load, resolve

HERE = Path(__file__).parent
TEN = HERE / "ten-mistakes.toml"

EXPECTED = [
    (3, "extends", "comon", "did you mean common?"),
    (4, "familly", "no such key", "did you mean family?"),
    (5, "length_s", "60 sec", "expected a time"),
    (10, "parameters.streams.default", "0", "at least 1"),
    (14, "parameters.fast.default", "maybe", "expected true or false"),
    (18, "flows[0].repeat", "streems", "did you mean streams?"),
    (19, "flows[0].kind", "tpc", "did you mean tcp?"),
    (21, "flows[0].dscp", "EG", "expected 0 to 63"),
    (23, "flows[1].name", "missing", ""),
    (29, "computed[0].by", "summ", "did you mean sum?"),
]


def test_a_file_with_ten_mistakes_yields_ten_lines_that_name_line_key_and_what_was_expected() -> None:
    problems = check(TEN)
    assert [(problem.line, problem.key) for problem in problems] == [(line, key) for line, key, _, _ in EXPECTED]
    for problem, (_, _, wrong, wanted) in zip(problems, EXPECTED, strict=True):
        assert wrong in problem.message
        assert wanted in problem.message


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("tests", "check", TEN), ("tests", TEN), ("run", TEN, "--to", "192.0.2.1")])
def test_every_command_that_takes_the_file_prints_the_ten_lines_and_exits_with_2(arguments, run) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 10
    assert all(f"{TEN}:{line}: {key}: " in text for text, (line, key, _, _) in zip(lines, EXPECTED, strict=True))


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ('title = "x"\nlength_s = \n', 2, "not TOML, column 12"),
        ('title = "x"\n[[flows]]\nname = "a"\nname = "b"\n', 4, "overwrite"),
        ("title = 'x\n", 1, "not TOML"),
        ('title = """x\n', 1, "not TOML"),
    ],
)
def test_what_is_no_toml_is_named_with_its_line(tmp_path: Path, source: str, line: int, words: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(source)
    [problem] = check(path)
    assert problem.line == line
    assert words in problem.message


def test_a_file_that_is_not_text_or_not_there_is_one_problem(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b'title = "x"\n\xff\xfe')
    [problem] = check(binary)
    assert (problem.line, "not UTF-8" in problem.message) == (2, True)
    [problem] = check(tmp_path / "missing.toml")
    assert "No such file" in problem.message
    [problem] = check(tmp_path)
    assert "Is a directory" in problem.message


HEAD = 'title = "x"\n'
FLOW = '[[flows]]\nname = "a"\nkind = "tcp"\ndirection = "up"\n'


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (HEAD + FLOW + "dscp = 64\n", 6, "64 is no code point"),
        (HEAD + FLOW + 'ecn = "yes"\n', 6, "expected true or false"),
        (HEAD + FLOW + "ip_version = 5\n", 6, "expected 4 or 6"),
        (HEAD + FLOW + 'start_s = "${delay_s +}"\n', 6, "cannot read the expression"),
        (HEAD + FLOW + 'start_s = "${1 / 0}"\n', 6, "division by zero"),
        (HEAD + FLOW + 'start_s = "${delay_s - 6}"\n', 6, "expected 0 to"),
        (HEAD + FLOW + "each = { class = [1, 2] }\n", 6, "no word of the language"),
        (HEAD + FLOW + "on_s = 1\n", 2, "on_s and off_s go together"),
        (HEAD + FLOW + 'runner = "irtt"\n', 6, "runner irtt measures probe, not tcp"),
        (HEAD + FLOW.replace("up", "both"), 5, "a flow of kind tcp is up or down"),
        (HEAD + FLOW.replace('direction = "up"\n', ""), 2, "direction"),
        (HEAD + FLOW.replace("tcp", "udp"), 2, "needs a rate"),
        (HEAD + FLOW.replace('kind = "tcp"\n', ""), 2, "is missing"),
        (HEAD + "hosts = true\n", 2, "expected a table"),
        (HEAD + "schema = 2\n", 2, "expected 1"),
        (HEAD + "plots = 3\n", 2, "expected a text or a list of texts"),
        (HEAD + 'extends = "./gone.toml"\n', 2, "there is no file"),
        (HEAD + '[parameters.host]\ntype = "text"\n', 2, "is a variable of every test"),
        (HEAD + "[parameters.x]\ndefault = 1\n", 2, "type"),
        (HEAD + '[variants.v]\ntitle = "v"\nset = { nothing = 1 }\n', 4, "the test has no parameter nothing"),
        ("abstract = false\n", 1, "is missing"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, source: str, line: int, words: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(source)
    problems = check(path)
    assert [problem.line for problem in problems] == [line], problems
    assert words in str(problems[0])


def test_tests_that_extend_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(HEAD + 'extends = "./two.toml"\n')
    (tmp_path / "two.toml").write_text(HEAD + 'extends = ["./three.toml"]\n')
    (tmp_path / "three.toml").write_text(HEAD + 'extends = "./one.toml"\n')
    problems = check(tmp_path / "one.toml")
    assert any("a cycle" in problem.message for problem in problems)


def test_a_parameter_that_needs_itself_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        HEAD + '[parameters.a]\ntype = "number"\ndefault = "${b + 1}"\n'
        '[parameters.b]\ntype = "number"\ndefault = "${a + 1}"\n'
    )
    with pytest.raises(SettingError, match="needs itself: a needs b needs a"):
        resolve(str(path), ["h"])


def test_two_flows_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + FLOW + "repeat = 2\n")
    with pytest.raises(SettingError, match="two flows or series called 'a'"):
        resolve(str(path), ["h"])


@pytest.mark.parametrize("name", ["rrrul", "tcp_3up", "", "tcp_2up.", "RRUL_BEE"])
def test_a_name_that_no_test_has_is_answered_with_a_near_one_or_with_where_to_look(name: str) -> None:
    with pytest.raises(UnknownTestError, match=r"did you mean|whydrop tests"):
        load(name)
