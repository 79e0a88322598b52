"""Changes of this host: pacing and queues, planned, tried, proved, and taken back; nothing stays without a word."""
