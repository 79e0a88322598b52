"""Rolling capture: the packets of the last seconds on disk, kept and explained when a trigger fires."""
