"""The limits of TCP connections: a study of TCP's own statistics, over any store that has them.

`queries` makes connections of samples (once, for every engine), `analysis` sums them up by site, day and clients'
network with intervals, `words` and `page` say what came of it.
"""
