"""A model of the path that a user gives, replayed over the packets of an explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from whydrop import _core
from whydrop.errors import Mistake
from whydrop.explaining.explained import ArrowTable, Explained

if TYPE_CHECKING:
    import polars

_Found = TypeVar("_Found", bound=Explained)


class ModelError(Mistake):
    """A model that cannot be replayed; the message says what was wrong and what was expected."""


def described(path: str | Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A path as JSON values and in its text form, from either.

    Raises:
        ModelError: it makes no sense.

    >>> described("policer:burst=80000B,rate=280M")[1]
    'policer:rate=280M,burst=80kB'
    """
    try:
        return _core.path(path if isinstance(path, str) else _core.dumps(path))
    except ValueError as reason:
        raise ModelError(f"model {reason}") from None


def readable(path: Mapping[str, Any]) -> str:
    """The text form of a fitted path with six digits: no fit has more.

    >>> readable({"elements": [{"element": "line", "rate_bps": 20016252.78486129}]})
    'line:rate=20.0163M'
    """
    elements = [{name: _rounded(value) for name, value in element.items()} for element in path["elements"]]
    return described({"elements": elements})[1]


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def replay(found: Explained, path: str | Mapping[str, Any], verdict: int = 0) -> polars.DataFrame:
    """The packets of a verdict under a path: see :meth:`whydrop.Explanation.replay`."""
    return Replays(found, verdict).under(described(path)[1])[1]


class Replays:
    """The packets of a verdict, over which paths are replayed.

    Attributes:
        packets: in order of time, each once, and whether it was lost: null where that is unknown.
    """

    def __init__(self, found: Explained, verdict: int) -> None:
        """Of a verdict by its number; without packets where it concerns no losses and no queue."""
        columns = ("time_ns", "ip_bytes", "flow", "lost", "seen_wait_ns")
        self.packets = _packets(found, verdict)
        self._passages = _core.Passages(*(self.packets[name].to_list() for name in columns))
        self._has_waits = self.packets["seen_wait_ns"].null_count() < self.packets.height
        self._fates = "inferred" if found.pair is None else "captured"

    def under(self, path: str) -> tuple[dict[str, Any], polars.DataFrame]:
        """The packets under a path, and how it compares with what happened to them."""
        import polars

        compared, table = self._passages.replay(path)
        if not self._has_waits:
            compared["seen_longest_wait_s"] = None
        return compared, self.packets.hstack(polars.DataFrame(table))

    def model(self, path: tuple[dict[str, Any], str], role: str) -> tuple[dict[str, Any], polars.DataFrame]:
        """The same with the entry of the path, as :func:`described` has it, in ``models`` of the verdict."""
        as_json, text = path
        compared, rows = self.under(text)
        title = readable(as_json) if role == "fitted" else text
        return {**compared, "role": role, "title": title, "why": None, "path": as_json, "fates": self._fates}, rows


def with_models(found: _Found, paths: Sequence[str | Mapping[str, Any]]) -> _Found:
    """The explanation with these paths replayed beside the fitted one, in each verdict with rows in ``model``.

    Raises:
        ModelError: a path makes no sense.
    """
    all_described = [described(path) for path in paths]
    document = dict(found.document)
    document["verdicts"] = verdicts = [dict(verdict) for verdict in document["verdicts"]]
    rivals: dict[int, polars.DataFrame] = {}
    for number, verdict in enumerate(verdicts):
        replays = Replays(found, number)
        if replays.packets.is_empty():
            continue
        fitted = [] if (path := missing_fit(verdict)) is None else [replays.model(path, "fitted")[0]]
        given = [replays.model(path, "given") for path in all_described]
        verdict["models"] = [*verdict["models"], *fitted, *(model for model, _ in given)]
        if given:
            rivals[number] = given[0][1]
    return type(found)(_Modelled(found, document, rivals))


def is_replayed(found: Explained) -> bool:
    """True if a model of the user was replayed over the packets of any verdict."""
    return any(model.role == "given" for verdict in found.verdicts for model in verdict.models)


def missing_fit(verdict: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
    """The fitted path of a verdict, as :func:`described` has it, where no replay of it is among its models."""
    if verdict.get("path") is None or any(model["role"] == "winner" for model in verdict["models"]):
        return None
    return described(verdict["path"])


def as_model_rows(verdict: int, rows: polars.DataFrame) -> polars.DataFrame:
    """The packets under a path in the columns of the table ``model``."""
    import polars

    return rows.select(
        polars.lit(verdict, polars.UInt32).alias("verdict"), "flow", "time_ns", "level_bytes", "ip_bytes",
        "predicted_drop", polars.col("lost").fill_null(value=False).alias("seen_lost"),
        polars.lit(value=True).alias("rival"), polars.col("predicted_wait_ns").alias("wait_ns"), "seen_wait_ns",
    )  # fmt: skip


def _packets(found: Explained, verdict: int) -> polars.DataFrame:
    import polars

    frame = found.table("model").filter(polars.col("verdict") == verdict)
    fitted = frame.filter(~polars.col("rival"))
    frame = (frame if fitted.is_empty() else fitted).sort("time_ns", maintain_order=True)
    lost = polars.col("seen_lost")
    if found.pair is not None:
        # Both captures have a packet that passed, and so its delay.
        lost = polars.when(lost | polars.col("seen_wait_ns").is_not_null()).then(lost)
    return frame.select("time_ns", "flow", "ip_bytes", lost.alias("lost"), "seen_wait_ns")


class _Modelled:
    """An analysis with models of the user, the first of which stands for the best rival in the table ``model``."""

    def __init__(self, whole: Explained, document: dict[str, Any], rivals: dict[int, polars.DataFrame]) -> None:
        self._whole = whole
        self._document = document
        self._rivals = rivals

    def document(self) -> dict[str, Any]:
        return self._document

    def table(self, name: str) -> ArrowTable:
        import polars

        frame = self._whole.table(name)
        if name != "model":
            return frame
        given = [as_model_rows(number, rows) for number, rows in self._rivals.items()]
        others = frame.filter(~(polars.col("rival") & polars.col("verdict").is_in(list(self._rivals))))
        return polars.concat([others, *given])
