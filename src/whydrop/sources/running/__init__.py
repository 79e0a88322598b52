"""Running a plan: its flows in the engine and in other programs, what they measure into a recording."""

from whydrop.sources.running.engine import FarHost
from whydrop.sources.running.run import Finished, Settings, run
from whydrop.sources.running.tally import Failure

__all__ = ["Failure", "FarHost", "Finished", "Settings", "run"]
