"""Statistics of measurements: of samples, of speech, of differences between recordings.

Nothing here draws or prints; numpy and scipy are imported inside, so that the command line starts without them.
"""
