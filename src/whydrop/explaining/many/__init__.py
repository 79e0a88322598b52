"""Thousands of captures explained, each by itself, as tables of a store.

`finding` lists them, `workers` explain them in processes of their own, `rows` makes rows of what they find,
`explaining` puts these into a store, from this machine's workers or, by `spark`, from those of a cluster.
"""
