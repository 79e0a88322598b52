"""How much the queue of a path holds, and how fast it drains: bursts of UDP packets, longer until some are lost.

``rounds`` is what can be sent and what bounds it, ``searching`` chooses the next round by what the ones before found,
``responder`` and ``programs`` send it (``trains``), ``measurement`` writes the recording, ``result`` is the outcome.
"""
