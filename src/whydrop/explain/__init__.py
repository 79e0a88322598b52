"""Verdicts in words: what the analysis finds in codes and numbers, written for people. All prose is made here.

:mod:`~whydrop.explain.phrases` has a phrase for each code of a fact, :mod:`~whydrop.explain.sentences` a sentence for
each headline, :mod:`~whydrop.explain.advice` what to do about a cause, :mod:`~whydrop.explain.numbers` writes the
numbers in them, and :mod:`~whydrop.explain.completing` puts all of it into the document of the JSON contract.

The public function :func:`whydrop.explain` has the name of this package. So the package can be called, too: whichever
of the two ``whydrop.explain`` names at a moment, it explains a capture.
"""

from __future__ import annotations

import sys

# As type checkers know it: importing typing would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Callable(type(sys)):  # type: ignore[misc]
    def __call__(self, path: Any, **options: Any) -> Any:
        from whydrop.api import explain

        return explain(path, **options)


sys.modules[__name__].__class__ = _Callable
