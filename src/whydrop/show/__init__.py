"""Showing an explanation: as text, as charts for print, as an interactive report."""
