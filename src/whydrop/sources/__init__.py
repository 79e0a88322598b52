"""Where evidence comes from: tests that are run here, programs of others, and files of other tools."""
