"""Measures a network path, and explains why its packets are lost or delayed.

>>> import whydrop
>>> found = whydrop.explain("examples/policed-download.pcap.zst")
>>> found.verdicts[0].cause
'policer'

`docs/python.md` has a function for each command of the program, with examples. Names are loaded when they are first
used: importing this package takes milliseconds.
"""

from __future__ import annotations

from importlib import import_module

# As type checkers know it; importing typing would take as long as all the rest of this module's start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from whydrop._core import CaptureError, __version__
    from whydrop.act.abilities import Ability, doctor
    from whydrop.api.changing import fix, pace, pace_forget, pace_keep, pace_revert, pace_status
    from whydrop.api.emulating import emulate
    from whydrop.api.explaining import Explanation, explain, predict
    from whydrop.api.measuring import (
        batch,
        batch_plan,
        deploy,
        depth,
        describe_test,
        new_secret,
        responder,
        roll,
        run,
        start,
        tests,
        watch,
        watch_live,
    )
    from whydrop.api.plotting import Plot, plot, plot_names, plot_table
    from whydrop.api.recordings import Statistics, compare, export, import_file, metadata, open, stats, summary
    from whydrop.api.stores import (
        collect,
        collect_once,
        explain_into,
        import_into,
        study,
        study_flow_control,
        study_pauses,
        study_queues,
        study_rollout,
        study_streams,
        study_tcp,
    )
    from whydrop.emulating.emulation import EmulationError
    from whydrop.errors import Error, MissingExtraError
    from whydrop.explaining.document import (
        Against,
        Capture,
        Cause,
        Flow,
        Model,
        Parameter,
        ThroughputLost,
        Transfer,
        Verdict,
    )
    from whydrop.explaining.hints import PairHints
    from whydrop.explaining.matching import Matching, match
    from whydrop.explaining.packets import Packets, packets
    from whydrop.explaining.pair import AfterGap, Changes, ClockInterval, LeftOut, Pair, PairFlow, Transit
    from whydrop.explaining.predicting.changing import ChangeError
    from whydrop.explaining.predicting.described import PathError
    from whydrop.explaining.predicting.prediction import Prediction
    from whydrop.explaining.predicting.running import PredictionError
    from whydrop.explaining.replaying import ModelError
    from whydrop.measure.deploying import Deployed
    from whydrop.measure.handle import Run
    from whydrop.measure.responding import Responder
    from whydrop.monitoring.rolling.kept import Kept
    from whydrop.monitoring.rolling.roll import Roll
    from whydrop.monitoring.switches.states import PortStates, port_history, port_states
    from whydrop.recording.recording import Recording
    from whydrop.store.store import Store

# The module that each public name is loaded from.
_HOMES = {
    name: module
    for module, names in {
        "whydrop._core": "CaptureError __version__",
        "whydrop.act.abilities": "Ability doctor",
        "whydrop.api.emulating": "emulate",
        "whydrop.api.explaining": "Explanation explain predict",
        "whydrop.api.measuring": (
            "batch batch_plan deploy depth describe_test new_secret responder roll run start tests watch watch_live"
        ),
        "whydrop.api.plotting": "Plot plot plot_names plot_table",
        "whydrop.api.recordings": "Statistics compare export import_file metadata open stats summary",
        "whydrop.api.changing": "fix pace pace_forget pace_keep pace_revert pace_status",
        "whydrop.api.stores": (
            "collect collect_once explain_into import_into "
            "study study_flow_control study_pauses study_queues study_rollout study_streams study_tcp"
        ),
        "whydrop.emulating.emulation": "EmulationError",
        "whydrop.errors": "Error MissingExtraError",
        "whydrop.explaining.document": "Against Capture Cause Flow Model Parameter ThroughputLost Transfer Verdict",
        "whydrop.explaining.hints": "PairHints",
        "whydrop.explaining.matching": "Matching match",
        "whydrop.explaining.packets": "Packets packets",
        "whydrop.explaining.pair": "AfterGap Changes ClockInterval LeftOut Pair PairFlow Transit",
        "whydrop.explaining.predicting.described": "PathError",
        "whydrop.explaining.predicting.changing": "ChangeError",
        "whydrop.explaining.predicting.prediction": "Prediction",
        "whydrop.explaining.predicting.running": "PredictionError",
        "whydrop.explaining.replaying": "ModelError",
        "whydrop.measure.deploying": "Deployed",
        "whydrop.measure.handle": "Run",
        "whydrop.measure.responding": "Responder",
        "whydrop.monitoring.switches.states": "PortStates port_history port_states",
        "whydrop.monitoring.rolling.kept": "Kept",
        "whydrop.monitoring.rolling.roll": "Roll",
        "whydrop.recording.recording": "Recording",
        "whydrop.store.store": "Store",
    }.items()
    for name in names.split()
}

__all__ = [
    "Ability",
    "AfterGap",
    "Against",
    "Capture",
    "CaptureError",
    "Cause",
    "ChangeError",
    "Changes",
    "ClockInterval",
    "Deployed",
    "EmulationError",
    "Error",
    "Explanation",
    "Flow",
    "Kept",
    "LeftOut",
    "Matching",
    "MissingExtraError",
    "Model",
    "ModelError",
    "Packets",
    "Pair",
    "PairFlow",
    "PairHints",
    "Parameter",
    "PathError",
    "Plot",
    "PortStates",
    "Prediction",
    "PredictionError",
    "Recording",
    "Responder",
    "Roll",
    "Run",
    "Statistics",
    "Store",
    "ThroughputLost",
    "Transfer",
    "Transit",
    "Verdict",
    "__version__",
    "batch",
    "batch_plan",
    "collect",
    "collect_once",
    "compare",
    "deploy",
    "depth",
    "describe_test",
    "doctor",
    "emulate",
    "explain",
    "explain_into",
    "export",
    "fix",
    "import_file",
    "import_into",
    "match",
    "metadata",
    "new_secret",
    "open",
    "pace",
    "pace_forget",
    "pace_keep",
    "pace_revert",
    "pace_status",
    "packets",
    "plot",
    "plot_names",
    "plot_table",
    "port_history",
    "port_states",
    "predict",
    "responder",
    "roll",
    "run",
    "start",
    "stats",
    "study",
    "study_flow_control",
    "study_pauses",
    "study_queues",
    "study_rollout",
    "study_streams",
    "study_tcp",
    "summary",
    "tests",
    "watch",
    "watch_live",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that holds it."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'whydrop' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
