"""Batches: many runs described in one TOML file, expanded, planned, run one after another, and resumed."""
