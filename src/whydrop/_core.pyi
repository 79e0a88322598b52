from collections.abc import Callable, Sequence
from os import PathLike

__version__: str

class CaptureError(Exception): ...

class Table:
    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Analysis:
    def json(self, *, pretty: bool = False) -> str: ...
    def table(self, name: str) -> Table: ...

def explain(
    paths: Sequence[str | PathLike[str]],
    *,
    tables: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Analysis: ...
def explain_pair(
    paths: Sequence[str | PathLike[str]],
    *,
    tables: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Analysis: ...
def match_pair(
    paths: Sequence[str | PathLike[str]],
    *,
    tables: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Analysis: ...
