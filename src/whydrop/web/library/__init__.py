"""The library: every recording, capture and store below the folders that a page may open, found by search."""
