"""Search for the hop with the queue: packets that end at each hop, behind a burst that fills the queue, and without it.

``packets`` sends them and reads the answers of routers, ``probing`` knows the hops and the fate of each packet,
``turns`` sends bursts and controls in turns, ``judging`` compares the two for each hop, ``place`` is the outcome.
"""
