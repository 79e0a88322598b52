"""Measures of a recording's tables: numbers with intervals; no causes."""
