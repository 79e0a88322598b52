"""Import and export: files of other tools and of measurement platforms, and how they are distinguished."""
