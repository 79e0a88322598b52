"""Plots of recordings: a catalogue as data, one or many recordings, and everything drawn also as numbers."""
