"""How much the queue of a path holds, and how fast it drains: bursts of UDP packets, longer until some are lost.

``rounds`` is what can be sent and what bounds it, ``searching`` and ``counting`` choose the next round by what the ones
before found, ``trains`` sends them, ``measurement`` writes the recording, ``result`` is what came out.
"""
