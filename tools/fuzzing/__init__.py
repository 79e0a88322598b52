"""Captures with mutated packets, and whydrop's results for them (``tools/fuzz_packets.py``)."""
