"""Captures whose packets are mutated, and what whydrop makes of them (``tools/fuzz_packets.py``)."""
