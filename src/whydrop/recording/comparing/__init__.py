"""Differences between recordings, and how sure they are."""
