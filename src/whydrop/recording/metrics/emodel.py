"""Speech quality as the E-model predicts it: Recommendation ITU-T G.107 (06/2015), all symbols as there.

Delay and loss come from the measurement; everything else is at the default values of G.107's table 2, except for the
two numbers that describe a codec's reaction to loss, which are those of G.711 in G.113 appendix I (05/2007). The model
is meant for planning: it rates an average listener's opinion of a narrow-band call, not this call's recording.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]


# G.711 without concealment of losses: impairment without loss, robustness against random loss (G.113 appendix I).
_IE, _BPL = 0.0, 4.3
# Default values, G.107 (06/2015) table 2.
_SLR, _RLR = 8.0, 2.0  # loudness ratings, dB
_STMR, _DR, _DS = 15.0, 3.0, 3.0  # sidetone masking rating, dB; D factors of the telephones
_LSTR = 18.0  # listener's sidetone rating, dB: STMR + Dr
_TELR, _WEPL = 65.0, 110.0  # talker echo loudness rating, weighted echo path loss, dB
_QDU = 1.0  # quantising distortion units
_NC, _NFOR = -70.0, -64.0  # circuit noise, dBm0p; noise floor at the receiver, dBmp
_PS, _PR = 35.0, 35.0  # room noise where one sends and receives, dB(A)
_MIN_DELAY_MS, _SENSITIVITY = 100.0, 1.0  # mT and sT: the largest delay that is not noticed; sensitivity above it


def _noise() -> float:
    """No, equations 7-3 to 7-7: the sum of all noise, dBm0p."""
    olr = _SLR + _RLR
    sent = _PS - _SLR - _DS - 100 + 0.004 * (_PS - olr - _DS - 14) ** 2
    room = _PR + 10 * np.log10(1 + 10 ** ((10 - _LSTR) / 10))
    received = _RLR - 121 + room + 0.008 * (room - 35) ** 2
    floor = _NFOR + _RLR
    return float(10 * np.log10(sum(10 ** (level / 10) for level in (_NC, sent, received, floor))))


def _simultaneous(noise: float, ratio: float) -> float:
    """Is, equations 7-8 to 7-17: loudness, sidetone and quantising, at no delay."""
    excess = _SLR + _RLR + 0.2 * (64 + noise - _RLR)
    loudness = 20 * ((1 + (excess / 8) ** 8) ** (1 / 8) - excess / 8)
    stmr = -10 * np.log10(10 ** (-_STMR / 10) + 10 ** (-_TELR / 10))
    sidetone = (
        12 * (1 + ((stmr - 13) / 6) ** 8) ** (1 / 8)
        - 28 * (1 + ((stmr + 1) / 19.4) ** 35) ** (1 / 35)
        - 13 * (1 + ((stmr - 3) / 33) ** 13) ** (1 / 13)
        + 29
    )
    q = 37 - 15 * np.log10(_QDU)
    g = 1.07 + 0.258 * q + 0.0602 * q**2
    y, z = (ratio - 100) / 15 + 46 / 8.4 - g / 9, 46 / 30 - g / 40
    quantising = 15 * np.log10(1 + 10**y + 10**z)
    return float(loudness + sidetone + quantising)


_NO = _noise()
_RO = 15 - 1.5 * (_SLR + _NO)  # equation 7-2
_IS = _simultaneous(_NO, _RO)


def delay_impairment(one_way_delay_ms: ArrayLike) -> Values:
    """Id, equations 7-18 to 7-28, for T = Ta and a round trip Tr = 2 T.

    >>> float(delay_impairment(400.0).round(1))
    31.1
    """
    t = np.maximum(np.asarray(one_way_delay_ms, dtype=float), 0.0)
    masked = _TELR - 40 * np.log10((1 + t / 10) / (1 + t / 150)) + 6 * np.exp(-0.3 * t**2)
    roe, re = -1.5 * (_NO - _RLR), 80 + 2.5 * (masked - 14)
    talker = ((roe - re) / 2 + np.sqrt((roe - re) ** 2 / 4 + 100) - 1) * (1 - np.exp(-t))
    talker = np.where(t < 1, 0.0, talker)
    rle = 10.5 * (_WEPL + 7) * (2 * t + 1) ** -0.25
    listener = (_RO - rle) / 2 + np.sqrt((_RO - rle) ** 2 / 4 + 169)
    return np.asarray(talker + listener + _too_long(t))


def _too_long(t: Values) -> Values:
    """Idd, equations 7-27 and 7-28: delay that disturbs a conversation even without echo."""
    x = np.log2(np.maximum(t, _MIN_DELAY_MS) / _MIN_DELAY_MS)
    power = 6 * _SENSITIVITY
    return np.asarray(25 * ((1 + x**power) ** (1 / power) - 3 * (1 + (x / 3) ** power) ** (1 / power) + 2))


def loss_impairment(loss: ArrayLike) -> Values:
    """Ie,eff, equation 7-29, of independent losses (BurstR = 1). ``loss`` is a share from 0 to 1."""
    percent = 100 * np.clip(np.asarray(loss, dtype=float), 0.0, 1.0)
    return np.asarray(_IE + (95 - _IE) * percent / (percent + _BPL))


def rating(one_way_delay_ms: ArrayLike, loss: ArrayLike = 0.0) -> Values:
    """R, equation 7-1, from 0 to about 93; without an advantage factor (A = 0).

    >>> float(rating(0.0).round(1))
    93.2
    """
    return np.asarray(_RO - _IS - delay_impairment(one_way_delay_ms) - loss_impairment(loss))


def opinion(r: ArrayLike) -> Values:
    """The mean opinion score of a rating, G.107 annex B, equation B-4: from 1 (bad) to 4.5 (excellent).

    Below R = 6.5 the equation itself falls under 1, which no opinion can: those are 1.

    >>> float(opinion(93.2).round(2))
    4.41
    """
    x = np.clip(np.asarray(r, dtype=float), 0.0, 100.0)
    return np.asarray(np.clip(1 + 0.035 * x + x * (x - 60) * (100 - x) * 7e-6, 1.0, 4.5))


def mouth_to_ear_ms(one_way_delay_ms: ArrayLike, jitter_ms: ArrayLike) -> Values:
    """The delay by the network and the receiver's jitter buffer, without the codec's own time.

    A buffer of twice the mean of the absolute IPDV (RFC 3393): the usual rule of thumb for fixed buffers, also Flent's.
    """
    return np.asarray(np.asarray(one_way_delay_ms, dtype=float) + 2 * np.asarray(jitter_ms, dtype=float))


def mean_opinion_score(one_way_delay_ms: ArrayLike, jitter_ms: ArrayLike = 0.0, loss: ArrayLike = 0.0) -> Values:
    """MOS of a stream: ``one_way_delay_ms`` is of the network (not a round trip), ``loss`` a share from 0 to 1."""
    return opinion(rating(mouth_to_ear_ms(one_way_delay_ms, jitter_ms), loss))
