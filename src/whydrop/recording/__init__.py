"""Recordings: the one result format. A folder of Parquet files and ``recording.json``."""
