"""The answers of the tools: plain values, bounded in size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import whydrop
from whydrop.errors import Mistake
from whydrop.explaining import windows
from whydrop.explaining.citing import with_frame_numbers
from whydrop.formats.kinds import is_recording, is_store
from whydrop.mcp.bounding import bounded
from whydrop.mcp.folders import Folders
from whydrop.store.store import Store

if TYPE_CHECKING:
    import polars

    from whydrop.show.figure import Figure

Progress = Callable[[int, int], None]

# Explanations that are kept: each holds its packets.
_MOST_KEPT = 4
_LATEST_NS = (1 << 63) - 1
_CROSSING = ["hop", "direction", "sent_ns", "sequence", "frame_number_1", "frame_number_2"]
# Packets that a verdict cites, and rows of a table at most.
_CITED = 10
MOST_ROWS = 200
# A picture in the answer to a model; it is drawn smaller until it fits.
_SIZES = ((1000, 700), (700, 500), (500, 350))
_MOST_PICTURE_BYTES = 1_000_000


@dataclass(frozen=True)
class Selection:
    """The part of a capture that is analysed: a display filter, and seconds since the first packet."""

    filter: str | None = None
    begin_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Picture:
    """A figure as PNG, and its words."""

    png: bytes
    words: dict[str, Any]


class Answers:
    """Answers about the files of some folders."""

    def __init__(self, folders: Folders) -> None:
        """No explanation yet; the last few are kept, as questions about one capture come one after another."""
        self._folders = folders
        self._explained: dict[object, whydrop.Explanation] = {}

    def list_files(self, containing: str = "") -> Any:
        """Captures, recordings and stores."""
        return bounded({"files": [asdict(one) for one in self._folders.listed(containing)]})

    def open(self, path: str, selection: Selection = Selection()) -> Any:
        """The contents of a file; of a capture those that are selected."""
        found = self._folders.find(path)
        if is_store(found):
            return bounded({"kind": "store", "contents": Store.open(found).contents()})
        if is_recording(found):
            return bounded({"kind": "recording", "plots": list(whydrop.plot_names(found)), **whydrop.summary(found)})
        document = self._explanation([path], selection).document
        flows = [{"number": number, **_without(one, "limits")} for number, one in enumerate(document["flows"])]
        return bounded({"kind": "capture", "captures": document["captures"], "flows": flows})

    def explain(self, paths: Sequence[str], selection: Selection, progress: Progress | None = None) -> Any:
        """Verdicts with evidence, rejected causes and advice; lost packets by number."""
        found = self._explanation(paths, selection, progress)
        document = found.document
        verdicts = [
            {**_without(one, "models"), "lost_packets": self._cited(paths, found, one)} for one in document["verdicts"]
        ]
        return bounded({
            "captures": [capture["path"] for capture in document["captures"]],
            "verdicts": verdicts,
            "notes": [note for capture in document["captures"] for note in capture["notes"]],
            "flows": len(document["flows"]),
            "transfers": document["transfers"],
        })  # fmt: skip

    def segments(self, path: str, flow: int, fate: str | None, selection: Selection, most: int) -> Any:
        """Data packets of a flow, each with its number, its fate and its round-trip time."""
        import polars as pl

        found = self._explanation([path], selection)
        segments = found.table("segments").filter(pl.col("flow") == flow)
        if segments.is_empty():
            raise Mistake(f"flow {flow} has no data packets here; the tool open lists the flows with their numbers")
        if fate is not None:
            segments = segments.filter(pl.col("fate") == fate)
        shown = segments.head(min(most, MOST_ROWS))
        return bounded({
            "flow": found.flows[flow].flow,
            "rows": self._numbered(path, found, shown).to_dicts(),
            "more_rows": segments.height - shown.height,
        })  # fmt: skip

    def packets(self, path: str, selection: Selection, most: int) -> Any:
        """Packets as captured."""
        read = whydrop.packets(
            self._folders.find(path), most=min(most, MOST_ROWS),
            filter=selection.filter, begin=selection.begin_s, end=selection.end_s,
        )  # fmt: skip
        return bounded({"rows": read.table.to_dicts(), "has_more": read.has_more, "notes": read.notes})

    def figure(self, path: str, name: str) -> Picture:
        """A chart of a capture, or a plot of a recording."""
        from whydrop.show.writing import rendered

        figure = self._figure(path, name)
        for size in _SIZES:
            png = rendered(figure, "png", size=size)
            if len(png) <= _MOST_PICTURE_BYTES:
                break
        else:
            raise Mistake(f"the picture {name!r} has {len(png)} bytes; {_MOST_PICTURE_BYTES} are allowed")
        return Picture(png, {"title": figure.title, "subtitle": figure.subtitle, "notes": figure.footnotes()})

    def _figure(self, path: str, name: str) -> Figure:
        found = self._folders.find(path)
        if is_recording(found):
            from whydrop.api.recordings import opened
            from whydrop.show.plots import building
            from whydrop.show.plots.options import PlotOptions

            return next(iter(building.figures(name, opened([found]), PlotOptions())))
        from whydrop.show import charts

        explanation = self._explanation([path], Selection())
        return charts.figure(explanation, name, charts.choose_flow(explanation, None))

    def _explanation(
        self, paths: Sequence[str], selection: Selection, progress: Progress | None = None
    ) -> whydrop.Explanation:
        found = [self._folders.find(path) for path in paths]
        key = (*((path, path.stat().st_mtime_ns) for path in found), selection)
        if key not in self._explained:
            while len(self._explained) >= _MOST_KEPT:
                del self._explained[next(iter(self._explained))]
            self._explained[key] = whydrop.explain(
                *found, progress=progress, filter=selection.filter, begin=selection.begin_s, end=selection.end_s
            )
        return self._explained[key]

    def _cited(self, paths: Sequence[str], found: whydrop.Explanation, verdict: dict[str, Any]) -> Any:
        """The first lost packets of the flows of a verdict, with the numbers of their frames."""
        import polars as pl

        if not found.flows or not verdict.get("lost"):
            return []
        if found.path_segments:
            # Packets that left one capture and never reached the next.
            lost, _ = windows.crossed(found, 0, _LATEST_NS, flows=verdict["flows"], lost=True, most=_CITED)
            return lost[_CROSSING].to_dicts()
        numbers = [number for number, flow in enumerate(found.flows) if flow.flow in set(verdict["flows"])]
        lost = found.table("segments").filter(pl.col("flow").is_in(numbers), pl.col("fate") == "lost").head(_CITED)
        return self._numbered(paths[0], found, lost)["flow", "frame_number", "time_ns", "sequence"].to_dicts()

    def _numbered(self, path: str, found: whydrop.Explanation, rows: polars.DataFrame) -> polars.DataFrame:
        return with_frame_numbers(found, [self._folders.find(path)], rows)


def _without(one: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != key}
