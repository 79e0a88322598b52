"""Recordings that stay open: their plots, alone, overlaid, side by side or combined, and their comparison in words."""

from __future__ import annotations

import contextlib
import copy
import io
import re
import time
import zipfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.errors import Mistake
from whydrop.show.document import Choice, Document, Text
from whydrop.show.figure import Figure
from whydrop.show.plots.options import PlotOptions

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording


_OWN_KEYS = ("title", "name", "batch")
# Sides of a comparison in words: each has a table of all metrics.
_MOST_SIDES = 12
# From one report of progress to the next.
_TELL_EVERY_S = 0.2


class Comparison:
    """One recording or more."""

    def __init__(self, emit: Callable[[Any], None], sources: Sequence[str], kept: Sequence[str] = ()) -> None:
        """Open the recordings.

        Args:
            emit: takes the progress: ``done`` of ``of`` recordings.
            sources: their paths.
            kept: folders of the indexes of folders, where it is kept which series recordings have.
        """
        from whydrop.api.recordings import opened

        self._emit = emit
        self._kept = [Path(one) for one in kept]
        self._recordings = opened(sources)
        self._page: dict[str, Any] | None = None

    def close(self) -> None:
        """Nothing is to be kept."""

    def page(self) -> dict[str, Any]:
        """Names of the recordings as pictures have them, keys in which they differ, and the plots that there are."""
        # It is asked for once to know that everything is read, and once by each page.
        self._page = self._page or self._described()
        return self._page

    def _described(self) -> dict[str, Any]:
        from whydrop.recording.comparing.metadata_difference import differences
        from whydrop.show import labels

        names = labels.of_recordings(self._recordings)
        title = names[0] if len(names) == 1 else f"{len(names)} recordings"
        found = {one.key: one.values for one in differences([one.metadata for one in self._recordings])}
        # Keys that make groups have some value more than once.
        keys = [key for key, values in found.items() if key not in _OWN_KEYS and len(set(values)) < len(values)]
        splits = [split for key in ("title", *keys) if (split := self._split(key, names)) is not None]
        return {
            "title": title, "labels": names, "keys": [*_OWN_KEYS, *keys], "splits": splits, "plots": self._plots()
        }  # fmt: skip

    def _split(self, key: str, names: Sequence[str]) -> dict[str, str] | None:
        """The two sets that a key with two values makes, the value of the first recording first."""
        from whydrop.recording.comparing.grouping import grouped

        groups = grouped(self._recordings, names, (key,))
        if len(groups) != 2:
            return None
        second = set(groups[1].members)
        sets = "".join("b" if place in second else "a" for place in range(len(names)))
        return {"words": f"{key}: A {groups[0].name}, B {groups[1].name}", "sets": sets}

    def words(self, sets: str, group_by: Sequence[str], pair_by: Sequence[str]) -> dict[str, str]:
        """The comparison in words, as HTML: the answer, and the details; of one recording, its statistics.

        Args:
            sets: a letter for each recording: ``a`` or ``b``, ``x`` for the axes only, ``-`` for none of these.
            group_by: keys of the metadata, where the sides are not sets.
            pair_by: keys of the metadata by which recordings of the two sets are pairs.

        Raises:
            Mistake: they cannot be compared like this.
        """
        from whydrop.show import comparison, recordings

        letters = _letters(sets, len(self._recordings))
        shown = [one for one, letter in zip(self._recordings, letters, strict=True) if letter != "x"]
        if len(shown) == 1:
            from whydrop.recording.metrics.summary import Summary

            return {"answer": "", "details": _html(recordings.document(Summary(shown[0])))}
        if not group_by and len(shown) > _MOST_SIDES and not {"a", "b"} & set(letters):
            hint = (
                f"These are too many to compare each with the first one (at most {_MOST_SIDES}): put them into sets A "
                "and B, or group them by a key."
            )
            return {"answer": _html(Document("", (Text(hint),))), "details": ""}
        found = self._compared(letters, shown, group_by, pair_by)
        return {"answer": _html(comparison.answer(found)), "details": _html(comparison.details(found))}

    def _compared(
        self, letters: str, shown: Sequence[Recording], group_by: Sequence[str], pair_by: Sequence[str]
    ) -> Any:
        from whydrop.recording.comparing import comparison, pairs
        from whydrop.recording.comparing.grouping import Side, sides
        from whydrop.show import labels

        before, after = (
            [one for one, letter in zip(self._recordings, letters, strict=True) if letter == own] for own in "ab"
        )
        if before and after:
            two = Side("A", tuple(before)), Side("B", tuple(after))
            if pair_by:
                return pairs.paired(*two, labels.of_recordings([*before, *after]), pair_by)
            return comparison.compare(two)
        if before or after:
            raise Mistake(f"set {'B' if before else 'A'} is empty: put a recording into it, or empty the other set too")
        found = sides(shown, labels.of_recordings(shown), group_by)
        if len(found) > _MOST_SIDES:
            raise Mistake(
                f"{len(found)} groups are too many to compare each with the first (at most {_MOST_SIDES}): group by a "
                "key with fewer values, or put recordings into sets A and B"
            )
        return comparison.compare(found)

    def _plots(self) -> list[dict[str, Any]]:
        """Names and titles of the plots with something to draw, the usual one first."""
        from whydrop.show.plots import building

        kinds = self._kinds()
        found = building.available(kinds)
        usual = building.default(kinds)
        names = [usual, *(name for name in found if name != usual)]
        plots = {name: found[name] for name in names if name in found}
        return [
            {"name": name, "title": plot.title, "kind": plot.kind, "combine": plot.combine or ""}
            for name, plot in plots.items()
        ]

    def _kinds(self) -> list[Recording]:
        """One recording for each set of series."""
        from whydrop.show.plots import choosing
        from whydrop.web.work.kept_kinds import KeptKinds

        with KeptKinds(self._kept) as kept:
            count = iter(range(1, len(self._recordings) + 1))
            last_s = time.monotonic()

            def kind(recording: Recording) -> Hashable:
                nonlocal last_s
                found, done = kept.kind_of(recording), next(count)
                if time.monotonic() - last_s > _TELL_EVERY_S:
                    last_s = time.monotonic()
                    self._emit({"done": done, "of": len(self._recordings)})
                return found

            return choosing.distinct(self._recordings, kind)

    def figures(
        self,
        plot: str,
        options: Mapping[str, Any],
        words: Mapping[str, Any],
        columns: int,
        window: tuple[float, float] | None,
    ) -> bytes:
        """The pictures of a plot as the page's script reads them (:func:`whydrop.show.embedding.binary`).

        Args:
            plot: its name.
            options: those of :class:`whydrop.show.plots.options.PlotOptions`, with the place of a recording in
                ``baseline``, and ``sets`` as of :meth:`words`.
            words: ``title`` and ``note`` of the reader.
            columns: the resolution of a panel.
            window: of time, in seconds.

        Raises:
            Error: there is no such plot, or nothing to draw.
        """
        from whydrop.show import embedding

        figures = self._drawn(plot, options, words)
        cells = {}
        with contextlib.suppress(Mistake):
            cells = dict.fromkeys([one.key for one in figures], self._cell(plot, options, words))
        return embedding.binary("plot", Choice(figures, cells=cells), columns, window)

    def picture(
        self, plot: str, options: Mapping[str, Any], words: Mapping[str, Any], kind: str, figure: str = ""
    ) -> tuple[str, bytes]:
        """A plot as a file: ``png``, ``svg``, ``pdf``, ``csv``, ``json``, ``html``; ``py`` is a cell of a notebook.

        Several pictures are in a ZIP file.

        Args:
            plot: its name.
            options: as of :meth:`figures`.
            words: ``title`` and ``note`` of the reader, and whether there is a ``legend``.
            kind: the format.
            figure: the key of one of several pictures; by default all.

        Returns:
            The name of the file, and its content.

        Raises:
            Mistake: no picture has this key.
        """
        from whydrop.show import html
        from whydrop.show.writing import rendered

        if kind == "py":
            return f"{plot}.py", self._cell(plot, options, words).encode()
        figures, legend = self._drawn(plot, options, words), words["legend"]
        figures = [one for one in figures if figure in ("", one.key)]
        if not figures:
            raise Mistake(f"{plot} has no picture {figure!r}: draw it again")
        if len(figures) == 1:
            return f"{plot}.{kind}", rendered(figures[0], kind, legend=legend)
        if kind == "html":
            return f"{plot}.html", html.page_of_figures(figures, legend=legend).encode()
        return f"{plot}.zip", _zipped([(one.key, rendered(one, kind, legend=legend)) for one in figures], kind)

    def _at(self, place: int) -> Recording:
        """The recording at a place.

        Raises:
            Mistake: there is none.
        """
        count = len(self._recordings)
        if place >= count:
            raise Mistake(f"recording {place + 1} is not there: this comparison has {count}")
        return self._recordings[place]

    def _cell(self, plot: str, options: Mapping[str, Any], words: Mapping[str, Any]) -> str:
        """The Python that draws the same picture."""
        asked = {name: value for name, value in options.items() if value or name in ("cut", "from_zero")}
        letters = _letters(asked.pop("sets", ""), len(self._recordings))
        if "set" in (*asked.get("group_by", ()), *asked.get("panel_by", ()), *asked.get("figure_by", ())):
            raise Mistake("sets of the page are not in the recordings, so no cell can group by them: group by a key")
        where = [str(one.path.resolve()) for one in self._recordings]
        if "baseline" in options and options["baseline"] is not None:
            asked["baseline"] = str(self._at(options["baseline"]).path.resolve())
        if "limits" in asked:
            asked["limits"] = [(one.low, one.high, one.unit) for one in asked["limits"]]
        asked |= {name: words[name] for name in ("title", "note") if words.get(name) is not None}
        found = {
            "drawn": [path for path, letter in zip(where, letters, strict=True) if letter != "x"],
            "scale": [path for path, letter in zip(where, letters, strict=True) if letter == "x"],
        }
        return _call(plot, found, {name: value for name, value in asked.items() if value is not None})

    def _drawn(self, plot: str, options: Mapping[str, Any], words: Mapping[str, Any]) -> list[Figure]:
        """The pictures of a plot, of all recordings but those for the axes only."""
        from whydrop.show.plots import building

        asked = dict(options)
        letters = _letters(asked.pop("sets", ""), len(self._recordings))
        scale = [one for one, letter in zip(self._recordings, letters, strict=True) if letter == "x"]
        baseline = asked.pop("baseline", None)
        drawn = [_in_set(one, letter) for one, letter in zip(self._recordings, letters, strict=True) if letter != "x"]
        if not drawn:
            raise Mistake("every recording is there for the axes only: choose one to be drawn")
        read = PlotOptions(
            **asked,
            scale=scale,
            baseline=None if baseline is None else self._at(baseline),
        )
        return [one.titled(words.get("title")).noted(words.get("note")) for one in building.figures(plot, drawn, read)]


def _call(plot: str, paths: Mapping[str, Sequence[str]], arguments: Mapping[str, Any]) -> str:
    """A cell of a notebook that draws a plot."""
    given = [*map(repr, paths["drawn"]), f"name={plot!r}"]
    given += [f"{name}={value!r}" for name, value in arguments.items()]
    if paths["scale"]:
        given.append(f"scale={paths['scale']!r}")
    inside = "".join(f"    {one},\n" for one in given)
    return f"import whydrop\n\nwhydrop.plot(\n{inside})\n"


def _html(document: Document) -> str:
    """The parts of a document, in a page that has its own heading."""
    from whydrop.show import html

    return "\n".join(map(html.fragment, document.parts))


def _letters(sets: str, count: int) -> str:
    """One letter for each recording; those without one are in no set.

    >>> _letters("ab", 4)
    'ab--'
    """
    return sets[:count].ljust(count, "-")


def _in_set(recording: Recording, letter: str) -> Recording:
    """The recording with its set in the metadata, where groups can be made of it."""
    if letter not in "ab":
        return recording
    made = copy.copy(recording)
    made.metadata = {**recording.metadata, "set": letter.upper()}
    return made


def _zipped(contents: Sequence[tuple[str, bytes]], kind: str) -> bytes:
    """Files in a ZIP file; keys are words from recordings, and no paths."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (key, content) in enumerate(contents, 1):
            name = re.sub(r"[^\w.-]+", "-", key).strip("-.")[:80]
            archive.writestr(f"{number:02}-{name}.{kind}", content)
    return made.getvalue()
