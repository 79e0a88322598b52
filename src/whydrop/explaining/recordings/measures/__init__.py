"""What a recording's tables say, in numbers with intervals; no causes."""
