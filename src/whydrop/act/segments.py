"""Packets as large as this host's interface sends, and packets of usual size: measured in turns."""

from __future__ import annotations

from statistics import fmean

from whydrop.act.applying import leased
from whydrop.act.meter import ETHERNET_BYTES, Measuring, Reading
from whydrop.act.pacing import USUAL_MTU_BYTES, Route
from whydrop.act.sizes import Size, Sizes

# Each size is measured so often.
_ROUNDS = 2


def measured(meter: Measuring, route: Route, host: str) -> Sizes | None:
    """Measure with packets as large as they are, and with those of usual size, in turns; this host is as it was then.

    Returns:
        ``None`` where packets to the host are no larger than usual.

    Raises:
        NoMeasurementError, EngineError: the path cannot be measured.
        CannotChangeError: the route to the host cannot be changed.
    """
    if route.mtu_bytes <= USUAL_MTU_BYTES:
        return None
    large: list[Reading] = [meter.reading("large packets 1")]
    mtu_bytes = round(large[0].frame_bytes) - ETHERNET_BYTES
    if mtu_bytes <= USUAL_MTU_BYTES:
        return None
    usual: list[Reading] = []
    with leased(route.segmented(USUAL_MTU_BYTES), host) as lease:
        for number in range(1, _ROUNDS + 1):
            if number > 1:
                lease.off()
                large.append(meter.reading(f"large packets {number}"))
            lease.on()
            usual.append(meter.reading(f"packets of {USUAL_MTU_BYTES} bytes {number}"))
    return Sizes(_size(mtu_bytes, large), _size(USUAL_MTU_BYTES, usual))


def _size(mtu_bytes: int, readings: list[Reading]) -> Size:
    goodput_bps = fmean(one.goodput_bps for one in readings)
    return Size(mtu_bytes, goodput_bps, fmean(one.retransmitted for one in readings))
