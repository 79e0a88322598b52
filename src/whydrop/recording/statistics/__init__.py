"""Statistics of measurements: of samples, of speech, of differences between recordings.

Nothing here draws or prints; the command line imports it where it is needed.
"""
