"""Tests of recordings: writing, reading, series, importing, exporting, metadata."""
