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


def replay(found: Explained, path: str | Mapping[str, Any], verdict: int = 0) -> polars.DataFrame:
    """The packets of a verdict under a path: see :meth:`whydrop.Explanation.replay`."""
    return _replayed(_packets(found, verdict), described(path)[1])[1]


def with_models(found: _Found, paths: Sequence[str | Mapping[str, Any]]) -> _Found:
    """The explanation with these paths replayed beside the fitted one, in each verdict with rows in ``model``.

    Raises:
        ModelError: a path makes no sense, or no verdict has packets to replay.
    """
    all_described = [described(path) for path in paths]
    document = dict(found.document)
    document["verdicts"] = verdicts = [dict(verdict) for verdict in document["verdicts"]]
    rivals: dict[int, polars.DataFrame] = {}
    for number, verdict in enumerate(verdicts):
        packets = _packets(found, number)
        if packets.is_empty():
            continue
        given = [(*one, "given") for one in all_described]
        if verdict.get("path") and not any(model["role"] == "winner" for model in verdict["models"]):
            given.insert(0, (*described(verdict["path"]), "fitted"))
        fates = "inferred" if found.pair is None else "captured"
        models = list(verdict["models"])
        for as_json, text, role in given:
            compared, frame = _replayed(packets, text)
            models.append({**compared, "role": role, "title": text, "why": None, "path": as_json, "fates": fates})
            if role == "given":
                rivals.setdefault(number, frame)
        verdict["models"] = models
    if not rivals:
        raise ModelError("no verdict has packets to replay: models are for packets that were lost, or queued")
    return type(found)(_Modelled(found, document, rivals))


def _packets(found: Explained, verdict: int) -> polars.DataFrame:
    """The packets of a verdict in order of time, each once, and whether it was lost: null where that is unknown."""
    import polars

    frame = found.table("model").filter(polars.col("verdict") == verdict)
    fitted = frame.filter(~polars.col("rival"))
    frame = (frame if fitted.is_empty() else fitted).sort("time_ns", maintain_order=True)
    lost = polars.col("seen_lost")
    if found.pair is not None:
        # Both captures have a packet that passed, and so its delay.
        lost = polars.when(lost | polars.col("seen_wait_ns").is_not_null()).then(lost)
    return frame.select("time_ns", "flow", "ip_bytes", lost.alias("lost"), "seen_wait_ns")


def _replayed(packets: polars.DataFrame, path: str) -> tuple[dict[str, Any], polars.DataFrame]:
    import polars

    columns = ("time_ns", "ip_bytes", "flow", "lost", "seen_wait_ns")
    compared, table = _core.replay(path, *(packets[name].to_list() for name in columns))
    if packets["seen_wait_ns"].null_count() == packets.height:
        compared["seen_longest_wait_s"] = None
    return compared, packets.hstack(polars.DataFrame(table))


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
        given = [
            rows.select(
                polars.lit(number, polars.UInt32).alias("verdict"), "flow", "time_ns", "level_bytes", "ip_bytes",
                "predicted_drop", polars.col("lost").fill_null(value=False).alias("seen_lost"),
                polars.lit(value=True).alias("rival"), polars.col("predicted_wait_ns").alias("wait_ns"), "seen_wait_ns",
            )
            for number, rows in self._rivals.items()
        ]  # fmt: skip
        others = frame.filter(~(polars.col("rival") & polars.col("verdict").is_in(list(self._rivals))))
        return polars.concat([others, *given])
