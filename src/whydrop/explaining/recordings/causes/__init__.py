"""Causes from measures: each module makes the findings of one subject."""
