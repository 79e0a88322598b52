"""What other people's programs print, read into rows: no processes, no clocks, text in and rows out."""
