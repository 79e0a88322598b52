"""Sampling over long times, into a store."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """This package has the name of a public function: called, it is that function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        import whydrop

        return whydrop._loaded("collect")(*arguments, **options)


sys.modules[__name__].__class__ = _Room
