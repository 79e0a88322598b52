"""A network in a box for tests: hosts, routers, rates, queues and delays out of Linux's own parts.

``docs/lab.md`` says how to write a test with it. A test asks for the fixture ``lab``; what its network needs of the
kernel (``netem``, ``fq_codel``, ...) stands in the marker ``needs_kernel``, and where this kernel lacks it the test
runs in a virtual machine instead.
"""

from lab.laboratory import Lab
from lab.network import Host, Interface, LabError, Network, Process
from lab.path import NetworkPath

__all__ = ["Host", "Interface", "Lab", "LabError", "Network", "NetworkPath", "Process"]
