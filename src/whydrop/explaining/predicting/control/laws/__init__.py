"""The laws of Linux's congestion controls, one class each."""

from __future__ import annotations

from whydrop.explaining.predicting.control.laws.cubic import Bic, Cubic, CubicWithoutHyStart
from whydrop.explaining.predicting.control.laws.delay import Illinois, IllinoisOfBusyHost, Vegas, Veno, Yeah
from whydrop.explaining.predicting.control.laws.early import Cdg, Lp, Nv
from whydrop.explaining.predicting.control.laws.law import Dctcp, Law, Reno, Scalable
from whydrop.explaining.predicting.control.laws.rtt_scaled import (
    Htcp,
    HtcpRoundedDown,
    Hybla,
    Westwood,
    WestwoodOfServer,
    WestwoodOfServerRoundedDown,
    WestwoodRoundedDown,
)

LAWS: tuple[type[Law], ...] = (
    Reno,
    Cubic,
    CubicWithoutHyStart,
    Dctcp,
    Vegas,
    Westwood,
    WestwoodOfServer,
    WestwoodOfServerRoundedDown,
    WestwoodRoundedDown,
    Illinois,
    IllinoisOfBusyHost,
    Htcp,
    HtcpRoundedDown,
    Hybla,
    Yeah,
    Scalable,
    Bic,
    Veno,
    Nv,
    Lp,
    Cdg,
)
