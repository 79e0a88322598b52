"""Sampling over long times, into a store."""
