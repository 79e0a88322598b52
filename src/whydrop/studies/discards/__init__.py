"""Do a site's switch discards keep its clients' downloads slow? The study of discards, over any store.

After M-Lab's report on switch discards: seven figures and a list of tests. Each is defined twice: as it was published,
its faults included, so that published numbers can be had again; and corrected, which is the default. `parameters` says
what can be chosen, `results` what comes out, `queries` computes it (once, for every engine), `inference` draws the
conclusions, `report` writes them down.
"""
