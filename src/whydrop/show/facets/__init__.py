"""Grids of small pictures of any table: one picture for each figure, a panel for each place, a look for each group.

After the plots of M-Lab's report on switch discards, which are all made from one frame of figure, panel, group, x and
y. What a picture looks like is data: `schema` says what a catalogue may hold, `tables` makes the frame from tables,
`building` lays it out, `drawing` draws it.
"""
