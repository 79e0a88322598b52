"""A fleet of switches that never was: what they count, what clients' tests measure, and the truth about both.

    python -m bench.fleet --out DIR --sites dfw01,dfw02,lga01 --machines 4 --first-day 2018-02-01 --days 60 --seed 1

`plan` says what can be chosen, `traffic` what passes a port (load, bursts, discards), `polling` which of it polls see,
`clients` who tests and how fast, `truth` what a study of all that ought to find, `disco` writes telemetry as M-Lab's
collectors did, `writing` the store. Everything follows from the plan, its seed included.
"""

from .fleet import Fleet
from .plan import Plan
from .writing import write

__all__ = ["Fleet", "Plan", "write"]
