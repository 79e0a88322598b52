"""Output of other people's programs, read into rows: no processes, no clocks, text in and rows out."""
