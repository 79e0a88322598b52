"""The TCP connections of this host, sampled from its kernel and kept as a recording.

``selection`` says which connections; ``sampler`` is the thread (in Rust) that asks the kernel; ``connections`` makes
flows of a recording of them; ``limits`` says what limits each; ``host`` has the drops of this host; ``watch``
brings these together and writes the recording.
"""
