"""From batch files to runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whydrop.measure.batch import expanding, toml_writing
from whydrop.measure.batch.batch_file import read
from whydrop.measure.batch.expanding import BatchError, Run, Wanted, expand_runs, shuffled
from whydrop.measure.batch.variables import VariableError, expand
from whydrop.runtime.user_files.problems import FileError


def runs_of(tmp_path: Path, text: str, **wanted: Any) -> list[Run]:
    path = tmp_path / "batch.toml"
    path.write_text(text)
    return expand_runs(read([path]), Wanted(time="T", **wanted))


BASE = """
[batch.base]
abstract = true
hosts = "a.example"
length_s = 10
title = "${cc} ${rate} ${repetition}"
variables.rate = "10mbit"
variables.cc = "none"
set.markings = "EF"

[batch.up]
inherits = "base"
test = "nup"
repetitions = 2
for.cc = "c_*"
set.cc_algos = "${cc}"
output = "${batch_name}/${batch_time}"

[argument.c_cubic]
variables.cc = "cubic"

[argument.c_bbr]
variables.cc = "bbr"
hosts = ["b.example", "c.example"]
set.markings = "CS1"

[argument.other]
variables.cc = "reno"
"""


def test_a_batch_runs_each_combination_of_its_arguments_so_many_times(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, BASE)
    assert [(run.arguments, run.repetition) for run in runs] == [
        (("c_cubic",), 1),
        (("c_cubic",), 2),
        (("c_bbr",), 1),
        (("c_bbr",), 2),
    ]
    assert [run.title for run in runs[1:3]] == ["cubic 10mbit 02", "bbr 10mbit 01"]
    assert runs[0].output == "up/T"


def test_an_argument_overrides_settings_and_adds_parameters(tmp_path: Path) -> None:
    cubic, _, bbr, _ = runs_of(tmp_path, BASE)
    assert (cubic.hosts, bbr.hosts) == (("a.example",), ("b.example", "c.example"))
    assert cubic.parameters == {"markings": "EF", "cc_algos": "cubic", "length_s": 10.0}
    assert bbr.parameters == {"markings": "CS1", "cc_algos": "bbr", "length_s": 10.0}


def test_a_plain_matrix_needs_no_arguments(tmp_path: Path) -> None:
    runs = runs_of(
        tmp_path,
        '[batch.m]\ntest = "ping"\nhosts = "h"\ntitle = "${n}${x}"\nmatrix = { n = [1, 2.5], x = ["a", true] }\n',
    )
    assert [run.title for run in runs] == ["1a", "1true", "2.5a", "2.5true"]
    assert runs[0].key == "m/n=1,x=a/01"


def test_what_replaces_parameters_forgets_the_inherited_ones(tmp_path: Path) -> None:
    [run] = runs_of(
        tmp_path,
        "[batch.a]\nabstract = true\nset.x = 1\n"
        '[batch.b]\ninherits = "a"\ntest = "ping"\nreplace_set = true\nset.y = 2\n',
    )
    assert run.parameters == {"y": 2}


def test_disabled_is_inherited_and_abstract_is_not(tmp_path: Path) -> None:
    text = (
        '[batch.a]\nabstract = true\ndisabled = true\ntest = "ping"\n[batch.b]\ninherits = "a"\n'
        '[batch.c]\ninherits = "b"\ndisabled = false\n'
    )
    assert [run.batch for run in runs_of(tmp_path, text)] == ["c"]
    with pytest.raises(BatchError, match="'b' is disabled"):
        runs_of(tmp_path, text, batches=["b"])
    with pytest.raises(BatchError, match="'a' is abstract"):
        runs_of(tmp_path, text, batches=["a"])
    with pytest.raises(BatchError, match="no batch is called 'd'"):
        runs_of(tmp_path, text, batches=["d"])
    assert [run.batch for run in runs_of(tmp_path, text, batches=["*"])] == ["c"]


CUTS = """
[batch.a]
test = "ping"
hosts = "h"
repetitions = "${repetitions_${cut}}"
for.queue = "${queues_${cut}}"
matrix.rate = ["${rates_${cut}}", "1gbit"]
[batch.a.variables]
cut = "whole"
repetitions_small = 1
repetitions_whole = 2
queues_small = "codel, pie"
queues_whole = "*"
rates_small = "10mbit"
rates_whole = "10mbit,100mbit"
[argument.codel]
[argument.pie]
[argument.sfq]
"""


def test_a_variable_chooses_among_several_axes(tmp_path: Path) -> None:
    small = runs_of(tmp_path, CUTS, overrides={"cut": "small"})
    rates = ("rate=10mbit", "rate=1gbit")
    assert [run.arguments for run in small] == [(queue, rate) for queue in ("codel", "pie") for rate in rates]
    assert len(runs_of(tmp_path, CUTS)) == 3 * 3 * 2
    with pytest.raises(FileError, match="no argument is called 'code', or matches it; did you mean codel"):
        runs_of(tmp_path, CUTS, overrides={"queues_whole": "code,pie"})
    with pytest.raises(FileError, match="no variable is called 'queues_smal'"):
        runs_of(tmp_path, CUTS, overrides={"cut": "smal"})


def test_a_variable_chooses_among_batches(tmp_path: Path) -> None:
    text = CUTS + '[batch.b]\ninherits = "a"\ndisabled = "${only_whole_${cut}}"\n'
    text += '[batch.b.variables]\nonly_whole_small = true\nonly_whole_whole = "no"\n'
    assert {run.batch for run in runs_of(tmp_path, text)} == {"a", "b"}
    assert {run.batch for run in runs_of(tmp_path, text, overrides={"cut": "small"})} == {"a"}
    with pytest.raises(FileError, match="disabled: 'perhaps': expected true or false"):
        runs_of(tmp_path, text, overrides={"only_whole_whole": "perhaps"})
    said = r"disabled: no variable is called 'only_whole_smal'; did you mean \w+\? \(from \$\{only_whole_\$\{cut\}\}\)"
    with pytest.raises(FileError, match=said):
        runs_of(tmp_path, text, overrides={"cut": "smal"})


def test_what_a_command_prints_can_become_metadata_but_not_that_of_a_monitor(tmp_path: Path) -> None:
    text = '[batch.a]\ntest = "ping"\nhosts = "h"\ncommands = "c"\n[command.c]\nrun = "x"\nmetadata = "q-${host}"\n'
    [run] = runs_of(tmp_path, text + 'kind = "post"\n')
    assert [command.metadata for command in run.commands] == ["q-h"]
    with pytest.raises(FileError, match="command 'c': metadata: a monitor has none"):
        runs_of(tmp_path, text + 'kind = "monitor"\n')


def test_overrides_count_more_than_batches_and_less_than_arguments(tmp_path: Path) -> None:
    overrides = {"hosts": "x.example", "rate": "1mbit", "cc": "y", "set.markings": "AF11", "length_s": "20"}
    cubic, _, bbr, _ = runs_of(tmp_path, BASE, overrides=overrides)
    assert (cubic.hosts, bbr.hosts) == (("x.example",), ("b.example", "c.example"))
    assert cubic.title == "cubic 1mbit 01"
    assert cubic.parameters == {"markings": "AF11", "cc_algos": "cubic", "length_s": 20.0}
    assert len(runs_of(tmp_path, BASE, repetitions=5)) == 10


def test_commands_bring_others_with_them_and_take_variables_of_the_run(tmp_path: Path) -> None:
    [run] = runs_of(
        tmp_path,
        '[batch.a]\ntest = "ping"\nhosts = "h"\ncommands = ["one", "three"]\nvariables = { v = "batch" }\n'
        '[command.one]\nkind = "pre"\nrun = "echo ${v} ${w} $HOME $${HOME}"\nalso = ["two", "one"]\n'
        'essential = "${v_is}"\nvariables = { v = "command", w = "own", v_is = "yes" }\n'
        '[command.two]\ninherits = "base"\nkind = "post"\n[command.base]\nkind = "pre"\nrun = ["rm", "${v}"]\n'
        '[command.three]\nkind = "monitor"\nrun = "x"\ndisabled = true\n',
    )
    assert [(command.name, command.kind, command.run) for command in run.commands] == [
        ("one", "pre", "echo batch own $HOME ${HOME}"),
        ("two", "post", ["rm", "batch"]),
    ]
    assert [command.essential for command in run.commands] == [True, False]


def test_a_lenient_batch_keeps_parameters_that_its_test_does_not_have_as_variables(tmp_path: Path) -> None:
    [run] = runs_of(
        tmp_path, '[batch.a]\ntest = "rrul"\nlenient = true\nset = { icmp = false, qdisc = "pie" }\nlength_s = 9\n'
    )
    assert run.parameters == {"icmp": False, "length_s": 9.0}
    assert run.variables == {"qdisc": "pie"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[batch.a]\ntest = "ping"\ninherits = "b"\n', 3, "no batch is called 'b'"),
        ('[batch.a]\ninherits = "a"\n', 2, "inherits from itself"),
        ('[batch.a]\ninherits = "b"\n[batch.b]\ninherits = "a"\n', 2, "inherits from itself"),
        ('[batch.a]\ntest = "ping"\ncommands = "go"\n', 3, "'go'"),
        ('[batch.a]\ntest = "ping"\nfor.x = "y*"\n', 3, "no argument is called 'y*'"),
        ('[batch.a]\ntest = "ping"\ntitle = "${titel2}"\n', 1, "no variable is called 'titel2'"),
        ('[batch.a]\ntest = "ping"\nvariables = { a = "${b}", b = "${a}" }\n', 1, "needs itself: ${a} needs ${b}"),
        ('[batch.a]\ntest = "ping"\nlength_s = "long"\n', 1, "length_s: 'long': expected a time"),
        ('[batch.a]\nhosts = "h"\n', 1, "expected either test or run"),
        ('[batch.a]\ntest = "ping"\nrepetitions = 0\n', 3, "expected 1 to"),
        ('[batch.a]\ntest = "ping"\nip_version = 5\n', 1, "expected 4 or 6"),
        ('[batch.a]\ntets = "ping"\n', 2, "did you mean test?"),
        ('[batch.a]\ntest = "ping"\nlenght_s = 3\n', 3, "did you mean length_s?"),
        ('[command.a]\nkind = "before"\n', 2, "expected 'pre', 'post' or 'monitor'"),
        ("[command.a]\nrun = 5\n", 2, "expected a command line"),
        ("[batch.a]\nmatrix = 3\n", 2, "expected a table"),
        ('[batch.a]\nrun = "true"\nmatrix.x = []\n', 3, "expected at least one"),
        ('[batch.a]\nrun = "true"\nfor.x = []\n', 3, "expected at least one"),
        ('[batch.a]\nrun = "true"\npause_s = 1e300\n', 1, "expected 0 to 366\xa0d (a year)"),
        (f'[batch.a]\nrun = "true"\nmatrix.x = [1{"0" * 5000}]\n', 3, "digits"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(FileError) as refused:
        runs_of(tmp_path, text)
    assert line in {problem.line for problem in refused.value.problems}
    assert words in str(refused.value)


def test_a_mistake_that_every_run_of_a_large_matrix_has_is_named_once(tmp_path: Path) -> None:
    text = f'[batch.a]\nrun = "echo ${{n}} ${{nope}}"\nmatrix.n = {list(range(50))}\nmatrix.m = {list(range(50))}\n'
    with pytest.raises(FileError) as refused:
        runs_of(tmp_path, text)
    [problem] = refused.value.problems
    assert problem.message.startswith("no variable is called 'nope'")
    assert problem.message.endswith("(with n=0, m=0, and with others)")


def test_runs_of_all_batches_together_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expanding, "_MOST_RUNS", 5)
    one = '[batch.{}]\nrun = "true"\nrepetitions = 4\n'
    assert len(runs_of(tmp_path, one.format("a"))) == 4
    with pytest.raises(BatchError, match="more than 5 runs in all"):
        runs_of(tmp_path, one.format("a") + one.format("b"))


def _inheriting(levels: int) -> str:
    below = "".join(f'[batch.b{n}]\nabstract = true\ninherits = "b{n - 1}"\n' for n in range(1, levels))
    return f'[batch.b0]\nabstract = true\nrun = "true"\n{below}[batch.last]\ninherits = "b{levels - 1}"\n'


def _nested(levels: int) -> str:
    variables = "".join(f'v{n} = "${{v{n + 1}}}"\n' for n in range(levels))
    return f'[batch.b]\nrun = "echo ${{v0}}"\n[batch.b.variables]\n{variables}v{levels} = "x"\n'


@pytest.mark.slow
@pytest.mark.parametrize(("text", "few", "many"), [(_inheriting, 50, 2000), (_nested, 90, 2000)])
def test_no_file_is_too_deep_to_be_refused_in_one_line(
    tmp_path: Path, text: Callable[[int], str], few: int, many: int
) -> None:
    assert len(runs_of(tmp_path, text(few))) == 1
    with pytest.raises(FileError, match=r"through more than \d+ levels") as refused:
        runs_of(tmp_path, text(many))
    assert len(refused.value.problems) == 1


def test_what_inherits_from_a_circle_is_not_the_circle_itself(tmp_path: Path) -> None:
    text = (
        '[batch.a]\ninherits = "b"\n[batch.b]\ninherits = "c"\n[batch.c]\ninherits = "a"\n[batch.d]\ninherits = "a"\n'
    )
    with pytest.raises(FileError) as refused:
        runs_of(tmp_path, text)
    assert [problem.message for problem in refused.value.problems] == [
        f"inherits from itself: {circle}"
        for circle in ("a from b from c from a", "b from c from a from b", "c from a from b from c")
    ]


def test_a_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    assert len(runs_of(tmp_path, '\ufeff[batch.a]\nrun = "true"\n')) == 1


def test_later_files_add_to_and_replace_tables_of_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(BASE)
    (tmp_path / "two.toml").write_text('[argument.c_bbr]\nvariables.cc = "bbr2"\n')
    runs = expand_runs(read([tmp_path / "one.toml", tmp_path / "two.toml"]), Wanted(time="T"))
    assert {run.title.split()[0] for run in runs} == {"cubic", "bbr2"}


def test_a_seed_alone_decides_the_order(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, BASE, repetitions=20)
    assert shuffled(runs, 7) == shuffled(runs, 7)
    assert shuffled(runs, 7) != shuffled(runs, 8)
    assert sorted(run.key for run in shuffled(runs, 7)) == sorted(run.key for run in runs)


# --- random files ---

WORDS = st.text(alphabet="abcde", min_size=1, max_size=4)


@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=3, unique=True), max_size=3),
    st.integers(1, 3),
)
def test_the_runs_are_the_product_of_the_axes_each_once(axes: list[list[str]], repetitions: int) -> None:
    from whydrop.measure.batch.batch_file import Table, Tables

    said = {
        "test": "ping",
        "repetitions": repetitions,
        "matrix": {f"v{number}": values for number, values in enumerate(axes)},
        "title": " ".join(f"${{v{number}}}" for number in range(len(axes))) + " ${repetition}",
    }
    table = Table("batch", "b", said, "x.toml", Path(), {})
    runs = expand_runs(Tables({("batch", "b"): table}, True, ()), Wanted())
    assert len({run.key for run in runs}) == len(runs)
    assert {run.title for run in runs} == {
        " ".join(choice) + f" {repetition:02d}" for *choice, repetition in product(*axes, range(1, repetitions + 1))
    }


@pytest.mark.slow
@given(
    st.dictionaries(WORDS, st.lists(st.one_of(WORDS.map(lambda name: f"${{{name}}}"), WORDS), max_size=3)), st.data()
)
def test_a_text_expands_as_the_slow_way_does_or_says_which_variable_is_at_fault(
    table: dict[str, list[str]], data: st.DataObject
) -> None:
    values = {name: "".join(parts) for name, parts in table.items()}
    start = f"${{{data.draw(st.sampled_from(sorted(values)))}}}" if values else "x"

    def slowly(text: str) -> str | None:
        """Replace the first variable again and again; too often means a circle."""
        for _ in range(2000):
            place = text.find("${")
            if place < 0:
                return text
            end = text.index("}", place)
            name = text[place + 2 : end]
            if name not in values or len(text) > 20_000:
                return None
            text = text[:place] + values[name] + text[end + 1 :]
        return None

    wanted = slowly(start)
    if wanted is not None:
        assert expand(start, values) == wanted
        return
    with pytest.raises(VariableError, match=r"needs itself|no variable is called"):
        expand(start, values)


@given(
    st.text(alphabet="${}ab", max_size=12),
    st.dictionaries(st.sampled_from("ab"), st.text(alphabet="${}ab", max_size=8)),
)
def test_any_text_with_any_variables_expands_or_is_refused(text: str, values: dict[str, str]) -> None:
    try:
        assert isinstance(expand(text, values), str)
    except VariableError:
        return


@given(st.randoms(use_true_random=False))
def test_the_order_in_which_tables_are_written_does_not_matter_to_inheritance(shuffler: random.Random) -> None:
    import tempfile

    tables = {
        "top": {"abstract": True, "title": "top", "variables": {"a": "1", "b": "1"}},
        "left": {"abstract": True, "inherits": ["top"], "variables": {"a": "2"}},
        "right": {"abstract": True, "inherits": ["top"], "title": "right", "variables": {"b": "3"}},
        "end": {"inherits": ["left", "right"], "test": "ping", "note": "${a}${b}"},
    }
    names = list(tables)
    shuffler.shuffle(names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.toml"
        path.write_text(toml_writing.document({"batch": {name: tables[name] for name in names}}))
        [run] = expand_runs(read([path]), Wanted())
    assert (run.title, run.note) == ("right", "23")
