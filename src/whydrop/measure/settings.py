"""Settings of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whydrop.measure.engine import FarHost


@dataclass(frozen=True)
class Settings:
    """How a plan is run, beside what it says itself.

    Attributes:
        output: the folder in which the recording gets a folder of its own.
        hosts: how to reach the far ends; those that are missing are reached by their names.
        redact: hide names and addresses before anything is written.
        batch: what the batch says of itself, for the metadata.
        counters: sample the counters of this host's queues, interfaces and processors meanwhile.
        fallback: where the recording goes if ``output`` takes no more.
    """

    output: Path = Path()
    hosts: Sequence[FarHost] = ()
    title: str = ""
    note: str = ""
    redact: bool = False
    batch: Mapping[str, Any] | None = None
    counters: bool = True
    fallback: Path | None = None
