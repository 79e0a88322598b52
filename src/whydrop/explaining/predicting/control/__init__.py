"""The congestion control of a sender, named from a capture at the sender or before the bottleneck."""
