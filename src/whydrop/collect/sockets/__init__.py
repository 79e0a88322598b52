"""This host's connections as its kernel knows them, sampled beside whatever runs, and kept as a recording.

``wanted`` says which connections; ``sampling`` has the thread (in Rust) that asks the kernel; ``connections`` makes
flows of a recording of them; ``limits`` says what limits each; ``watching`` holds these together and writes.
"""
