"""Work in processes of its own: analyses, and tests that measure."""
