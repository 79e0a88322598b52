"""Measuring a path: the catalogue of tests, plans, the programs that run them, runs and batches of runs."""
