"""Changes of this host: pacing and queues, planned, tried, proved and rolled back; no change stays unannounced."""
