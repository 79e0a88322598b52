"""TOML files that users write: read with line numbers, checked, and every mistake reported at its place."""
