"""Tests as data: TOML files that say which flows run when, checked, extended, and resolved to plans.

>>> plan = resolve("tcp_2up", ["192.0.2.1"], {"length_s": "10 s"})
>>> [flow.name for flow in plan.flows if flow.kind == "tcp"]
['TCP upload::1', 'TCP upload::2']
"""

from whydrop.measure.tests.fallbacks import SettingError
from whydrop.measure.tests.loading import Test, UnknownTestError, load, names
from whydrop.measure.tests.resolving import check, resolve
from whydrop.runtime.user_files.problems import FileError, Problem

__all__ = ["FileError", "Problem", "SettingError", "Test", "UnknownTestError", "check", "load", "names", "resolve"]
