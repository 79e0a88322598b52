"""whydrop for programs that speak the Model Context Protocol: read-only, bounded, with packet numbers as citations."""

from whydrop.runtime import extras

extras.need("mcp")
