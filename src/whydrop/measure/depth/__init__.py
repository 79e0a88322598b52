"""How much the queue of a path holds, and how fast it drains: bursts of UDP packets, longer until some are lost.

``caps`` bounds what is sent, ``rounds`` is what can be sent, ``searching`` chooses the next round by what the ones
before found, ``measuring`` sends them and writes the recording, ``result`` is what came out.
"""
