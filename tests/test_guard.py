"""A panic of the extension module becomes an error that says where the defect is."""

from __future__ import annotations

import types
from typing import Any

import pytest

import whydrop
from example_files import POLICED, Run
from whydrop import _core
from whydrop.errors import DefectError

# In builds with assertions only, which those of the tests are.
core: Any = _core
panics = pytest.mark.skipif(not hasattr(_core, "_panic"), reason="built without assertions")


@panics
@pytest.mark.parametrize("call", [lambda: core._panic("on\npurpose"), lambda: core._Panicking().panics("on purpose")])
def test_a_panic_is_an_error_for_users_with_its_place(call: Any, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(DefectError) as raised:
        call()
    assert isinstance(raised.value, whydrop.Error)
    message = str(raised.value)
    assert message.startswith("a defect of whydrop at crates/python/src/guard.rs:")
    assert "(on purpose). Please report it" in message
    assert "\n" not in message
    assert capfd.readouterr() == ("", "")


@panics
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_command_that_meets_a_panic_ends_with_one_line(
    monkeypatch: pytest.MonkeyPatch, run_here: Run, options: list[str]
):
    monkeypatch.setattr(_core, "explain", lambda *_, **__: core._panic("on purpose"))
    done = run_here("explain", POLICED, *options)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("whydrop: a defect of whydrop at crates/python/src/guard.rs:")


def test_every_function_and_method_is_behind_the_boundary():
    def bare(owner: Any) -> list[str]:
        kinds = (types.BuiltinFunctionType, types.MethodDescriptorType)
        return [name for name, member in vars(owner).items() if isinstance(member, kinds) and name != "__new__"]

    assert bare(_core) == []
    classes = [member for member in vars(_core).values() if isinstance(member, type)]
    assert _core.Table in classes
    assert {one.__name__: bare(one) for one in classes if bare(one)} == {}


def test_what_python_raises_and_returns_passes_the_boundary():
    assert _core.dumps({"a": 1}) == '{"a":1}'
    with pytest.raises(whydrop.CaptureError, match="nowhere"):
        _core.explain(["nowhere.pcap"])
    with pytest.raises(TypeError):
        core.explain()
    assert core.explain.__name__ == "explain"
