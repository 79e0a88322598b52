"""A document as the parts of a page: its HTML, and its figures as they are looked at."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from whydrop.show.document import Choice, Document, Figures


class Pages:
    """The parts of a page that shows a document."""

    def __init__(self, document: Document) -> None:
        """Of a document. Its figures are in sections with a key."""
        self._document = document

    def page(self) -> dict[str, Any]:
        """The title, the HTML of everything but the figures' data, and the names of the sets of figures by section."""
        from whydrop.show import html

        choices = {part: [choice.name for choice in figures.choices] for part, figures in self._figures.items()}
        return {"title": self._document.title, "html": html.inside(self._document), "choices": choices}

    def figures(self, part: str, choice: int, columns: int, window: tuple[float, float] | None) -> bytes:
        """The figures of a section of the page as its script reads them (:func:`whydrop.show.embedding.binary`).

        Raises:
            ValueError: there is no such section, or no such set of figures in it.
        """
        from whydrop.show import embedding

        return embedding.binary(part, self.choice(part, choice), columns, window)

    def choice(self, part: str, choice: int) -> Choice:
        """A set of figures of a section.

        Raises:
            ValueError: there is no such section, or no such set of figures in it.
        """
        if part not in self._figures or choice >= len(self._figures[part].choices):
            raise ValueError(
                f"no figures {part!r} with number {choice}; sections with figures: {', '.join(self._figures)}"
            )
        return self._figures[part].choices[choice]

    @cached_property
    def _figures(self) -> dict[str, Figures]:
        from whydrop.show import html

        return dict(html.figures_of(self._document))
