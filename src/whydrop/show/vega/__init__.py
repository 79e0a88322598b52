"""Figures for print: Vega-Lite draws them as PNG, SVG or PDF, without a browser."""

from whydrop.runtime import extras

extras.need("plots")
