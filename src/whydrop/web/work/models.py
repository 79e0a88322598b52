"""Paths that a reader tries by hand, replayed over the packets of the verdicts of an analysis."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from whydrop.show.document import Choice

if TYPE_CHECKING:
    import polars

    from whydrop.explaining.document import Model
    from whydrop.explaining.explained import Explained
    from whydrop.explaining.replaying import Replays

    Replayed = tuple[Model, polars.DataFrame]

# Verdicts of which the packets are kept ready for a replay: a reader looks at one or two.
_MOST_READY = 2


class Models:
    """The models of a reader."""

    def __init__(self, found: Explained, sources: Sequence[str], selection: Mapping[str, Any]) -> None:
        """Of an explanation; nothing is replayed yet.

        Args:
            found: the explanation.
            sources: that were explained.
            selection: of their packets, as :func:`whydrop.explain` takes it.
        """
        self._found = found
        self._command = _command(sources, selection)
        self._ready: dict[int, tuple[Replays, Replayed | None]] = {}
        self._last: tuple[tuple[int, str], Replayed] | None = None

    def offered(self) -> dict[str, Any]:
        """The elements of paths, and the verdicts with packets: how many, and the fitted path as text."""
        from whydrop import _core
        from whydrop.explaining.replaying import readable

        verdicts = [
            {"verdict": number, "packets": packets, "fitted": None if path is None else readable(path)}
            for number, packets in self._packets()
            for path in [self._found.verdicts[number].path]
        ]
        return {"elements": _core.elements(), "verdicts": verdicts}

    def _packets(self) -> list[tuple[int, int]]:
        """The verdicts with packets, and how many: those of the model that won, or else those without a model."""
        import polars as pl

        if self._found.recordings:
            return []
        of_each = self._found.table("model").group_by("verdict").agg(fitted=(~pl.col("rival")).sum(), rows=pl.len())
        packets = pl.when(pl.col("fitted") > 0).then("fitted").otherwise("rows")
        return of_each.sort("verdict").select("verdict", packets).rows()

    def replayed(self, verdict: int, model: str) -> dict[str, Any]:
        """A path over the packets of a verdict: its text, a command, its numbers beside the fit, and a table of them.

        Raises:
            ModelError: the path makes no sense.
            ValueError: the verdict has no packets.
        """
        from whydrop.show import html, pair_words

        text, (given, _), fitted = self._replay(verdict, model)
        models = [given] if fitted is None else [fitted[0], given]
        return {
            "model": text,
            "command": f"{self._command} --model {shlex.quote(text)}",
            "models": [asdict(one) for one in models],
            "html": html.fragment(pair_words.models_beside(models), 3),
        }

    def choice(self, verdict: int, model: str) -> Choice:
        """The figure of a path over the packets of a verdict, beside that of the fit."""
        from whydrop.show.charts import models

        _, given, fitted = self._replay(verdict, model)
        figure = models.tried(given, fitted)
        # A page may have a figure for each verdict.
        figure = replace(figure, key=f"{figure.key}-{verdict}")
        return Choice([figure], origin_s=int(given[1]["time_ns"][0]) / 1e9)

    def _replay(self, verdict: int, model: str) -> tuple[str, Replayed, Replayed | None]:
        """The text of a path, its replay (the last one again where nothing has changed), and the fitted model."""
        from whydrop.explaining import replaying

        path = replaying.described(model)
        own = (verdict, path[1])
        replays, fitted = self._of_verdict(verdict)
        if self._last is None or self._last[0] != own:
            self._last = own, _replayed(replays, path, "given")
        return path[1], self._last[1], fitted

    def _of_verdict(self, verdict: int) -> tuple[Replays, Replayed | None]:
        """The packets of a verdict, and the fitted model over them, if there is one."""
        from whydrop.explaining.replaying import Replays

        if verdict not in self._ready:
            if verdict not in dict(self._packets()):
                raise ValueError(f"verdict {verdict} has no packets to replay: models are for losses and queues")
            replays = Replays(self._found, verdict)
            while len(self._ready) >= _MOST_READY:
                del self._ready[next(iter(self._ready))]
            self._ready[verdict] = replays, self._fitted(verdict, replays)
        return self._ready[verdict]

    def _fitted(self, number: int, replays: Replays) -> Replayed | None:
        """The model that won, or the fitted path of a verdict without one."""
        import polars as pl

        from whydrop.explaining import replaying

        path = replaying.missing_fit(self._found.document["verdicts"][number])
        if path is not None:
            return _replayed(replays, path, "fitted")
        winner = next((one for one in self._found.verdicts[number].models if one.role == "winner"), None)
        rows = self._found.table("model").filter(pl.col("verdict") == number, ~pl.col("rival"))
        return None if winner is None or rows.is_empty() else (winner, rows.sort("time_ns", maintain_order=True))


def _replayed(replays: Replays, path: tuple[dict[str, Any], str], role: str) -> Replayed:
    from whydrop.explaining import replaying
    from whydrop.explaining.document import Model

    compared, rows = replays.model(path, role)
    return Model.from_json(compared), replaying.as_model_rows(0, rows)


def _command(sources: Sequence[str], selection: Mapping[str, Any]) -> str:
    """The command that explains the same packets of the same files."""
    options = {"filter": "--filter", "begin": "--from", "end": "--to"}
    given = [
        word for name, option in options.items() if (value := selection.get(name)) is not None
        for word in (option, str(value))
    ]  # fmt: skip
    return shlex.join(["whydrop", "explain", *sources, *given])
