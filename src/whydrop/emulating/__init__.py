"""Paths made real on this machine: a path to emulate, and the emulation in processes of its own."""
