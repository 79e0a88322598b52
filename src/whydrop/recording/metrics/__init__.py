"""What recordings measured, as numbers: one definition of each metric."""
