"""Analyses over many recordings and over stores: each asks a question that one measurement cannot answer."""

from whydrop.runtime import extras

extras.need("studies")
