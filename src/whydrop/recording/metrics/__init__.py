"""Measurements of recordings as numbers: one definition of each metric."""
